"""Kernel results of the Rebalance page, computed once per snapshot and settings.

A *candidate* is a way to decide what moves: a shedding strategy of the cluster, or the
smallest-moves planner. Shedding counts as switched on, for otherwise there is nothing to compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from core.errors import InputError, InvariantError, OpsError
from core.findings.finding import Finding
from core.optimize import OptimizeRequest, Proposal, optimize
from core.plan.model import Plan
from core.pulsar.placement import active_placement
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.checks import Basis, check_destination, check_move, placed_by_filters
from core.pulsar.plan.clients import ClientImpact, client_impact
from core.pulsar.plan.edit import PlanContext, dropped, retargeted
from core.pulsar.plan.preview import Preview, preview_plan
from core.pulsar.rules.combinations import unpaired_avg_shedder
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import Round, find_shedding_strategy, shed_rounds
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.what_if import TurningPoint, WhatIf
from core.simulation import Run, Simulation, simulate
from core.snapshot import LoadManager
from core.snapshot.store import CachedSnapshot
from dashboard import services
from dashboard.app_pages.pulsar.rebalance.fleets import REAL, FleetChange, origin
from dashboard.queries.background import BackgroundResults
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.explanations import points_simulated
from dashboard.queries.pulsar.snapshots import reading

Assumed = tuple[tuple[str, bool | int | float | str], ...]

OPTIMIZER: Final = "Optimizer"
"""The candidate that is not one of Pulsar's."""

ROUNDS: Final = 60
SYNC_BUNDLES: Final = 20_000
"""Up to so many bundles the planner answers within the page; beyond, it runs in the background."""

PLAY_BUNDLES: Final = 5_000
"""Up to so many bundles the rounds are simulated by default."""

PLAN_MOVES: Final = 300
"""Of more bundles than that, a plan of the page holds at most so many moves."""

HUGE_BUNDLES: Final = 200_000
"""Of more bundles than that, what a strategy decides is computed in the background, too."""

