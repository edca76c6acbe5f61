"""Copies of replicas within one table: from the fullest node to the emptiest, until even.

Source: Pegasus ``copy_replica_operation`` and its two kinds, ``copy_primary_operation`` and
``copy_secondary_operation``.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.pegasus.balance.max_flow import Imbalance
from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.view import NO_NODE, ClusterView

_Holding = tuple[int, int, int]
"""Row, role (0: primary), disk."""


@dataclass(frozen=True)
class _Limits:
    """When to stop, and what counts.

    Attributes:
        kind: ``COPY_PRIMARY`` counts primaries, ``COPY_SECONDARY`` replicas of either role.
        low: floor(partitions / nodes): upstream the same for both kinds.
        has_less: Some node was below ``low`` before the round (copies of primaries).
    """

    kind: PlanKind
    low: int
    has_less: bool

    def is_done(self, least: int, most: int) -> bool:
        """Return whether the counts ``least`` and ``most`` are even enough."""
        if self.kind is PlanKind.COPY_SECONDARY:
            return most <= self.low or most - least <= 1
        return least >= self.low if self.has_less else most - least <= 1


def copy_primary(
    view: ClusterView, imbalance: Imbalance, table: int, planned: set[int]
) -> list[BalancePlan]:
    """Return the copies of primaries of one table.

    Args:
        view: The state.
        imbalance: Its measures.
        table: Place of the table.
        planned: Rows that have a plan already; the new ones are added.
    """
    return _copy(CopyTask.of_primaries(view, imbalance, table), planned)


def copy_secondary(
    view: ClusterView, imbalance: Imbalance, table: int, planned: set[int]
) -> list[BalancePlan]:
    """Return the copies of secondaries of one table; see :func:`copy_primary`."""
    return _copy(CopyTask.of_secondaries(view, imbalance, table), planned)


def tables_to_copy(view: ClusterView, imbalance: Imbalance) -> list[int]:
    """Return the places of tables whose replicas are uneven enough to copy secondaries."""
    if not view.table_count:
        return []
    most, least = view.replica_counts.max(axis=1), view.replica_counts.min(axis=1)
    return [int(at) for at in np.nonzero((most > imbalance.lows) & (most - least > 1))[0]]


@dataclass(frozen=True)
class CopyTask:
    """The loop of copies of one table, as far as it does not depend on the order of nodes.

    Attributes:
        limits: When it stops, and what counts.
        holdings: By node: what it holds that counts, in gpid order.
        members: By row.
    """

    limits: _Limits
    holdings: list[list[_Holding]]
    members: dict[int, list[int]]

    @classmethod
    def of_primaries(cls, view: ClusterView, imbalance: Imbalance, table: int) -> CopyTask:
        """Return the copies of primaries."""
        has_less = bool(imbalance.lower_counts[table])
        limits = _Limits(PlanKind.COPY_PRIMARY, int(imbalance.lows[table]), has_less)
        return cls(limits, *_holdings(view, table, limits.kind))

    @classmethod
    def of_secondaries(cls, view: ClusterView, imbalance: Imbalance, table: int) -> CopyTask:
        """Return the copies of secondaries."""
        limits = _Limits(PlanKind.COPY_SECONDARY, int(imbalance.lows[table]), has_less=False)
        return cls(limits, *_holdings(view, table, limits.kind))

    @property
    def kind(self) -> PlanKind:
        """Kind of replica that is copied."""
        return self.limits.kind

    @property
    def counts(self) -> list[int]:
        """Initial count of every node."""
        return [len(held) for held in self.holdings]

    @cached_property
    def loads(self) -> list[Counter[int]]:
        """Load per disk before the first copy: upstream never brings it up to date."""
        return [Counter(disk for _, _, disk in held) for held in self.holdings]

    def is_done(self, least: int, most: int) -> bool:
        """Return whether the counts ``least`` and ``most`` are even enough."""
        return self.limits.is_done(least, most)

    @cached_property
    def _fullest_disks_first(self) -> list[list[_Holding]]:
        """By node: what it holds, from its fullest disk down, in gpid order on equal ones."""
        return [
            sorted(held, key=lambda one: -load[one[2]])
            for held, load in zip(self.holdings, self.loads, strict=True)
        ]

    def row_to_copy(self, source: int, target: int, planned: Collection[int]) -> int | None:
        """Return the row to copy: on the source's fullest disk, the first of equal ones."""
        is_primary = self.kind is PlanKind.COPY_PRIMARY
        for row, role, _ in self._fullest_disks_first[source]:
            if row in planned:
                continue
            if is_primary or (role > 0 and target not in self.members[row]):
                return row
        return None


def _copy(task: CopyTask, planned: set[int]) -> list[BalancePlan]:
    queue = sorted((count, node) for node, count in enumerate(task.counts))
    plans = []
    while len(queue) > 1 and not task.is_done(queue[0][0], queue[-1][0]):
        least, most = queue[0], queue[-1]
        row = task.row_to_copy(most[1], least[1], planned)
        queue.pop()
        if row is None:
            continue  # nothing can leave this node: it is not tried again
        queue.pop(0)
        planned.add(row)
        plans.append(BalancePlan(row, task.kind, most[1], least[1], most[0], least[0]))
        insort(queue, (least[0] + 1, least[1]))
        insort(queue, (most[0] - 1, most[1]))
    return plans


def _holdings(
    view: ClusterView, table: int, kind: PlanKind
) -> tuple[list[list[_Holding]], dict[int, list[int]]]:
    """Return every node's replicas of a table, in gpid order, and the members of every row."""
    rows = view.rows_of(table)
    members = view.members[rows.start : rows.stop].tolist()
    disks = view.member_disks[rows.start : rows.stop].tolist()
    held: list[list[_Holding]] = [[] for _ in view.nodes]
    roles = 1 if kind is PlanKind.COPY_PRIMARY else None
    for row, nodes, tags in zip(rows, members, disks, strict=True):
        for role, node in enumerate(nodes[:roles]):
            if node != NO_NODE:
                held[node].append((row, role, tags[role]))
    return held, dict(zip(rows, members, strict=True))
