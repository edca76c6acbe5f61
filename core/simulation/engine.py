"""Rounds: shed, check, place, unload, report; until nothing moves any more or the horizon is there.

The workload stays as it is and follows its bundles. The next round begins one shedding interval
after the last one ended; unloads go one after the other, and what is unloaded within a minute is
placed by the same reports. Bundles rest for the grace period.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

import numpy as np

from core.progress import NO_PROGRESS, Progress
from core.pulsar.placement import find_strategy
from core.pulsar.rules.combinations import unpaired_avg_shedder
from core.pulsar.settings import SHEDDING_SWITCHES, EffectiveSettings, effective_settings
from core.pulsar.shedding import Move, find_shedding_strategy
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadOutcome
from core.simulation.cluster import SimulatedCluster, local_cluster
from core.simulation.managers import Manager
from core.simulation.model import Flap, RoundResult, Run, SimulatedMove, Simulation, StepResult
from core.simulation.scenario import gone_brokers, with_brokers
from core.snapshot import PulsarSnapshot
from core.units import format_band, format_bytes_per_s, pluralize

_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_SHEDDING: Final = "loadBalancerLoadSheddingStrategy"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"

LOOKAHEAD: Final = 60
"""So many rounds without a move, grace periods excluded, and the fleet counts as converged: longer
than any strategy's memory (hit counts, smoothed usage) takes to come to a rest."""


@dataclass
class _Fleet:
    """Fleet state that changes from round to round."""

    cluster: SimulatedCluster
    state: object
    minute: float = 0.0
    unloaded_at: dict[str, float] = field(default_factory=dict)


def simulate(
    snapshot: PulsarSnapshot,
    run: Run,
    *,
    placement: str | None = None,
    overrides: dict[str, object] | None = None,
    release: str | None = None,
    progress: Progress = NO_PROGRESS,
) -> Simulation:
    """Simulate what the cluster's own balancer would do from here on.

    Args:
        snapshot: The start.
        run: What is simulated.
        placement: Class name of the placement strategy; ``None`` for the active one.
        overrides: Settings to assume, upstream key to value.
        release: Release line to assume.
        progress: Called before each round.
    Raises:
        UnknownNameError: A strategy, setting, broker or failure domain that is not there.
        InputError: A strategy that cannot be simulated on this snapshot.
    """
    strategy = find_shedding_strategy(run.shedding)
    settings = assumed_settings(snapshot, strategy, placement, overrides or {}, release)
    start = local_cluster(snapshot, settings, strategy)
    return run_rounds(start, run, strategy, settings, overrides, progress=progress)


def run_rounds(
    start: SimulatedCluster,
    run: Run,
    strategy: AnyStrategy,
    settings: EffectiveSettings,
    overrides: dict[str, object] | None = None,
    is_hopeless: Callable[[Sequence[RoundResult]], bool] | None = None,
    progress: Progress = NO_PROGRESS,
) -> Simulation:
    """Simulate a fleet, wherever its bundles are; see :func:`simulate`.

    Args:
        start: The fleet.
        run: What is simulated.
        strategy: The one that ``run`` names.
        settings: Of :func:`assumed_settings`.
        overrides: Settings that were assumed, upstream key to value.
        is_hopeless: Reads the rounds so far; true ends the simulation before its horizon. Whether
            the fleet has converged is then looked at in fewer rounds: some without a move may
            follow.
        progress: Called before each round.
    """
    engine = _Engine(strategy, settings, start.manager, run.seed)
    fleet, first = engine.start(start, run)
    before = start.measures().throughput.band_ratio
    rounds = list(first)
    progress.step(0, run.rounds, "simulation")
    for done in engine.rounds(fleet, run, looks_seldom=is_hopeless is not None):
        rounds.append(done)
        progress.step(len(rounds), run.rounds, "simulation")
        if is_hopeless is not None and is_hopeless(rounds):
            break
    ending: StepResult = "converged" if engine.is_converged(fleet) else "horizon"
    last_move = max((result.number for result in rounds if result.moves), default=0)
    simulation = Simulation(
        shedding=engine.strategy.name,
        placement=engine.manager.placement,
        interval_minutes=engine.interval_minutes,
        grace_minutes=engine.settings.number(_GRACE),
        ending=ending,
        rounds_to_converge=last_move if ending == "converged" else None,
        deviation_before=before,
        rounds=tuple(rounds),
        flaps=find_flaps(rounds),
        sentence="",
        final=fleet.cluster.snapshot,
        notes=_notes(start.snapshot, engine.settings, overrides or {}),
    )
    return _with_sentence(simulation)


