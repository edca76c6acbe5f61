"""Kernel results of the Balance page of Pegasus clusters, computed once per request.

A *candidate* is one of these: one of the two policies of the meta server with its switches, or our
own planner with its request. Both are run on a healthy, whole snapshot; nothing is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.pegasus.balance.model import BalanceOptions, BalancePlan
from core.pegasus.balance.node_order import LikelyPlan, likely_plans
from core.pegasus.balance.preconditions import obstacles
from core.pegasus.balance.rounds import (
    BalanceRound,
    apply_plans,
    balance_round,
    pick_by_seed,
    pick_first,
    rounds_until_converged,
)
from core.pegasus.balance.score import CountSpread, count_spread
from core.pegasus.even.cost import CopyCost, copy_cost
from core.pegasus.even.measures import WeightedSnapshot
from core.pegasus.even.planner import EvenGoal, EvenPlan, even_out
from core.pegasus.even.request import EvenMeasure, EvenRequest
from core.pegasus.even.weights import (
    Weights,
    disk_weights,
    primary_weights,
    rate_weights,
    replica_weights,
)
from core.pegasus.order_learning import KnownOrders, known_orders
from core.pegasus.view import NO_NODE, ClusterView
from core.snapshot.store import CachedSnapshot
from dashboard.queries.background import BackgroundResults
from dashboard.queries.cache import cached
from dashboard.queries.pegasus.snapshots import pegasus_reading

Floats = NDArray[np.float64]
Order = Literal["learned", "names", "reversed", "drawn"]
Measure = Literal["primaries", "replicas", "disk", "requests", "capacity units"]

MEASURES: Final[tuple[Measure, ...]] = (
    "primaries",
    "replicas",
    "disk",
    "requests",
    "capacity units",
)
ORDERS: Final[tuple[Order, ...]] = ("learned", "names", "reversed", "drawn")
SYNC_PARTITIONS: Final = 5_000
"""Up to so many partitions everything is answered within the page; beyond, in the background."""

MAX_ROUNDS: Final = 2_000
"""When the pages give up following a policy that goes on and on."""

_MARKED_EVERY: Final = 64


@dataclass(frozen=True, eq=False)
class BalanceBasis:
    """A snapshot as the candidates take it.

    Attributes:
        view: Its state, nodes in the order of their names.
        sizes_mb: Shape ``(n_partitions,)``: of one replica; NaN: unknown.
        requests: Shape ``(n_partitions,)``: reads and writes/s of the primary; NaN: unknown.
        units: Shape ``(n_partitions,)``: capacity units/s of the primary; NaN: unknown.
        free_mb: By node; NaN: unknown.
        disk_counts: Disks by node; 0: unknown.
        copy_rate_mb_per_s: What a disk may receive a second; ``None``: unknown, or no limit is set.
        obstacles: Why the meta server would not balance in this state.
        orders: Orders of the nodes that are known to fit.
        target_ratio: Deviation from the mean that the cluster's target allows.
    """

    view: ClusterView
    sizes_mb: Floats
    requests: Floats
    units: Floats
    free_mb: dict[str, float]
    disk_counts: dict[str, int]
    copy_rate_mb_per_s: float | None
    obstacles: tuple[str, ...]
    orders: KnownOrders
    target_ratio: float

    def weights(self, measure: Measure, view: ClusterView) -> Weights:
        """Return the weight of every replica by a measure."""
        match measure:
            case "primaries":
                return primary_weights(view)
            case "replicas":
                return replica_weights(view)
            case "disk":
                return disk_weights(view, self.sizes_mb)
            case "requests":
                return rate_weights(view, "requests", "requests/s", self.requests)
            case "capacity units":
                return rate_weights(view, "capacity units", "units/s", self.units)


def _ground(stored: CachedSnapshot) -> BalanceBasis:
    one = pegasus_reading(stored)
    view = one.facts.view()
    measured = WeightedSnapshot(one.facts, view)
    of_node = dict.fromkeys(view.nodes, float("nan"))
    disks = dict.fromkeys(view.nodes, 0)
    for row in one.facts.rows("disks"):
        if row["node"] in of_node:
            free = of_node[row["node"]]
            of_node[row["node"]] = (0.0 if np.isnan(free) else free) + row["available_mb"]
            disks[row["node"]] += 1
    rates = [
        row["copy_rate_mb_per_s"]
        for row in one.facts.rows("nodes")
        if row["is_alive"] and row["copy_rate_mb_per_s"]
    ]
    return BalanceBasis(
        view=view,
        sizes_mb=measured.sizes_mb(),
        requests=measured.led("read_rate") + measured.led("write_rate"),
        units=measured.led("read_units") + measured.led("write_units"),
        free_mb=of_node,
        disk_counts=disks,
        copy_rate_mb_per_s=min(rates) if rates else None,
        obstacles=tuple(obstacles(view)),
        orders=known_orders(one.facts, view.nodes),
        target_ratio=one.facts.target_ratio,
    )


basis = cached(_ground, max_entries=4)
"""A snapshot as the candidates take it.

Raises :class:`core.errors.IncompleteSnapshotError` where partitions of some table were not read.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCandidate:
    """A policy of the meta server on a snapshot.

    Attributes:
        stored: The snapshot.
        options: The policy and its switches.
        order: Of the nodes where two are equally good; ``learned``: that of the snapshot, by names
            where nothing is known.
        seed: Of the drawn order, and of the draw among equal disks there.
    """

    stored: CachedSnapshot
    options: BalanceOptions
    order: Order = "names"
    seed: int = 1

    def view(self) -> ClusterView:
        """Return the state that the policy sees."""
        view = basis(self.stored).view
        if self.order == "names":
            return view
        if self.order == "learned":
            return view.renumbered(basis(self.stored).orders.orders[0])
        if self.order == "reversed":
            return view.renumbered(view.nodes[::-1])
        places = np.random.default_rng(self.seed).permutation(len(view.nodes)).tolist()
        return view.renumbered([view.nodes[place] for place in places])


