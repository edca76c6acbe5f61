"""Few steps that bring every node near the mean of a measure.

Steepest descent of the sum of squares: the fullest node that can still be relieved gives, a role
change before a copy, of copies the one that helps most for a megabyte. Every step makes the sum of
squares smaller, so it ends; every partition is touched once at most, so each step is a plan of the
balancer's own kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.pegasus.balance.model import BalancePlan, PlanKind
from core.pegasus.balance.rounds import apply_plans
from core.pegasus.even.cost import CopyCost, copy_cost
from core.pegasus.even.weights import Floats, Weights, node_loads
from core.pegasus.view import NO_NODE, ClusterView
from core.units import format_mb, format_ratio

_TINY = 1e-9
_SAME = 5e-4
"""Deviations that differ by less are written as the same."""

Verdict = Literal["nothing_to_do", "reached", "best_effort", "unknown"]


@dataclass(frozen=True)
class EvenGoal:
    """Goal and limits of a balance.

    Attributes:
        within: Farthest any node may be from the mean, share of it.
        max_steps: Budget; ``None`` for unlimited.
        may_copy: Whether replicas may be copied; without, only roles change.
        sizes_mb: Shape ``(n_partitions,)``: of one replica, NaN unknown; ``None`` if not known.
        room_mb: Shape ``(n_nodes,)``: what may still be copied onto a node; ``None`` for no limit.
            A copy of unknown size needs no limit, too, or is not made.
        suspected: Nodes that do not answer: they are given nothing.
        keeps_all: Steps that lower the max deviation no further are kept, too.
        set_aside: Nodes that are empty on purpose: they are given nothing and not compared.
    """

    within: float = 0.05
    max_steps: int | None = None
    may_copy: bool = True
    sizes_mb: Floats | None = None
    room_mb: Floats | None = None
    suspected: Collection[str] = ()
    keeps_all: bool = False
    set_aside: Collection[str] = ()

    def compared(self, view: ClusterView) -> NDArray[np.bool_]:
        """Return the compared nodes, shape ``(n_nodes,)``; all if none would be."""
        found = np.array([name not in self.set_aside for name in view.nodes], np.bool_)
        return found if found.any() else ~found


@dataclass(frozen=True)
class EvenPlan:
    """Plan of an even distribution.

    Attributes:
        verdict: ``best_effort``: no step helps any more, or the budget is used up.
        steps: In the order in which they help most; each for another partition.
        before: Load of every node, shape ``(n_nodes,)``.
        after: The same when all steps are done.
        deviation_before: Max deviation of a node, share of the mean.
        deviation_after: The same when all steps are done.
        cost: Of the copies.
        bound: What no plan that reaches the goal undercuts.
        unknown_count: Partitions of unknown weight: they stay, and count nothing.
        end: The state when all steps are done.
        rest_gain: What the steps that lower the max deviation no further gain or, where they were
            left out, would gain; empty: there are none.
    """

    verdict: Verdict
    steps: tuple[BalancePlan, ...]
    before: Floats
    after: Floats
    deviation_before: float
    deviation_after: float
    cost: CopyCost
    bound: LowerBound
    unknown_count: int
    end: ClusterView
    rest_gain: str = ""


def deviation(loads: Floats) -> float:
    """Return the max deviation from the mean, share of it; 0 without load."""
    mean = float(loads.mean()) if len(loads) else 0.0
    return float(np.abs(loads - mean).max()) / mean if mean > 0 else 0.0


def signed_deviation(loads: Floats) -> float:
    """Return :func:`deviation` with its sign: above the mean, or below; 0 without load."""
    mean = float(loads.mean()) if len(loads) else 0.0
    if mean <= 0:
        return 0.0
    off = loads / mean - 1.0
    return float(off[np.abs(off).argmax()])


def even_out(view: ClusterView, weights: Weights, goal: EvenGoal) -> EvenPlan:
    """Return steps that bring every node within the goal, or as near as they go.

    Args:
        view: A healthy state.
        weights: The measure.
        goal: Tolerance and limits.

    Cost:
        A step is O(replicas on the source x nodes), columns only.
    """
    before = node_loads(view, weights)
    search = _Search(view, weights, goal, before.copy())
    steps: list[BalancePlan] = []
    compared = goal.compared(view)
    deviations = [deviation(before[compared])]
    while deviations[-1] > goal.within:
        if goal.max_steps is not None and len(steps) >= goal.max_steps:
            break
        step = search.next_step()
        if step is None:
            break
        steps.append(step)
        deviations.append(deviation(search.loads[compared]))
    sizes = goal.sizes_mb if goal.sizes_mb is not None else np.full(view.partition_count, np.nan)
    verdict = _verdict(before[compared], search.loads[compared], goal, len(steps))
    needed = _needed(deviations) if verdict == "best_effort" else len(steps)
    plans, after = tuple(steps[:needed]), search.loads
    end = apply_plans(view, plans)
    gain = ""
    if needed < len(steps):
        after = node_loads(end, weights)
        rest = copy_cost(view, steps[needed:], sizes)
        gain = _gain(rest, len(steps) - needed, (after[compared], search.loads[compared]))
    if gain and goal.keeps_all:
        plans, after = tuple(steps), search.loads
        end = apply_plans(view, plans)
    return EvenPlan(
        verdict=verdict,
        steps=plans,
        before=before,
        after=after,
        deviation_before=deviations[0],
        deviation_after=deviation(after[compared]),
        cost=copy_cost(view, plans, sizes),
        bound=lower_bound(view, weights, goal.within, sizes, compared),
        unknown_count=int((~weights.is_known).sum()),
        end=end,
        rest_gain=gain,
    )


def _needed(deviations: Sequence[float]) -> int:
    """Return after how many steps the max deviation is as low as after all of them.

    All of them, where none brings it nearer: then what they do for the other nodes is the gain.
    """
    first = next(at for at, one in enumerate(deviations) if one <= deviations[-1] + _SAME)
    return first or len(deviations) - 1


def _gain(cost: CopyCost, count: int, loads: tuple[Floats, Floats]) -> str:
    """Return the total gain of the last steps."""
    before, after = (float(np.abs(one - one.mean()).mean() / one.mean()) for one in loads)
    copied = f" ({format_mb(cost.copy_mb)} copied)" if cost.copy_count else ""
    others = "The other one" if count == 1 else f"The other {count:,}"
    return (
        f"{others}{copied} would lower the mean deviation "
        f"from {format_ratio(before)} to {format_ratio(after)}."
    )


def _verdict(before: Floats, after: Floats, goal: EvenGoal, steps: int) -> Verdict:
    if not before.sum():
        return "unknown"
    if deviation(after) > goal.within:
        return "best_effort"
    return "reached" if steps else "nothing_to_do"


@dataclass(frozen=True)
class _Choice:
    gain: float
    kind: PlanKind
    row: int
    target: int
    weight: float


class _Search:
    """The state while steps are found: loads, room, and what was touched."""

    def __init__(self, view: ClusterView, weights: Weights, goal: EvenGoal, loads: Floats) -> None:
        self.view = view
        self.loads = loads
        self._primary = np.where(weights.is_known, weights.primary, 0.0)
        self._secondary = np.where(weights.is_known, weights.secondary, 0.0)
        self._is_free = weights.is_known & view.is_balanceable[view.table_of_row]
        self._is_free &= view.members[:, 0] != NO_NODE
        self._sizes = goal.sizes_mb
        # each copy costs a configuration change and a learner's start, as much as a usual replica
        known = np.zeros(0) if goal.sizes_mb is None else goal.sizes_mb[~np.isnan(goal.sizes_mb)]
        self._usual_mb = max(float(known.mean()) if len(known) else 1.0, 1.0)
        self._room = None if goal.room_mb is None else goal.room_mb.copy()
        self._may_copy = goal.may_copy
        self._compared = goal.compared(view)
        self._receives = np.array([name not in goal.suspected for name in view.nodes], np.bool_)
        self._receives &= self._compared
        self._counts = view.replica_counts.sum(axis=0)

    def next_step(self) -> BalancePlan | None:
        """Return the next step and book it; ``None`` when none helps."""
        mean = self.loads[self._compared].mean()
        order = np.argsort(-self.loads, kind="stable")
        for source in order[self._compared[order]]:
            if self.loads[source] <= mean:
                return None
            best = self._role_change(int(source))
            if best is None and self._may_copy:
                best = self._copy(int(source))
            if best is not None:
                return self._book(int(source), best)
        return None

    def _role_change(self, source: int) -> _Choice | None:
        members = self.view.members
        rows = np.nonzero((members[:, 0] == source) & self._is_free)[0]
        destinations = members[rows, 1:]
        weight = (self._primary - self._secondary)[rows][:, None]
        gain = weight * (self.loads[source] - self.loads[destinations] - weight)
        gain = np.where((destinations != NO_NODE) & self._receives[destinations], gain, 0.0)
        at = _best(gain)
        if at is None:
            return None
        row, destination = int(rows[at[0]]), int(destinations[at])
        return _Choice(
            float(gain[at]), PlanKind.MOVE_PRIMARY, row, destination, float(weight[at[0], 0])
        )

    def _copy(self, source: int) -> _Choice | None:
        members = self.view.members
        rows = np.nonzero((members == source).any(axis=1) & self._is_free)[0]
        is_primary = members[rows, 0] == source
        weight = np.where(is_primary, self._primary[rows], self._secondary[rows])[:, None]
        gain = weight * (self.loads[source] - self.loads[None, :] - weight)
        serves = np.zeros(gain.shape, dtype=np.bool_)
        for role in range(members.shape[1]):
            there = members[rows, role] != NO_NODE
            serves[np.nonzero(there)[0], members[rows[there], role]] = True
        gain[serves | ~self._receives[None, :]] = 0.0
        worth = gain
        if self._sizes is not None:
            sizes = self._sizes[rows][:, None]
            if self._room is not None:
                gain = np.where(sizes <= self._room[None, :], gain, 0.0)
            worth = gain / (np.nan_to_num(sizes, nan=self._usual_mb) + self._usual_mb)
        elif self._room is not None:
            return None  # whether it fits is unknown
        at = _best(worth)
        if at is None:
            return None
        kind = PlanKind.COPY_PRIMARY if is_primary[at[0]] else PlanKind.COPY_SECONDARY
        return _Choice(float(gain[at]), kind, int(rows[at[0]]), int(at[1]), float(weight[at[0], 0]))

    def _book(self, source: int, choice: _Choice) -> BalancePlan:
        source_count, target_count = int(self._counts[source]), int(self._counts[choice.target])
        self.loads[source] -= choice.weight
        self.loads[choice.target] += choice.weight
        self._is_free[choice.row] = False
        if choice.kind is not PlanKind.MOVE_PRIMARY:
            self._counts[source] -= 1
            self._counts[choice.target] += 1
            if self._room is not None and self._sizes is not None:
                self._room[choice.target] -= self._sizes[choice.row]
        return BalancePlan(
            choice.row, choice.kind, source, choice.target, source_count, target_count
        )


def _best(worth: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return the place of the largest value above zero, the first of equals."""
    if not worth.size:
        return None
    at = np.unravel_index(int(worth.argmax()), worth.shape)
    place = int(at[0]), int(at[1])
    return place if worth[place] > _TINY else None


