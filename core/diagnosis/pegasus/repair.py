"""What the guardian makes of a state with lost replicas, all of its cures executed.

The kernel of :mod:`core.pegasus.guardian` says what is sent next for one partition, with the meta
server's memory of it; here the same rules are followed to their end for a whole state, without that
memory: every lost secondary is replaced as if nobody had held it before.

Source: Pegasus ``partition_guardian`` and ``newly_partitions`` (2.6.0-SNAPSHOT, db756dc).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from core.pegasus.health import Membership, guardian_healthy
from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Repairs that the guardian may make.

    Attributes:
        adds: Secondaries may be added: flow control leaves some a tick.
        excluded: Names of the nodes that never get a new secondary.
        refusing: Names of nodes whose disks are full: chosen all the same, in vain.
        returns: Row to node name: a partition without any replica gets this primary back.
        more_nodes: Empty nodes that join first.
    """

    adds: bool = True
    excluded: frozenset[str] = frozenset()
    refusing: frozenset[str] = frozenset()
    returns: Mapping[int, str] = field(default_factory=dict)
    more_nodes: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Its identity."""
        returns = tuple(sorted(self.returns.items()))
        return self.adds, self.excluded, self.refusing, returns, self.more_nodes


def unhealthy_rows(view: ClusterView) -> NDArray[np.int64]:
    """Return the rows that hold the balancer back: without exactly their replicas."""
    nothing = np.zeros(view.partition_count, dtype=np.bool_)
    return np.flatnonzero(~guardian_healthy(Membership.of(view), nothing))


def with_nodes(view: ClusterView, names: Iterable[str]) -> ClusterView:
    """Return the state with more, empty nodes; those that it has already stay as they are."""
    added = [name for name in dict.fromkeys(names) if name not in view.nodes]
    if not added:
        return view
    disks = (tuple(range(len(view.disks))),) * len(added)
    return replace(view, nodes=(*view.nodes, *added), node_disks=(*view.node_disks, *disks))


def without_nodes(view: ClusterView, gone: Flags) -> ClusterView:
    """Return the state without nodes, and without what they held.

    Args:
        view: The state.
        gone: Shape ``(n_nodes,)``.
    """
    if not gone.any():
        return view
    left = np.flatnonzero(~gone)
    code = np.full(len(gone) + 1, NO_NODE, dtype=np.int32)  # the last place is that of NO_NODE
    code[left] = np.arange(len(left))
    members = code[view.members]
    disks = np.where(members == NO_NODE, NO_NODE, view.member_disks)
    # secondaries move up; the primary's place stays empty without one
    order = np.argsort(members[:, 1:] == NO_NODE, axis=1, kind="stable") + 1
    order = np.hstack([np.zeros((len(members), 1), dtype=order.dtype), order])
    return replace(
        view,
        nodes=tuple(view.nodes[at] for at in left.tolist()),
        node_disks=tuple(view.node_disks[at] for at in left.tolist()),
        members=np.take_along_axis(members, order, axis=1),
        member_disks=np.take_along_axis(disks, order, axis=1).astype(np.int32),
    )


def repaired(view: ClusterView, repair: Repair) -> ClusterView:
    """Return the state after every cure that the guardian can make.

    Args:
        view: Living nodes only.
        repair: What it may do.

    Cost:
        One pass of Python over unhealthy partitions; each looks at all nodes.
    """
    if repair.more_nodes:
        view = with_nodes(view, [f"new-node-{at + 1}:34801" for at in range(repair.more_nodes)])
    view = with_nodes(view, repair.returns.values())
    rows = unhealthy_rows(view)
    if not rows.size or not view.nodes:
        return view
    most = max(int(view.max_replica_counts.max()), view.members.shape[1])
    spare = ((0, 0), (0, most - view.members.shape[1]))
    members = np.pad(view.members, spare, constant_values=NO_NODE)
    disks = np.pad(view.member_disks, spare, constant_values=NO_NODE)
    cures = _CureCounts.of(view, repair)
    for row in rows.tolist():
        table = int(view.table_of_row[row])
        held = cures.cured(row, table, members[row].tolist(), disks[row].tolist())
        members[row], disks[row] = NO_NODE, NO_NODE
        for role, (node, disk) in enumerate(held):
            members[row, role], disks[row, role] = node, disk
    return view.with_members(members, disks)


@dataclass
class _CureCounts:
    """Counts that move with every cure."""

    view: ClusterView
    repair: Repair
    led: Ints
    held: Ints
    is_open: Flags

    @classmethod
    def of(cls, view: ClusterView, repair: Repair) -> _CureCounts:
        is_open = np.array([name not in repair.excluded for name in view.nodes], dtype=np.bool_)
        return cls(view, repair, view.primary_counts.copy(), view.replica_counts.copy(), is_open)

    def cured(
        self, row: int, table: int, nodes: list[int], disks: list[int]
    ) -> list[tuple[int, int]]:
        """Return the members of a partition, with their disks, the primary first."""
        held = list(zip(nodes, disks, strict=True))
        primary, rest = held[0], [one for one in held[1:] if one[0] != NO_NODE]
        if primary[0] == NO_NODE:
            chosen = self._primary(row, table, [node for node, _ in rest])
            if chosen is None:
                return [(NO_NODE, NO_NODE), *rest]
            primary = next((one for one in rest if one[0] == chosen), (chosen, NO_NODE))
            if primary in rest:
                rest.remove(primary)
            else:
                self.held[table, chosen] += 1
            self.led[table, chosen] += 1
        wanted = int(self.view.max_replica_counts[table])
        while 1 + len(rest) > wanted:
            totals = self.held.sum(axis=0)
            most = max(rest, key=lambda one: totals[one[0]])
            rest.remove(most)
            self.held[table, most[0]] -= 1
        while self.repair.adds and 1 + len(rest) < wanted:
            node = self._free(table, [primary[0], *(node for node, _ in rest)])
            if node is None or self.view.nodes[node] in self.repair.refusing:
                break
            self.held[table, node] += 1
            rest.append((node, self.view.node_disks[node][0] if self.view.node_disks[node] else -1))
        return [primary, *rest]

    def _primary(self, row: int, table: int, secondaries: list[int]) -> int | None:
        if not secondaries:
            back = self.repair.returns.get(row)
            return None if back is None else self.view.nodes.index(back)
        led, held = self.led, self.held
        return min(
            secondaries,
            key=lambda node: (
                led[table, node],
                held[table, node],
                led[:, node].sum(),
                held[:, node].sum(),
            ),
        )

    def _free(self, table: int, members: list[int]) -> int | None:
        is_free = self.is_open.copy()
        is_free[members] = False
        nodes = np.flatnonzero(is_free)
        if not nodes.size:
            return None
        totals = self.held.sum(axis=0)
        return int(nodes[np.lexsort((totals[nodes], self.held[table, nodes]))[0]])
