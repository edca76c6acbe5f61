"""The simulated cluster: who holds what, and what is under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from core.history.backtest.pegasus.tape import Floats, PegasusTape, RowChange
from core.pegasus.balance.model import BalancePlan, ConfigType, PlanKind
from core.pegasus.balance.rounds import apply_plans
from core.pegasus.config_context import record_change
from core.pegasus.partition import DroppedReplica, PartitionConfig, PartitionMemory
from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

_MOST_DROPS = 3
_KNOWN = 0
"""Ballot and decrees of a replica that left: all the same, since writes are not simulated."""
_MAX_RESERVED = 0
"""``max_reserved_dropped_replicas`` of the shipped configuration."""


@dataclass
class Fleet:
    """The cluster's state, in the numbering of the tape.

    Attributes:
        tape: The record.
        order: Node codes in the order that breaks ties.
        view: Every node, every partition; dead nodes hold nothing.
        alive: Shape ``(n_nodes,)``.
        exists: Shape ``(n_partitions,)``.
        dropped: By row, the replicas that left and that the meta server keeps in its list.
        version: Grows whenever a node's role changes.
    """

    tape: PegasusTape
    order: Ints
    view: ClusterView
    alive: Flags
    exists: Flags
    dropped: dict[int, tuple[DroppedReplica, ...]] = field(default_factory=dict)
    version: int = 0
    _seen: tuple[ClusterView, Ints] | None = None

    @classmethod
    def begun(cls, tape: PegasusTape, seed: int) -> Fleet:
        """Return the cluster at the first minute.

        Args:
            tape: The record.
            seed: Of the order of nodes that breaks ties, which upstream follows from a hash map
                and no request returns; 0: by host and port.
        """
        count = len(tape.start.nodes)
        order = np.arange(count, dtype=np.int32)
        if seed:
            order = np.random.default_rng(seed).permutation(count).astype(np.int32)
        start = tape.start
        own = start.with_members(start.members.copy(), start.member_disks.copy())
        return cls(tape, order, own, tape.is_alive[0].copy(), tape.exists[0].copy())

    # -- looking --------------------------------------------------------------------------------

    @property
    def members(self) -> Ints:
        """Shape ``(n_partitions, n_roles)``."""
        return self.view.members

    def replica_counts(self) -> Ints:
        """Members of every partition, shape ``(n_partitions,)``."""
        counts: Ints = (self.members != NO_NODE).sum(axis=1, dtype=np.int32)
        return counts

    def ill_rows(self) -> list[int]:
        """Return partitions that lack a primary or have not exactly the wanted replicas."""
        is_ill = (self.replica_counts() != self.tape.wanted) | (self.members[:, 0] == NO_NODE)
        found: list[int] = np.nonzero(is_ill & self.exists)[0].tolist()
        return found

    def living(self) -> tuple[ClusterView, Ints]:
        """Return the cluster as the balancer sees it, and the row of the tape of each of its rows.

        Living nodes in the order that breaks ties, partitions that exist; roles as wide as wanted.
        """
        if self._seen is None:
            self._seen = self._living()
        return self._seen

    def _living(self) -> tuple[ClusterView, Ints]:
        whole = self.view
        nodes = [int(node) for node in self.order if self.alive[node]]
        codes = np.full(len(whole.nodes) + 1, NO_NODE, dtype=np.int32)
        codes[nodes] = np.arange(len(nodes), dtype=np.int32)
        rows = np.nonzero(self.exists)[0].astype(np.int32)
        tables, counts = np.unique(whole.table_of_row[rows], return_counts=True)
        wide = int(whole.max_replica_counts.max(initial=1))
        seen = ClusterView(
            nodes=tuple(whole.nodes[node] for node in nodes),
            disks=whole.disks,
            app_ids=whole.app_ids[tables],
            app_names=tuple(whole.app_names[table] for table in tables.tolist()),
            max_replica_counts=whole.max_replica_counts[tables],
            is_balanceable=whole.is_balanceable[tables],
            first_rows=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            members=codes[whole.members[rows, :wide]],
            member_disks=whole.member_disks[rows, :wide],
            node_disks=tuple(whole.node_disks[node] for node in nodes),
        )
        return seen, rows

    def config(self, row: int) -> PartitionConfig:
        """Return a partition in the form that the guardian takes."""
        app_id, index = self.view.gpid(row)
        primary, *others = self.members[row].tolist()
        names = self.view.nodes
        left = tuple(one.node for one in self.dropped.get(row, ())[-_MOST_DROPS:])
        return PartitionConfig(
            app_id=app_id,
            index=index,
            ballot=_KNOWN,
            max_replica_count=int(self.tape.wanted[row]),
            primary=None if primary == NO_NODE else names[primary],
            secondaries=tuple(names[node] for node in others if node != NO_NODE),
            last_drops=left,
            last_committed_decree=_KNOWN,
        )

    def memory(self, row: int) -> PartitionMemory:
        """Return the meta server's memory of a partition."""
        return PartitionMemory(dropped=self.dropped.get(row, ()))

    # -- changing -------------------------------------------------------------------------------

    def kill(self, nodes: Sequence[int], now_ms: int) -> list[int]:
        """Take nodes away with all they hold; return the partitions that lost a member."""
        self.alive[list(nodes)] = False
        lost = np.isin(self.members, list(nodes))
        rows: list[int] = np.nonzero(lost.any(axis=1))[0].tolist()
        left = {row: self.members[row][lost[row]].tolist() for row in rows}
        members, disks = self.members.copy(), self.view.member_disks.copy()
        members[lost] = NO_NODE
        disks[lost] = NO_NODE
        for row in rows:
            _close_ranks(members[row], disks[row])
        self._put(members, disks)
        for row, gone in left.items():
            for node in gone:
                self._record(row, ConfigType.DOWNGRADE_TO_INACTIVE, node, now_ms)
        return rows

    def revive(self, nodes: Sequence[int]) -> None:
        """Let nodes come back, or join, with nothing that counts yet."""
        self.alive[list(nodes)] = True
        self._seen = None

    def follow(self, change: RowChange, exists: Flags) -> None:
        """Let partitions come as recorded and go as recorded; those that stay are left alone."""
        came = exists & ~self.exists
        gone = self.exists & ~exists
        if not came.any() and not gone.any():
            return
        members, disks = self.members.copy(), self.view.member_disks.copy()
        members[gone], disks[gone] = NO_NODE, NO_NODE
        for row, held in zip(change.rows.tolist(), change.members, strict=True):
            if came[row]:
                is_living = (held != NO_NODE) & self.alive[held]
                members[row] = np.where(is_living, held, NO_NODE)
                disks[row] = np.where(is_living, self._first_disks()[held], NO_NODE)
                _close_ranks(members[row], disks[row])
        self.exists = exists.copy()
        self._put(members, disks)

    def execute_run(self, plans: Sequence[BalancePlan]) -> None:
        """Change roles as plans of the balancer say, given in the numbering of the tape."""
        after = apply_plans(self.view, tuple(plans))
        self._put(after.members, after.member_disks)

    def promote(self, row: int, node: int) -> None:
        """Make a secondary, or a node that comes back to a lost partition, the primary."""
        held = [one for one in self._roles(row) if one[0] != node]
        mine = next((one for one in self._roles(row) if one[0] == node), None)
        self._set_roles(row, [mine or (node, self._first_disks()[node]), *held])
        self._record(row, ConfigType.UPGRADE_TO_PRIMARY, node)

    def add(self, row: int, node: int) -> None:
        """Add a secondary."""
        self._set_roles(row, [*self._roles(row), (node, int(self._first_disks()[node]))])
        self._record(row, ConfigType.UPGRADE_TO_SECONDARY, node)

    def remove(self, row: int, node: int, now_ms: int) -> None:
        """Take a replica away that is one too many."""
        self._set_roles(row, [one for one in self._roles(row) if one[0] != node])
        self._record(row, ConfigType.REMOVE, node, now_ms)

    def can_happen(self, plan: BalancePlan) -> bool:
        """Return whether a plan is still possible: nodes are alive and have the expected roles."""
        primary, *others = self.members[plan.row].tolist()
        if not (self.exists[plan.row] and self.alive[plan.source] and self.alive[plan.target]):
            return False
        is_new = plan.target != primary and plan.target not in others
        match plan.kind:
            case PlanKind.MOVE_PRIMARY:
                return bool(plan.source == primary and plan.target in others)
            case PlanKind.COPY_PRIMARY:
                return bool(plan.source == primary and is_new)
            case PlanKind.COPY_SECONDARY:
                return bool(plan.source in others and is_new)

    # -- inside ---------------------------------------------------------------------------------

    def _put(self, members: Ints, disks: Ints) -> None:
        self.view = self.view.with_members(members, disks)
        self._seen = None
        self.version += 1

    def _roles(self, row: int) -> list[tuple[int, int]]:
        nodes, disks = self.members[row].tolist(), self.view.member_disks[row].tolist()
        return [one for one in zip(nodes, disks, strict=True) if one[0] != NO_NODE]

    def _set_roles(self, row: int, roles: Sequence[tuple[int, int]]) -> None:
        """Change one row in place: these arrays are not shared."""
        members, disks = self.members, self.view.member_disks
        members[row], disks[row] = NO_NODE, NO_NODE
        for place, (node, disk) in enumerate(roles[: members.shape[1]]):
            members[row, place], disks[row, place] = node, disk
        self._seen = None
        self.version += 1

    def _record(self, row: int, change: ConfigType, node: int, now_ms: int = 0) -> None:
        """Let the meta server remember a change of the row; the change is made already."""
        memory = record_change(
            self.config(row),
            self.memory(row),
            change,
            self.view.nodes[node],
            now_ms=now_ms,
            max_reserved=_MAX_RESERVED,
        )
        if memory.dropped:
            self.dropped[row] = tuple(
                replace(
                    one,
                    ballot=_KNOWN,
                    last_committed_decree=_KNOWN,
                    last_prepared_decree=_KNOWN,
                )
                for one in memory.dropped
            )
        else:
            self.dropped.pop(row, None)

    def _first_disks(self) -> Ints:
        return np.array([disks[0] for disks in self.view.node_disks], dtype=np.int32)