@dataclass(frozen=True)
class LowerBound:
    """Bounds from what has to leave the nodes that are too full, and reach those too empty.

    Attributes:
        moved_weight: Weight that changes its node, in all.
        step_count: Steps: each relieves one node and fills one, by one replica at most.
        copy_mb: Megabytes, of the measure's part that role changes cannot carry; ``None`` for sizes
            are not known.
    """

    moved_weight: float
    step_count: int
    copy_mb: float | None


def lower_bound(
    view: ClusterView,
    weights: Weights,
    within: float,
    sizes_mb: Floats,
    compared: NDArray[np.bool_] | None = None,
) -> LowerBound:
    """Return bounds for bringing every node within ``mean * (1 +- within)``.

    Args:
        view: The state.
        weights: The measure.
        within: Tolerance, share of the mean.
        sizes_mb: Shape ``(n_partitions,)``; NaN: unknown.
        compared: Shape ``(n_nodes,)``: nodes that count; ``None`` for all.
    """
    loads = node_loads(view, weights)
    counts = np.ones(len(loads), np.bool_) if compared is None else compared
    mean = float(loads[counts].mean()) if counts.any() else 0.0
    excess = np.where(counts, np.maximum(loads - mean * (1 + within), 0.0), 0.0)
    missing = np.where(counts, np.maximum(mean * (1 - within) - loads, 0.0), 0.0)
    known = weights.is_known
    is_sized = not bool(np.isnan(sizes_mb[known]).any())
    steps, copy_mb = 0, 0.0
    for node in np.nonzero(excess > 0)[0]:
        is_primary = (view.members[:, 0] == node) & known
        is_secondary = (view.members[:, 1:] == node).any(axis=1) & known & (node != NO_NODE)
        held = np.concatenate((weights.primary[is_primary], weights.secondary[is_secondary]))
        steps += _fewest(held, float(excess[node]))
        by_roles = float((weights.primary - weights.secondary)[is_primary].sum())
        rest = float(excess[node]) - by_roles
        if is_sized and rest > 0:
            rows = is_primary | is_secondary
            copy_mb += _cheapest(weights.secondary[rows], sizes_mb[rows], rest)
    steps = max(steps, _fewest_gained(weights.primary[known], missing))
    moved = max(float(excess.sum()), float(missing.sum()))
    return LowerBound(moved, steps, copy_mb if is_sized else None)