def changed_fleet(
    snapshot: PulsarSnapshot, run: Run, *, overrides: dict[str, object] | None = None
) -> tuple[PulsarSnapshot, RoundResult | None]:
    """Return the fleet after the what-if of a run, before its first round, and what that moved.

    Args:
        snapshot: The fleet as it is.
        run: Its what-if, strategy and seed count; ``None`` is returned where nothing changes.
        overrides: Settings to assume, upstream key to value.
    Raises:
        UnknownNameError: A strategy, setting, broker or failure domain that is not there.
        InputError: A broker that exists already, no broker would be left, or a strategy that
            cannot be simulated on this snapshot.
    """
    strategy = find_shedding_strategy(run.shedding)
    settings = assumed_settings(snapshot, strategy, None, overrides or {}, None)
    start = local_cluster(snapshot, settings, strategy)
    fleet, first = _Engine(strategy, settings, start.manager, run.seed).start(start, run)
    return fleet.cluster.snapshot, first[0] if first else None


def assumed_settings(
    snapshot: PulsarSnapshot,
    strategy: AnyStrategy,
    placement: str | None,
    overrides: dict[str, object],
    release: str | None,
) -> EffectiveSettings:
    """Return active settings with what is assumed on top; shedding counts as switched on.

    Args:
        snapshot: Whose settings.
        strategy: Of shedding.
        placement: Class name; ``None`` for the active one.
        overrides: Upstream key to value.
        release: Release line to assume.
    Raises:
        UnknownNameError: A strategy or setting that is not there.
    """
    assumed: dict[str, object] = dict.fromkeys(SHEDDING_SWITCHES, True) | overrides
    assumed[_SHEDDING] = strategy.name  # what is requested by name is what is simulated
    if placement is not None:
        assumed[_PLACEMENT] = find_strategy(placement).name
    return effective_settings(snapshot, overrides=assumed, release=release)


