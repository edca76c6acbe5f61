"""Copies of replicas within one table: from the fullest node to the emptiest, until even.

Source: Pegasus ``copy_replica_operation`` and its two kinds, ``copy_primary_operation`` and
``copy_secondary_operation``.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.pegasus.balance.max_flow import Imbalance
from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.view import NOBODY, ClusterView

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
        """Return whether nodes holding ``least`` and ``most`` are even enough."""
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
    has_less = bool(imbalance.lower_counts[table])
    limits = _Limits(PlanKind.COPY_PRIMARY, int(imbalance.lows[table]), has_less)
    return _copy(view, table, limits, planned)


def copy_secondary(
    view: ClusterView, imbalance: Imbalance, table: int, planned: set[int]
) -> list[BalancePlan]:
    """Return the copies of secondaries of one table; see :func:`copy_primary`."""
    limits = _Limits(PlanKind.COPY_SECONDARY, int(imbalance.lows[table]), has_less=False)
    return _copy(view, table, limits, planned)


def tables_to_copy(view: ClusterView, imbalance: Imbalance) -> list[int]:
    """Return the places of tables whose replicas are uneven enough to copy secondaries."""
    if not view.table_count:
        return []
    most, least = view.replica_counts.max(axis=1), view.replica_counts.min(axis=1)
    return [int(at) for at in np.nonzero((most > imbalance.lows) & (most - least > 1))[0]]


def _copy(view: ClusterView, table: int, limits: _Limits, planned: set[int]) -> list[BalancePlan]:
    holdings, members = _holdings(view, table, limits.kind)
    counts = [len(held) for held in holdings]
    # the loads before the first copy, never brought up to date: upstream's way
    loads = [Counter(disk for _, _, disk in held) for held in holdings]
    queue = sorted((count, node) for node, count in enumerate(counts))
    plans = []
    while len(queue) > 1 and not limits.is_done(queue[0][0], queue[-1][0]):
        least, most = queue[0], queue[-1]

        def may_go(row: int, role: int, to: int = least[1]) -> bool:
            if row in planned:
                return False
            return limits.kind is PlanKind.COPY_PRIMARY or (role > 0 and to not in members[row])

        row = _fullest_disk_first(holdings[most[1]], loads[most[1]], may_go)
        queue.pop()
        if row is None:
            continue  # nothing can leave this node: it is not asked again
        queue.pop(0)
        planned.add(row)
        plans.append(BalancePlan(row, limits.kind, most[1], least[1], most[0], least[0]))
        insort(queue, (least[0] + 1, least[1]))
        insort(queue, (most[0] - 1, most[1]))
    return plans


def _fullest_disk_first(
    held: list[_Holding], load: Counter[int], may_go: Callable[[int, int], bool]
) -> int | None:
    """Return the row to copy: on the disk with most of the table, the first of equal ones."""
    best, best_load = None, NOBODY
    for row, role, disk in held:
        if load[disk] > best_load and may_go(row, role):
            best, best_load = row, load[disk]
    return best


def _holdings(
    view: ClusterView, table: int, kind: PlanKind
) -> tuple[list[list[_Holding]], dict[int, list[int]]]:
    """Return what every node holds of a table, in gpid order, and the members of every row."""
    rows = view.rows_of(table)
    members = view.members[rows.start : rows.stop].tolist()
    disks = view.member_disks[rows.start : rows.stop].tolist()
    held: list[list[_Holding]] = [[] for _ in view.nodes]
    roles = 1 if kind is PlanKind.COPY_PRIMARY else None
    for row, nodes, tags in zip(rows, members, disks, strict=True):
        for role, node in enumerate(nodes[:roles]):
            if node != NOBODY:
                held[node].append((row, role, tags[role]))
    return held, dict(zip(rows, members, strict=True))