def _close_ranks(members: Ints, disks: Ints) -> None:
    """Move secondaries together; an empty first place stays empty: there is no primary."""
    held = members[1:] != NO_NODE
    order = np.concatenate((np.nonzero(held)[0], np.nonzero(~held)[0])) + 1
    members[1:], disks[1:] = members[order], disks[order]


def copy_queue(tape: PegasusTape) -> CopyQueue:
    """Return an idle queue of copies."""
    return CopyQueue(tape, np.zeros(len(tape.start.nodes)), np.zeros(len(tape.start.nodes)))


@dataclass
class CopyQueue:
    """When copies are done: a node sends one and receives one at a time, at its limit.

    Attributes:
        tape: Sizes and limits.
        sends_until_s: Shape ``(n_nodes,)``.
        receives_until_s: Shape ``(n_nodes,)``.
    """

    tape: PegasusTape
    sends_until_s: Floats
    receives_until_s: Floats

    def book(self, row: int, source: int, target: int, now_s: float) -> float:
        """Queue one copy and return when it is done."""
        speed = min(self.tape.send_mb_per_s[source], self.tape.receive_mb_per_s[target])
        begins = max(now_s, self.sends_until_s[source], self.receives_until_s[target])
        done = float(begins + self.tape.size_mb[row] / speed)
        self.sends_until_s[source] = self.receives_until_s[target] = done
        return done


def in_tape(
    plans: Sequence[BalancePlan], fleet: Fleet, seen: ClusterView, rows: Ints
) -> Iterator[BalancePlan]:
    """Give plans in the numbering of the tape."""
    place = {name: code for code, name in enumerate(fleet.view.nodes)}
    for plan in plans:
        source, target = place[seen.nodes[plan.source]], place[seen.nodes[plan.target]]
        counts = plan.source_count, plan.target_count
        yield BalancePlan(int(rows[plan.row]), plan.kind, source, target, *counts)