_LOOKED_AHEAD: Final = 12
_MOST_CHECKED: Final = 60
_RENEW_AFTER_S: Final = 300
_SHEDDER: Final = "loadBalancerLoadSheddingStrategy"
_SWITCHED_ON: Final = {"loadBalancerEnabled": True, "loadBalancerSheddingEnabled": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyCandidate:
    """A shedding strategy on a snapshot.

    Attributes:
        stored: The snapshot.
        strategy: Class name.
        assumed: Settings that are assumed against the cluster's own.
        pinned: Bundles that stay: they count as in their grace period.
        fleet: What of the fleet is supposed to be otherwise.
    """

    stored: CachedSnapshot
    strategy: str
    assumed: Assumed = ()
    pinned: tuple[str, ...] = ()
    fleet: FleetChange = REAL

    def settings(self, more: Mapping[str, object] | None = None) -> EffectiveSettings:
        """Return the settings it goes by, some assumed otherwise still."""
        own = {**_SWITCHED_ON, _SHEDDER: self.strategy}  # placement goes by who sheds, too
        overrides = {**own, **dict(self.assumed), **(more or {})}
        return effective_settings(reading(self.stored).snapshot, overrides=overrides)

    @property
    def placement(self) -> str:
        """Short name of the placement class."""
        return active_placement(self.settings(), self._manager)

    @property
    def unpaired_avg_shedder(self) -> Finding | None:
        """The warning that AvgShedder would shed or place alone, if it would."""
        return unpaired_avg_shedder(self.settings(), self._manager)

    @property
    def _manager(self) -> LoadManager:
        return reading(self.stored).snapshot.manifest.load_manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """Computation of the optimizer on this page.

    Attributes:
        stored: The snapshot.
        request: What is requested of it.
        fleet: The brokers, as they are or changed.
    """

    stored: CachedSnapshot
    request: OptimizeRequest
    fleet: FleetChange = REAL


@dataclass(frozen=True, kw_only=True)
class StrategyDecision:
    """Decision of a strategy.

    Attributes:
        strategy: The strategy.
        first: Its next round.
        acting: The first round with moves, on the load of now; ``None``: none of those looked at.
        number: Of that round, from 1; 0: there is none.
        impact: What the moves of that round cost.
    """

    strategy: AnyStrategy
    first: Round
    acting: Round | None
    number: int
    impact: ClientImpact


def _decided(candidate: StrategyCandidate) -> StrategyDecision:
    one = origin(candidate.stored, candidate.fleet)
    strategy = find_shedding_strategy(candidate.strategy)
    known = [name for name in candidate.pinned if one.view.find_bundle(name) >= 0]
    rounds = shed_rounds(strategy, one.view, candidate.settings(), recently_unloaded=known)
    first = next(rounds)
    later = _LOOKED_AHEAD if one.view.bundles.size <= SYNC_BUNDLES else 0
    numbered = enumerate(itertools.chain([first], itertools.islice(rounds, later)), 1)
    number, acting = next(((at, done) for at, done in numbered if done.moves), (0, None))
    rows = [one.view.find_bundle(move.bundle) for move in (acting.moves if acting else ())]
    return StrategyDecision(
        strategy=strategy,
        first=first,
        acting=acting,
        number=number,
        impact=client_impact(one.snapshot.bundles, rows),
    )


decided = cached(_decided, max_entries=256)
"""What a strategy decides, its next round and the first one that moves something."""


decided_in_background = BackgroundResults(decided, max_entries=256)


def decision(candidate: StrategyCandidate) -> StrategyDecision | str | None:
    """Return the decision of a strategy, its error, or ``None`` while it is computed."""
    is_huge = reading(candidate.stored).snapshot.bundles.num_rows > HUGE_BUNDLES
    try:
        return decided_in_background(candidate) if is_huge else decided(candidate)
    except OpsError as error:
        return _failure(candidate.strategy, error)


def _failure(name: str, error: OpsError) -> str:
    return f"{name} failed: {error.message} {error.hint}".strip()


def _proposed(run: Optimization) -> Proposal:
    one = origin(run.stored, run.fleet)
    return optimize(one.snapshot, run.request, settings=one.settings)


proposed = cached(_proposed, max_entries=64)
proposed_in_background = BackgroundResults(proposed)
"""The smallest set of moves, computed here or in the background."""


def proposal(run: Optimization, *, is_chosen: bool) -> Proposal | str | None:
    """Return the optimal plan, its error, or ``None`` while there is none.

    Args:
        run: What is computed.
        is_chosen: Whether it is the chosen candidate: only then it is computed on a large fleet.
    """
    try:
        if reading(run.stored).view.bundles.size <= SYNC_BUNDLES:
            return proposed(run)
        return proposed_in_background(run) if is_chosen else None
    except OpsError as error:
        return _failure(OPTIMIZER, error)


def _simulated(candidate: StrategyCandidate) -> Simulation | str:
    snapshot = reading(candidate.stored).snapshot
    run = Run(
        shedding=candidate.strategy,
        rounds=ROUNDS,
        recently_unloaded=list(candidate.pinned),
        what_if=candidate.fleet.what_if(snapshot),
    )
    try:
        return simulate(snapshot, run, overrides=dict(candidate.assumed))
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()


simulated = BackgroundResults(_simulated, max_entries=128)
"""The rounds of a strategy to convergence, or the sentence that says why they cannot be."""


def simulated_rounds(candidate: StrategyCandidate) -> Simulation | str | None:
    """Return the rounds, the reason for their absence, or ``None`` while they are simulated."""
    try:
        return simulated(candidate)
    except OpsError as error:
        return str(error)


def _turning(key: tuple[StrategyCandidate, str]) -> tuple[TurningPoint, ...]:
    candidate, broker = key
    what_if = WhatIf(
        find_shedding_strategy(candidate.strategy),
        origin(candidate.stored, candidate.fleet).view,
        candidate.settings,
        recently_unloaded=candidate.pinned,
        is_checked=True,
    )
    return points_simulated(
        origin(candidate.stored, candidate.fleet).snapshot,
        what_if.turning_points(broker),
        {**_SWITCHED_ON, _SHEDDER: candidate.strategy, **dict(candidate.assumed)},
    )


turning_points = cached(_turning, max_entries=128)
"""What would turn the verdict on a broker; every value is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveEdits:
    """Edits of the moves by a person.

    Attributes:
        left_out: Bundles whose moves are left out.
        retargets: Bundle and broker that shall have it, ``None``: the cluster places it.
    """

    left_out: tuple[str, ...] = ()
    retargets: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The plan of a candidate; equal requests on the same snapshot have the same answer.

    Attributes:
        stored: The snapshot.
        moves: Bundle and the broker that is asked to take it, ``None``: the cluster places it.
        edits: What a person changed.
        exclusions: Namespaces that the configuration keeps out of plans.
        reason: Where the moves come from.
        fleet: The brokers, as they are or changed; the plan of a changed fleet is only shown.
    """

    stored: CachedSnapshot
    moves: tuple[tuple[str, str | None], ...]
    edits: MoveEdits = MoveEdits()
    exclusions: tuple[str, ...] = ()
    reason: str = ""
    fleet: FleetChange = REAL


def first_moves(
    stored: CachedSnapshot, moves: tuple[tuple[str, str | None], ...], max_steps: int
) -> tuple[tuple[str, str | None], ...]:
    """Return the moves that one plan of the page holds, in the order in which they are made.

    More steps than a run may have cannot be applied; on a huge fleet each takes milliseconds.
    """
    is_small = reading(stored).view.bundles.size <= SYNC_BUNDLES
    return moves[: max_steps if is_small else min(max_steps, PLAN_MOVES)]


def moves_of(done: Round) -> tuple[tuple[str, str | None], ...]:
    """Return the moves of a round, each with the destination that the strategy itself sees to."""
    return tuple(
        (
            move.bundle,
            move.destination
            if done.destinations.get(move.bundle) in (None, {move.destination: 1.0})
            else None,
        )
        for move in done.moves
    )


def rebalance_preview(request: PlanRequest) -> tuple[Plan, Preview] | str | None:
    """Return plan and preview, the reason for their absence, or ``None`` while computed.

    The plan is made again before it expires: of a large fleet in the background, as the first one.
    """
    is_small = reading(request.stored).view.bundles.size <= SYNC_BUNDLES
    try:
        return (_previews if is_small else previews_in_background)((request, _period()))
    except InvariantError as error:
        return str(error)


def former_preview(request: PlanRequest) -> tuple[Plan, Preview] | str | None:
    """Return the result of :func:`rebalance_preview` in the period before the current one."""
    return previews_in_background.known((request, _period() - 1))


def _period() -> int:
    return int(services.now().timestamp()) // _RENEW_AFTER_S


def _previewed(key: tuple[PlanRequest, int]) -> tuple[Plan, Preview] | str:
    request, _ = key
    snapshot = origin(request.stored, request.fleet).snapshot
    context = PlanContext(
        snapshot=snapshot, now=services.now(), exclusions=frozenset(request.exclusions)
    )
    try:
        plan = _edited(request, context)
    except InputError as error:  # no move is left
        return f"{error.message} {error.hint}"
    return plan, preview_plan(snapshot, plan)


_previews = cached(_previewed, max_entries=64)
previews_in_background = BackgroundResults(_previews)


def _edited(request: PlanRequest, context: PlanContext) -> Plan:
    plan = _built(request, context)
    gone = set(request.edits.left_out)
    own = _bundles_of(plan)
    refused = gone - own
    if refused & {bundle for bundle, _ in request.moves}:  # no step: then it is not asked at all
        remaining = tuple(move for move in request.moves if move[0] not in refused)
        plan = _built(replace(request, moves=remaining), context)
    if gone & own:
        plan = dropped(plan, gone & own, context)
    left = _bundles_of(plan)
    wanted = {bundle: broker for bundle, broker in request.edits.retargets if bundle in left}
    return retargeted(plan, wanted, context) if wanted else plan


def _bundles_of(plan: Plan) -> set[str]:
    return {step.subject for step in plan.steps if step.is_placed_by_cluster}


def _built(request: PlanRequest, context: PlanContext) -> Plan:
    destinations = {bundle: broker for bundle, broker in request.moves if broker is not None}
    return build_unload_plan(
        context.snapshot,
        [bundle for bundle, _ in request.moves],
        destinations=destinations,
        exclusions=request.exclusions,
        reason=request.reason,
        now=context.now,
    )


def _allowed(key: tuple[CachedSnapshot, str]) -> tuple[str, ...]:
    stored, bundle = key
    one = reading(stored)
    basis = Basis(snapshot=one.snapshot, view=one.view, settings=one.settings, now=services.now())
    placed = placed_by_filters(basis, bundle)
    brokers = one.view.brokers
    fit = {*placed.candidates, *placed.distribution} if placed.is_known else set(brokers)
    others = [name for name in brokers if name not in fit][:_MOST_CHECKED]
    fit |= {
        name
        for name in others
        if not any(item.severity == "error" for item in check_move(basis, bundle, name, placed))
    }
    owner = one.view.owner[one.view.bundle_row(bundle)]
    fit -= {one.view.brokers[owner]} if owner >= 0 else set()
    return tuple(
        name
        for name in one.view.brokers
        if name in fit
        and not any(item.severity == "error" for item in check_destination(basis, name))
    )


allowed_destinations = cached(_allowed, max_entries=256)
"""Brokers that may be asked to take a bundle, in the snapshot's order."""
