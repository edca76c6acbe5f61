"""The cluster policy: one table's primaries a round, then copies that even out nodes as a whole.

Source: Pegasus ``cluster_balance_policy`` (``balance_cluster`` true).

Parity:
    PB-1: every table starts with skew 1, since upstream takes the skew of a map that it has just
    given away; ``intended_skew`` starts with the true one.
    PB-2: the ignored list is never consulted, since the remote command sets that of the app policy.
    PB-3 (deviation): upstream dies of a segmentation fault when no node of the chosen set holds a
    replica of the role, for example for a table with one replica; here the table is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from core.pegasus.balance.app_policy import move_along
from core.pegasus.balance.max_flow import TABLES_AT_ONCE, Imbalance, find_flows
from core.pegasus.balance.model import BalanceOptions, BalancePlan, Pick, PlanKind
from core.pegasus.view import NO_NODE, ClusterView, Flags, Ints

_FEWEST_NODES = 3


def balance_cluster(view: ClusterView, options: BalanceOptions, pick: Pick) -> list[BalancePlan]:
    """Return the plans of one round, in gpid order; a check plans nothing.

    Args:
        view: The state; unknown disks of a node count as one disk.
        options: Only ``is_check``, ``balance_op_count_per_round`` and ``intended_skew`` matter.
        pick: Chooses among equally full disks.
    """
    if options.is_check or not view.nodes:
        return []
    imbalance = Imbalance.of(view)
    moves = _first_moves(view, imbalance)
    if moves:
        return moves
    if len(view.nodes) < _FEWEST_NODES or not _has_wanted_replicas(view):
        return []
    for kind in (PlanKind.COPY_SECONDARY, PlanKind.COPY_PRIMARY):
        plans = _Copies.of(view, kind, options).plan(pick)
        if plans:
            return sorted(plans, key=lambda plan: plan.row)
    return []


def _first_moves(view: ClusterView, imbalance: Imbalance) -> list[BalancePlan]:
    """Return the moves of the first table that has any; many tables are searched at once."""
    uneven = np.nonzero(imbalance.is_uneven & view.is_balanceable)[0]
    for start in range(0, len(uneven), TABLES_AT_ONCE):
        some = uneven[start : start + TABLES_AT_ONCE]
        for table, path in zip(some.tolist(), find_flows(view, imbalance, some), strict=True):
            if path is not None:
                return sorted(move_along(view, table, path), key=lambda plan: plan.row)
    return []


def _has_wanted_replicas(view: ClusterView) -> bool:
    """Return whether every counted partition has exactly its configured secondaries."""
    secondaries = (view.members[:, 1:] != NO_NODE).sum(axis=1)
    wanted = view.max_replica_counts[view.table_of_row] - 1
    return not bool(((secondaries != wanted) & view.is_balanceable[view.table_of_row]).any())


@dataclass(frozen=True)
class _Disk:
    """A disk that holds replicas of one table in the wanted role."""

    host_rank: int
    tag: int
    node: int
    rows: list[int]


@dataclass
class _Copies:
    """One phase of a round: its counts move with every plan.

    Attributes:
        view: The state before the round.
        kind: Which role is copied.
        limit: Most plans.
        tables: Places of the tables that count, ascending.
        counts: Shape ``(len(tables), n_nodes)``: the role's count per table and node.
        totals: Shape ``(n_nodes,)``: the role's count over all tables, also those that do not
            count.
        skews: Shape ``(len(tables),)``.
        targets: Node that takes, by row planned.
        sources: Node that gives, by row planned.
    """

    view: ClusterView
    kind: PlanKind
    limit: int
    tables: Ints
    counts: Ints
    totals: Ints
    skews: Ints
    targets: dict[int, int]
    sources: dict[int, int]

    @classmethod
    def of(cls, view: ClusterView, kind: PlanKind, options: BalanceOptions) -> _Copies:
        """Count roles before the first plan."""
        counts = view.primary_counts
        if kind is PlanKind.COPY_SECONDARY:
            counts = view.replica_counts - counts
        tables = np.nonzero(view.is_balanceable)[0].astype(np.int32)
        own = counts[tables]
        skews = np.ones(len(tables), dtype=np.int32)
        if options.intended_skew and len(tables):
            skews = own.max(axis=1) - own.min(axis=1)
        totals = counts.sum(axis=0, dtype=np.int32)
        limit = options.balance_op_count_per_round
        return cls(view, kind, limit, tables, own, totals, skews, {}, {})

    def plan(self, pick: Pick) -> list[BalancePlan]:
        """Return the phase's plans in the order in which they are made."""
        plans: list[BalancePlan] = []
        while len(self.tables):
            made = self._next(pick)
            if made is None:
                break
            plans.append(made)
            if len(plans) >= self.limit:  # looked at after a plan: a limit of 0 still makes one
                break
        return plans

    def _next(self, pick: Pick) -> BalancePlan | None:
        widest = int(self.skews.max())
        spread = int(self.totals.max() - self.totals.min())
        if widest == 0 or (widest <= 1 and spread <= 1):
            return None
        for at, source_nodes, destination_nodes in self._candidates(widest):
            made = self._move(at, source_nodes, destination_nodes, pick)
            if made is not None:
                return made
        return None

    def _candidates(self, skew: int) -> Iterator[tuple[int, Flags, Flags]]:
        """Give table, nodes that may give, nodes that may take, in the order of trying."""
        at = np.nonzero(self.skews == skew)[0]
        own = self.counts[at]
        least, most = own.min(axis=1), own.max(axis=1)
        emptiest, fullest = own == least[:, None], own == most[:, None]
        destination_nodes = emptiest & (self.totals == self.totals.min())
        source_nodes = fullest & (self.totals == self.totals.max())
        has_destination, has_source = destination_nodes.any(axis=1), source_nodes.any(axis=1)
        is_even = (most <= least + 1) & ~(has_destination & has_source)
        for index in np.nonzero(~is_even)[0]:
            yield (
                int(at[index]),
                source_nodes[index] if has_source[index] else fullest[index],
                destination_nodes[index] if has_destination[index] else emptiest[index],
            )

    def _move(
        self, at: int, source_nodes: Flags, destination_nodes: Flags, pick: Pick
    ) -> BalancePlan | None:
        disks = self._fullest_disks(int(self.tables[at]), source_nodes)
        if not disks:
            return None  # PB-3
        disk = disks[pick(len(disks))]
        ranks = self.view.host_ranks
        for target in sorted(
            np.nonzero(destination_nodes)[0].tolist(), key=lambda node: ranks[node]
        ):
            for row in disk.rows:
                if row not in self.targets and not self._serves(row, target):
                    return self._book(at, row, disk.node, target)
        return None

    def _fullest_disks(self, table: int, source_nodes: Flags) -> list[_Disk]:
        """Return the disks with most replicas of the table and role, in upstream's set order."""
        rows = self.view.rows_of(table)
        found: dict[tuple[int, int], _Disk] = {}
        members = self.view.members[rows.start : rows.stop]
        roles = slice(1, None) if self.kind is PlanKind.COPY_SECONDARY else slice(0, 1)
        chosen = members[:, roles]
        wanted = (chosen != NO_NODE) & source_nodes[chosen]
        tags = self.view.member_disks[rows.start : rows.stop, roles]
        for offset, column in zip(*np.nonzero(wanted), strict=True):
            row, node = rows.start + int(offset), int(chosen[offset, column])
            if self.sources.get(row) == node:
                continue
            rank, tag = int(self.view.host_ranks[node]), int(tags[offset, column])
            found.setdefault((rank, tag), _Disk(rank, tag, node, [])).rows.append(row)
        most = max((len(disk.rows) for disk in found.values()), default=0)
        return [found[key] for key in sorted(found) if len(found[key].rows) == most]

    def _serves(self, row: int, node: int) -> bool:
        return bool((self.view.members[row] == node).any())

    def _book(self, at: int, row: int, source: int, target: int) -> BalancePlan:
        counts = self.counts[at]
        made = BalancePlan(row, self.kind, source, target, int(counts[source]), int(counts[target]))
        counts[source] -= 1
        counts[target] += 1
        self.totals[source] -= 1
        self.totals[target] += 1
        self.skews[at] = counts.max() - counts.min()
        self.targets[row] = target
        self.sources[row] = source
        return made