class _Engine:
    """The steps of a round."""

    def __init__(
        self, strategy: AnyStrategy, settings: EffectiveSettings, manager: Manager, seed: int
    ) -> None:
        self.manager = manager
        self.strategy = strategy
        self.settings = settings
        self._rng = np.random.default_rng(seed)
        self._grace_minutes = settings.number(_GRACE)
        self.interval_minutes = max(settings.number(_INTERVAL), 1.0)
        self._restless: tuple[object, object] | None = None
        """Fleet and memory of which it is known that something still moves."""

    def _begun(self, cluster: SimulatedCluster, run: Run) -> _Fleet:
        """Return a fleet before its first round."""
        recent = dict.fromkeys(run.recently_unloaded, 0.0)
        return _Fleet(cluster, self.strategy.initial_state(), unloaded_at=recent)

    def start(self, start: SimulatedCluster, run: Run) -> tuple[_Fleet, list[RoundResult]]:
        """Apply the what-if."""
        snapshot, what_if = start.snapshot, run.what_if
        grown = with_brokers(snapshot, what_if.added)
        gone = gone_brokers(grown, what_if)
        if grown is snapshot and not gone:
            return self._begun(start, run), []
        cluster, moves = start.changed(grown, gone, self._rng)
        parts = [f"{pluralize(len(what_if.added), 'broker')} joined"] if what_if.added else []
        parts += [f"{pluralize(len(gone), 'broker')} left"] if gone else []
        sentence = f"What if: {' and '.join(parts)}."
        return self._begun(cluster, run), [self._result((0, 0.0), cluster, moves, ({}, sentence))]

    def rounds(
        self, fleet: _Fleet, run: Run, *, looks_seldom: bool = False
    ) -> Iterator[RoundResult]:
        """Run until the horizon, or until the fleet converges.

        Args:
            fleet: Before the first round.
            run: What is simulated.
            looks_seldom: After the 1st, 2nd, 4th, 8th round in succession without a move it is
                looked whether the fleet has converged, and not after every one.
        """
        calm = 0
        for number in range(1, run.rounds + 1):
            done = self._round(fleet, number)
            yield done
            calm = 0 if done.moves else calm + 1
            is_due = calm > 0 and (not looks_seldom or calm & (calm - 1) == 0)
            if is_due and self.is_converged(fleet):
                return

    def _round(self, fleet: _Fleet, number: int) -> RoundResult:
        fleet.minute += self.interval_minutes
        start = fleet.minute
        # the leader's timer is set again after each round: at the boundary the time is just over
        fleet.unloaded_at = {
            name: at for name, at in fleet.unloaded_at.items() if start - at < self._grace_minutes
        }
        recent = frozenset(fleet.unloaded_at)
        decision, fleet.state = fleet.cluster.decided(fleet.state, recent)
        moves: list[SimulatedMove] = []
        skipped: dict[str, str] = {}
        for portion in self._portions(decision.moves):
            # before the next one, brokers have reported what the unloads so far have changed
            unload_outcomes = list(fleet.cluster.unload_outcomes(portion))
            moves += self._carried_out(fleet, unload_outcomes)
            skipped |= {item.move.bundle: item.skipped for item in unload_outcomes if item.skipped}
        if not decision.moves:
            fleet.cluster = fleet.cluster.after(())
        pairs = (skipped, decision.sentence)
        return self._result((number, start), fleet.cluster, tuple(moves), pairs)

    def _portions(self, moves: Sequence[Move]) -> Iterator[Sequence[Move]]:
        """Cut the moves into what is unloaded between two reports."""
        size = int(min(self.manager.unloads_per_minute, max(len(moves), 1)))
        for start in range(0, len(moves), size):
            yield moves[start : start + size]

    def _carried_out(
        self, fleet: _Fleet, unload_outcomes: Sequence[UnloadOutcome]
    ) -> list[SimulatedMove]:
        """Unload one portion: the fleet afterwards, its clock and its memory."""
        moves = self._drawn(unload_outcomes)
        fleet.unloaded_at |= {move.bundle: fleet.minute for move in moves}
        fleet.minute += len(moves) / self.manager.unloads_per_minute
        recorded = [Move(str(move.source), move.bundle, move.destination) for move in moves]
        fleet.state = fleet.cluster.remembered(fleet.state, recorded)
        fleet.cluster = fleet.cluster.after(moves)
        return moves

    def _drawn(self, unload_outcomes: Sequence[UnloadOutcome]) -> list[SimulatedMove]:
        """Draw the destinations; what falls back to its owner is not unloaded."""
        unloaded = [outcome for outcome in unload_outcomes if not outcome.skipped]
        draws = self._rng.random(len(unloaded)).tolist()
        moves: list[SimulatedMove] = []
        laid_out: dict[int, tuple[list[str], list[float]]] = {}
        for outcome, draw in zip(unloaded, draws, strict=True):
            given = outcome.distribution  # which bundles of one namespace share
            known = laid_out.get(id(given))
            if known is None:
                known = laid_out[id(given)] = _limits(given)
            # what numpy's ``choice`` draws, without its checks of the chances
            end = known[0][bisect_right(known[1], draw)]
            move = outcome.move
            if end != move.broker:
                moves.append(SimulatedMove(bundle=move.bundle, source=move.broker, destination=end))
        return moves

    def is_converged(self, fleet: _Fleet) -> bool:
        """Return whether nothing would ever move on this load."""
        rested, state = fleet.cluster.rested(fleet.state)
        first = (rested.identity, state)
        known = self._restless
        if known is not None and first[0] is known[0] and state == known[1]:
            return False
        for _ in range(LOOKAHEAD):
            decision, following = rested.decided(state, frozenset())
            moves = decision.moves
            if moves and any(not outcome.skipped for outcome in rested.unload_outcomes(moves)):
                self._restless = first
                return False
            if following == state:
                return True
            state = following
        return True

    def _result(
        self,
        when: tuple[int, float],
        after: SimulatedCluster,
        moves: tuple[SimulatedMove, ...],
        pairs: tuple[dict[str, str], str],
    ) -> RoundResult:
        impact = after.impact(moves)
        found = after.measures()
        return RoundResult(
            number=when[0],
            minute=round(when[1], 3),
            moves=moves,
            skipped=pairs[0],
            deviation=found.throughput.band_ratio,
            usage_deviation=found.usage.max_deviation_ratio,
            moved_bytes_per_s=impact.throughput_bytes_per_s or 0.0,
            clients=impact.clients or 0,
            sentence=pairs[1],
        )


