"""``PegasusTape``: one window of a Pegasus cluster's record as dense columns.

Load belongs to the partition: what its primary served, whichever node that was. Rows are
partitions, all that were there at some minute of the window, in the order of table and index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

Times = NDArray[np.int64]
Rates = NDArray[np.float32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowChange:
    """Partitions whose recorded members are others from a minute on.

    Attributes:
        rows: Shape ``(n,)``.
        members: Shape ``(n, n_roles)``, ``NO_NODE`` everywhere: the partition is gone.
    """

    rows: Ints
    members: Ints


@dataclass(frozen=True, eq=False)
class PegasusTape:
    """Recorded cluster.

    Attributes:
        cluster: Its name.
        at_ms: Shape ``(n_minutes,)``, ascending.
        start: The cluster at the first minute: every node, table and partition of the window; a
            partition that came later has no member yet. One role wider than any partition wants.
        is_alive: Shape ``(n_minutes, n_nodes)``.
        exists: Shape ``(n_minutes, n_partitions)``.
        reads: Requests/s to the primary, shape ``(n_minutes, n_partitions)``; unknown minutes have
            the last known value.
        writes: The same of writes, which secondaries serve, too.
        size_mb: Shape ``(n_partitions,)``: of one replica; 0: unknown.
        changes: What became of members in the record, by minute.
        settings: What the meta server reported, each from a minute on; the first from minute 0.
        receive_mb_per_s: Shape ``(n_nodes,)``: how fast a node is copied onto.
        send_mb_per_s: Shape ``(n_nodes,)``: how fast it is copied from.
    """

    cluster: str
    at_ms: Times
    start: ClusterView
    is_alive: Flags
    exists: Flags
    reads: Rates
    writes: Rates
    size_mb: Floats
    changes: Mapping[int, RowChange]
    settings: tuple[tuple[int, Mapping[str, str]], ...]
    receive_mb_per_s: Floats
    send_mb_per_s: Floats

    @property
    def minute_count(self) -> int:
        """Number of recorded minutes."""
        return len(self.at_ms)

    @cached_property
    def wanted(self) -> Ints:
        """Replicas that every partition wants, shape ``(n_partitions,)``."""
        return self.start.max_replica_counts[self.start.table_of_row]

    def settings_at(self, minute: int) -> Mapping[str, str]:
        """Return the meta server's latest settings up to a minute."""
        return next(reported for since, reported in reversed(self.settings) if since <= minute)

    def node_rates(self, members: Ints, minute: int) -> Floats:
        """Return requests/s by node were these the members.

        Args:
            members: Shape ``(n_partitions, n_roles)``.
            minute: Whose load.
        """
        return node_rates(members, self.reads[minute], self.writes[minute], len(self.start.nodes))


def node_rates(members: Ints, reads: Rates, writes: Rates, node_count: int) -> Floats:
    """Return requests/s by node: primaries serve reads and writes, secondaries writes.

    Args:
        members: Shape ``(n_partitions, n_roles)``, the primary first.
        reads: Shape ``(n_partitions,)``.
        writes: Shape ``(n_partitions,)``.
    """
    total = np.zeros(node_count)
    for role in range(members.shape[1]):
        held = members[:, role]
        there = held != NO_NODE
        rates = reads + writes if role == 0 else writes
        total += np.bincount(held[there], weights=rates[there], minlength=node_count)
    return total
