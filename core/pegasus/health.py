"""Health of partitions: five states, and three countings that disagree on purpose.

Each counting has its name, and whoever shows one names it:

* ``states``: the five states of the meta server's metrics;
* ``listed``: what ``ls -d``, ``app -d``, ``/meta/app`` and ``/meta/apps`` count;
* ``guardian``: what the guardian calls healthy; only when all are does the balancer run.

Source: Pegasus ``health_status``, ``table_management`` and ``partition_guardian``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

_LISTED_WRITABLE = 2
"""Replicas from which the listed counting calls a partition writable, whatever the minimum is."""


class HealthState(enum.IntEnum):
    """The five states, worst first, numbers as in the metrics; and one that is none of them.

    The metrics count a child of a partition split that has not registered yet as dead, though its
    parent serves every client of it: here that is a state of its own.
    """

    DEAD = 0
    UNREADABLE = 1
    UNWRITABLE = 2
    WRITABLE_ILL = 3
    HEALTHY = 4
    SPLITTING = 5

    @property
    def sentence(self) -> str:
        """Meaning of the state for a client."""
        return _MEANINGS[self]


_MEANINGS = {
    HealthState.DEAD: "No replica: reads and writes fail.",
    HealthState.UNREADABLE: "No primary: reads and writes fail until one is elected.",
    HealthState.UNWRITABLE: "Too few replicas: reads work, writes are refused.",
    HealthState.WRITABLE_ILL: "Reads and writes work with fewer replicas than configured.",
    HealthState.HEALTHY: "All replicas are present.",
    HealthState.SPLITTING: "Its parent serves it until it is registered.",
}
UNREGISTERED: Final = -1
"""Ballot of a child of a partition split that has not registered (``invalid_ballot``)."""


@dataclass(frozen=True)
class Membership:
    """Columns that determine health, one row per partition.

    Attributes:
        has_primary: Shape ``(n,)``.
        secondary_counts: Shape ``(n,)``.
        max_replica_counts: Shape ``(n,)``: wanted replicas.
        tables: Shape ``(n,)``: place of the table.
        is_child: Shape ``(n,)``: an unregistered child of a partition split; ``None`` if there are
            none.
    """

    has_primary: Flags
    secondary_counts: Ints
    max_replica_counts: Ints
    tables: Ints
    is_child: Flags | None = None

    @classmethod
    def of(cls, view: ClusterView) -> Membership:
        """Read a view."""
        return cls(
            has_primary=view.members[:, 0] != NO_NODE,
            secondary_counts=(view.members[:, 1:] != NO_NODE).sum(axis=1, dtype=np.int32),
            max_replica_counts=view.max_replica_counts[view.table_of_row],
            tables=view.table_of_row,
            is_child=view.is_child,
        )

    @property
    def replica_counts(self) -> NDArray[np.int32]:
        """Members a partition, shape ``(n,)``."""
        return self.has_primary.astype(np.int32) + self.secondary_counts


def min_2pc_count(max_replica_count: int, configured: int = 2) -> int:
    """Return the number of replicas that a write needs.

    Args:
        max_replica_count: Wanted replicas.
        configured: ``mutation_2pc_min_replica_count``, 2 as compiled and as shipped; 0: more than
            half, or one of one or two.
    """
    if configured > 0:
        return configured
    return 1 if max_replica_count <= 2 else max_replica_count // 2 + 1


def needed_replicas(wanted: Ints, configured: Ints | int = 2) -> Ints:
    """Return the replicas that a write needs, one row per partition; see :func:`min_2pc_count`.

    Args:
        wanted: Shape ``(n,)``: wanted replicas.
        configured: ``mutation_2pc_min_replica_count``, of all or of each.
    """
    most = np.where(wanted <= 2, 1, wanted // 2 + 1)  # as min_2pc_count
    return np.asarray(np.where(np.asarray(configured) > 0, configured, most), dtype=np.int32)


def refuses_writes(membership: Membership, needed: Ints) -> Flags:
    """Return the partitions whose primary refuses every write: too few replicas.

    Source: Pegasus ``replica::on_client_write``: ``ERR_NOT_ENOUGH_MEMBER``.

    Args:
        membership: Shape ``(n,)`` columns.
        needed: Shape ``(n,)``: replicas that a write needs, by the flag of the primary's server.
    """
    return np.logical_and(membership.has_primary, membership.replica_counts < needed)


def health_states(membership: Membership, configured_min_2pc_count: int = 2) -> NDArray[np.int8]:
    """Return the state of every partition, counting ``states``.

    Args:
        membership: Shape ``(n,)`` columns.
        configured_min_2pc_count: ``mutation_2pc_min_replica_count``; 0: more than half.

    Returns:
        Shape ``(n,)``: numbers of :class:`HealthState`.
    """
    needed = needed_replicas(membership.max_replica_counts, configured_min_2pc_count)
    held = membership.replica_counts
    with_primary = np.where(
        held < needed,
        HealthState.UNWRITABLE,
        np.where(
            held < membership.max_replica_counts, HealthState.WRITABLE_ILL, HealthState.HEALTHY
        ),
    )
    without = np.where(membership.secondary_counts > 0, HealthState.UNREADABLE, HealthState.DEAD)
    states = np.where(membership.has_primary, with_primary, without).astype(np.int8)
    if membership.is_child is not None:
        states[membership.is_child] = HealthState.SPLITTING
    return states


def state_counts(states: NDArray[np.int8], tables: Ints, table_count: int) -> NDArray[np.int64]:
    """Return partitions per table and state, shape ``(n_tables, 6)``."""
    kinds = len(HealthState)
    at = tables.astype(np.int64) * kinds + states
    return np.bincount(at, minlength=table_count * kinds).reshape(table_count, kinds)


@dataclass(frozen=True)
class ListedHealth:
    """The counting ``listed``, a row a table, shape ``(n_tables,)`` each.

    A partition is unhealthy for writes with fewer than two replicas, whatever the configured
    minimum; so this may call writable what the five states call unwritable.
    """

    fully_healthy: NDArray[np.int64]
    unhealthy: NDArray[np.int64]
    write_unhealthy: NDArray[np.int64]
    read_unhealthy: NDArray[np.int64]

    @classmethod
    def of(cls, membership: Membership, table_count: int) -> ListedHealth:
        """Count."""
        held = membership.replica_counts
        is_full = membership.has_primary & (held >= membership.max_replica_counts)
        is_scarce = membership.has_primary & ~is_full & (held < _LISTED_WRITABLE)
        headless = ~membership.has_primary

        def per_table(rows: Flags) -> NDArray[np.int64]:
            return np.bincount(membership.tables[rows], minlength=table_count)

        return cls(
            fully_healthy=per_table(is_full),
            unhealthy=per_table(~is_full),
            write_unhealthy=per_table(is_scarce | headless),
            read_unhealthy=per_table(headless),
        )


def guardian_healthy(membership: Membership, has_pending: Flags) -> Flags:
    """Return the partitions that the guardian treats as healthy, shape ``(n,)``.

    Exactly the wanted replicas (one too many is unhealthy), a primary, and nothing pending. It
    does not look at an unregistered child of a partition split, so that is not unhealthy either;
    nothing is balanced before every child has registered.

    Source: Pegasus ``server_state::check_all_partitions``.
    """
    is_exact: Flags = membership.replica_counts == membership.max_replica_counts
    is_fine: Flags = membership.has_primary & is_exact & ~has_pending
    return is_fine if membership.is_child is None else np.logical_or(is_fine, membership.is_child)