def _limits(distribution: Mapping[str, float]) -> tuple[list[str], list[float]]:
    """Return the destinations, and up to which draw each is meant."""
    names = sorted(distribution)
    if len(names) == 1:
        return names, [1.0]
    chances = np.array([distribution[name] for name in names])
    limits = np.cumsum(chances / chances.sum())
    return names, (limits / limits[-1]).tolist()


def _notes(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, overrides: dict[str, object]
) -> tuple[str, ...]:
    now = effective_settings(snapshot)
    off = [key for key in now.shedding_off if key not in overrides]
    notes = [f"{key} is false on the cluster; true is assumed here." for key in off]
    notes.append("The workload is assumed constant and follows its bundles at once.")
    if settings.text(_PLACEMENT).endswith("RoundRobinBrokerSelector"):
        notes.append("The round-robin position is unknown: it is drawn at random.")
    pair = unpaired_avg_shedder(settings, snapshot.manifest.load_manager)
    notes += [f"{pair.text} {pair.hint}"] if pair is not None else []
    return tuple(notes)


def _with_sentence(done: Simulation) -> Simulation:
    before, after = format_band(done.deviation_before), format_band(done.deviation_after)
    if done.rounds_to_converge is None:
        start = (
            f"{done.shedding} does not converge within {pluralize(done.rounds[-1].number, 'round')}"
        )
    elif not done.move_count:
        return replace(done, sentence=f"{done.shedding} moves nothing; deviation band {after}.")
    else:
        minutes = max(one.minute for one in done.rounds if one.moves)
        start = (
            f"{done.shedding} converges after {pluralize(done.rounds_to_converge, 'round')} "
            f"({minutes:.0f} min)"
        )
    flaps = f", {len(done.flaps):,} returned" if done.flaps else ""
    return replace(
        done,
        sentence=f"{start}: {pluralize(done.move_count, 'move')} "
        f"({format_bytes_per_s(done.moved_bytes_per_s)}, "
        f"{pluralize(done.clients, 'client')}{flaps}), deviation band of traffic "
        f"from {before} to {after}.",
    )


def find_flaps(rounds: Iterable[RoundResult]) -> tuple[Flap, ...]:
    """Return every A-B-A (or a longer path back to A), in the order in which the bundles returned.

    Args:
        rounds: In order.
    """
    return Flaps().after(rounds)


class Flaps:
    """Returns of bundles, found as rounds come."""

    def __init__(self) -> None:
        self._left_at: dict[tuple[str, str], RoundResult] = {}
        self._found: list[Flap] = []
        self._count = 0

    def after(self, rounds: Iterable[RoundResult]) -> tuple[Flap, ...]:
        """Return those of all rounds so far; those that were read already are not read again."""
        for done in islice(rounds, self._count, None):
            self._count += 1
            self._read(done)
        return tuple(self._found)

    def _read(self, done: RoundResult) -> None:
        left_at = self._left_at
        for move in done.moves:
            if move.source is None or move.destination is None:
                continue
            left = left_at.pop((move.bundle, move.destination), None)
            if left is not None:
                self._found.append(
                    Flap(
                        bundle=move.bundle,
                        home=move.destination,
                        away=move.source,
                        left_round=left.number,
                        back_round=done.number,
                        dwell_minutes=done.minute - left.minute,
                    )
                )
            left_at[move.bundle, move.source] = done