def _fewest(weights: Floats, wanted: float) -> int:
    """Return the min number of weights that reach a sum."""
    sums = np.cumsum(np.sort(weights)[::-1])
    return min(int(np.searchsorted(sums, wanted * (1 - 1e-12))) + 1, len(weights))


def _fewest_gained(weights: Floats, missing: Floats) -> int:
    """Return the min number of steps that fill the underloaded nodes.

    A partition gives a node its primary's weight at most; which ones a node has already is not
    looked at, since the weights are sorted once for all nodes.

    Args:
        weights: Of the primaries, shape ``(n_known,)``.
        missing: Shape ``(n_nodes,)``: what each node lacks, 0 where nothing.
    """
    lacking = missing[missing > 0]
    if not len(weights) or not len(lacking):
        return 0
    sums = np.cumsum(np.sort(weights)[::-1])
    places = np.searchsorted(sums, lacking * (1 - 1e-12)) + 1
    return int(np.minimum(places, len(weights)).sum())


def _cheapest(weights: Floats, sizes_mb: Floats, wanted: float) -> float:
    """Return the least megabytes whose weight reaches a sum, parts of replicas allowed."""
    order = np.argsort(sizes_mb / np.maximum(weights, 1e-12), kind="stable")
    total = 0.0
    for weight, size_mb in zip(weights[order].tolist(), sizes_mb[order].tolist(), strict=True):
        if wanted <= weight:
            return total + (size_mb * wanted / weight if weight > 0 else 0.0)
        wanted -= weight
        total += size_mb
    return total
