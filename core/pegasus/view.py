"""``ClusterView``: tables, partitions, nodes and disks as integer-coded columns.

What every kernel of this package works on. Rows are partitions, table by table in id order and
within a table by index, the order in which Pegasus goes through them (gpid order).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pegasus.ids import gpid_text, parse_node

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]
NO_NODE: Final = -1


@dataclass(frozen=True)
class ClusterView:
    """One state of a cluster.

    Attributes:
        nodes: Names ``host:port`` in the balancer's own numbering: upstream the iteration order of
            a hash map, which breaks ties. Kernels call a node by its place here, 0 first.
        disks: Disk tags, sorted; the code of a tag is its place here.
        app_ids: Shape ``(n_tables,)``, ascending.
        app_names: The same tables.
        max_replica_counts: Shape ``(n_tables,)``.
        is_balanceable: Shape ``(n_tables,)``: available, not in a bulk load, not splitting.
        first_rows: Shape ``(n_tables + 1,)``: rows of table t are ``first_rows[t]`` up to, without,
            ``first_rows[t + 1]``.
        members: Shape ``(n_partitions, n_roles)``: node codes; column 0 is the primary, the others
            are the secondaries in their order; ``NO_NODE`` where there is none.
        member_disks: The same shape: codes of the disks; ``NO_NODE``: unknown or no replica.
        node_disks: Per node the disks a new replica may go to, in the order of ``data_dirs``.
        children: Rows of the children of a partition split that have not registered: they have no
            members, and their parents serve their clients.
    """

    nodes: tuple[str, ...]
    disks: tuple[str, ...]
    app_ids: Ints
    app_names: tuple[str, ...]
    max_replica_counts: Ints
    is_balanceable: Flags
    first_rows: Ints
    members: Ints
    member_disks: Ints
    node_disks: tuple[tuple[int, ...], ...]
    children: frozenset[int] = frozenset()

    @property
    def is_child(self) -> Flags | None:
        """Rows of unregistered children, shape ``(n_partitions,)``, or ``None``."""
        if not self.children:
            return None
        found = np.zeros(self.partition_count, dtype=np.bool_)
        found[list(self.children)] = True
        return found

    @property
    def splitting_tables(self) -> tuple[str, ...]:
        """Names of the tables with unregistered children, by id."""
        places = sorted({int(self.table_of_row[row]) for row in self.children})
        return tuple(self.app_names[place] for place in places)

    @property
    def table_count(self) -> int:
        """Number of tables."""
        return len(self.app_ids)

    @property
    def partition_count(self) -> int:
        """Number of partitions of all tables."""
        return len(self.members)

    @cached_property
    def partition_counts(self) -> Ints:
        """Partitions per table, shape ``(n_tables,)``."""
        return np.diff(self.first_rows).astype(np.int32)

    @cached_property
    def table_of_row(self) -> Ints:
        """The table (place, not id) of every partition, shape ``(n_partitions,)``."""
        tables = np.arange(self.table_count, dtype=np.int32)
        return np.repeat(tables, self.partition_counts)

    @cached_property
    def host_ranks(self) -> Ints:
        """The place of every node in Pegasus' order of names, shape ``(n_nodes,)``."""
        order = sorted(range(len(self.nodes)), key=lambda node: parse_node(self.nodes[node]))
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        return ranks

    @cached_property
    def primary_counts(self) -> Ints:
        """Primaries per table and node, shape ``(n_tables, n_nodes)``."""
        return self._counts(self.members[:, :1])

    @cached_property
    def replica_counts(self) -> Ints:
        """Replicas of either role per table and node, shape ``(n_tables, n_nodes)``."""
        return self._counts(self.members)

    @property
    def has_unknown_disk(self) -> bool:
        """Whether the disk of some replica is unknown."""
        return bool(self.is_disk_unknown.any())

    @cached_property
    def is_disk_unknown(self) -> Flags:
        """Replicas whose disk is unknown, shape ``(n_partitions, n_roles)``."""
        return np.asarray((self.member_disks == NO_NODE) & (self.members != NO_NODE))

    def _counts(self, members: Ints) -> Ints:
        rows, columns = np.nonzero(members != NO_NODE)
        shape = (self.table_count, len(self.nodes))
        at = self.table_of_row[rows].astype(np.int64) * shape[1] + members[rows, columns]
        return np.bincount(at, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int32)

    def rows_of(self, table: int) -> range:
        """Return the rows of a table's partitions."""
        return range(int(self.first_rows[table]), int(self.first_rows[table + 1]))

    def gpid(self, row: int) -> tuple[int, int]:
        """Return ``(app_id, partition_index)`` of a row."""
        table = int(self.table_of_row[row])
        return int(self.app_ids[table]), row - int(self.first_rows[table])

    def gpid_text(self, row: int) -> str:
        """Return ``app.index`` of a row."""
        return gpid_text(*self.gpid(row))

    def with_members(self, members: Ints, member_disks: Ints) -> ClusterView:
        """Return the same cluster with other replicas."""
        return replace(self, members=members, member_disks=member_disks)

    def renumbered(self, nodes: Sequence[str]) -> ClusterView:
        """Return the same cluster with its nodes in another order, the one that breaks ties.

        Args:
            nodes: The same names, each once.
        """
        codes = {name: code for code, name in enumerate(nodes)}
        # the last place is that of NO_NODE, which is -1
        new = np.array([*(codes[name] for name in self.nodes), NO_NODE], dtype=np.int32)
        place = {name: at for at, name in enumerate(self.nodes)}
        return replace(
            self,
            nodes=tuple(nodes),
            members=new[self.members],
            node_disks=tuple(self.node_disks[place[name]] for name in nodes),
        )