@dataclass(frozen=True, eq=False)
class PolicyRounds:
    """A policy's rounds up to the last one with plans.

    Attributes:
        rounds: Their plans.
        spreads: Spread after each of them.
        costs: Of each of them.
        before: The state at first.
        after: The state at the end.
        is_converged: Nothing is left to do; ``False``: it goes in circles, or was given up.
        marks: The state at first, and after every so many rounds, to find those between.
    """

    rounds: tuple[tuple[BalancePlan, ...], ...]
    spreads: tuple[CountSpread, ...]
    costs: tuple[CopyCost, ...]
    before: ClusterView
    after: ClusterView
    is_converged: bool
    marks: tuple[ClusterView, ...]

    @property
    def plans(self) -> tuple[BalancePlan, ...]:
        """Every plan, round after round."""
        return tuple(plan for plans in self.rounds for plan in plans)


def _first_round(candidate: PolicyCandidate) -> BalanceRound:
    view = candidate.view()
    pick = pick_by_seed(candidate.seed) if candidate.order == "drawn" else pick_first
    plans = tuple(balance_round(view, candidate.options, pick))
    return BalanceRound(view, plans, apply_plans(view, plans))


first_round = cached(_first_round, max_entries=32)
"""The next round of a policy."""


def _converged(candidate: PolicyCandidate) -> PolicyRounds:
    view, sizes = candidate.view(), basis(candidate.stored).sizes_mb
    pick = pick_by_seed(candidate.seed) if candidate.order == "drawn" else pick_first
    rounds: list[tuple[BalancePlan, ...]] = []
    spreads, costs, marks = [], [], [view]
    after, is_converged = view, False
    for one in rounds_until_converged(view, candidate.options, pick):
        is_converged = not one.plans
        if is_converged or len(rounds) >= MAX_ROUNDS:
            break
        after = one.after
        rounds.append(one.plans)
        spreads.append(count_spread(after))
        costs.append(copy_cost(one.before, one.plans, sizes))
        if len(rounds) % _MARKED_EVERY == 0:
            marks.append(after)
    return PolicyRounds(
        rounds=tuple(rounds),
        spreads=tuple(spreads),
        costs=tuple(costs),
        before=view,
        after=after,
        is_converged=is_converged,
        marks=tuple(marks),
    )


def _likely(key: tuple[CachedSnapshot, BalanceOptions]) -> list[LikelyPlan]:
    stored, options = key
    found = basis(stored)
    is_small = found.view.partition_count <= SYNC_PARTITIONS
    orders = found.orders.orders if is_small else found.orders.orders[:4]
    return likely_plans(found.view, options, orders)


likely = cached(_likely, max_entries=16)
"""The changes of a policy's next round under every node order that fits, with their share."""


converged = cached(_converged, max_entries=16)
converged_in_background = BackgroundResults(converged)
"""The rounds of a policy until nothing is left to do, computed here or in the background."""


def _state_after(key: tuple[PolicyCandidate, int]) -> ClusterView:
    candidate, number = key
    run = converged(candidate)
    if number >= len(run.rounds):
        return run.after
    mark = max(number, 0) // _MARKED_EVERY
    state = run.marks[mark]
    for plans in run.rounds[mark * _MARKED_EVERY : number]:
        state = apply_plans(state, plans)
    return state


state_after = cached(_state_after, max_entries=24)
"""The state after so many rounds of a settled policy; 0: as it is."""


MEASURE_OF: Final[dict[Measure, EvenMeasure]] = {
    "primaries": "primaries",
    "replicas": "count",
    "disk": "disk",
    "requests": "qps",
    "capacity units": "cu",
}
"""The measures of this page as requests name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenRun:
    """Computation of our own planner on this page.

    Attributes:
        stored: The snapshot.
        request: What is requested of it.
    """

    stored: CachedSnapshot
    request: EvenRequest

    @property
    def measure(self) -> Measure:
        """The measure as this page names it."""
        return next(label for label, one in MEASURE_OF.items() if one == self.request.measure)


def _even(run: EvenRun) -> EvenPlan:
    request = run.request
    found, facts = basis(run.stored), pegasus_reading(run.stored).facts
    view = found.view
    free = np.array([found.free_mb[name] for name in view.nodes])
    room = None if np.isnan(free).all() else np.nan_to_num(free, nan=0.0)
    goal = EvenGoal(
        within=request.goal_ratio(facts.target_ratio),
        max_steps=request.max_moves,
        may_copy=request.copy,
        sizes_mb=found.sizes_mb,
        room_mb=room,
        suspected=facts.columns.nodes_with("not answering"),
        set_aside=facts.columns.set_aside,
        keeps_all=request.all_moves,
    )
    return even_out(view, found.weights(run.measure, view), goal)


even = cached(_even, max_entries=32)
even_in_background = BackgroundResults(even)
"""The few steps of our own planner, computed here or in the background."""


def disk_counts(view: ClusterView) -> NDArray[np.int64]:
    """Return replicas per node and disk, shape ``(n_nodes, n_disks)``; unknown disks left out."""
    there = (view.members != NO_NODE) & (view.member_disks != NO_NODE)
    width = max(len(view.disks), 1)
    at = view.members[there].astype(np.int64) * width + view.member_disks[there]
    return np.bincount(at, minlength=len(view.nodes) * width).reshape(-1, width)
