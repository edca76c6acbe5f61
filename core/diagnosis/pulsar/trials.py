"""Changes, tried on one snapshot: each is simulated until the cluster converges, or the horizon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from core.arrays import column_values
from core.diagnosis.model import MIN_GAIN_RATIO, Effect, Outcome
from core.diagnosis.pulsar.pools import Pools
from core.errors import OpsError
from core.progress import JobStoppedError, NoProgress, Progress
from core.pulsar.measures import MeasureName, measure
from core.pulsar.owners import unserved_rows
from core.pulsar.settings import (
    SHEDDING_SWITCHES,
    EffectiveSettings,
    effective_settings,
)
from core.pulsar.shedding.registry import AnyStrategy, active_shedding_strategy
from core.pulsar.view import LoadView
from core.simulation.engine import Flaps, run_rounds
from core.simulation.model import RoundResult, Run, Simulation
from core.simulation.shared import RecordedSettings, SharedRounds, shared_cluster
from core.snapshot import PulsarSnapshot

ROUNDS: Final = 60
"""Horizon of a trial: twice the grace period of bundles by default, so that they can come back."""

PATIENT_ROUNDS: Final = 150
"""Horizon of a trial that is more even, with nothing returned, and only waits for grace periods."""

_WHOLE_SHARE: Final = 0.97
"""Of the time goes to the search otherwise: the trial under way when it is over still ends."""

_SEARCH_SHARE: Final = 0.75
"""Of the time goes to the search once something is found; the rest simulates that with other
draws."""

_PROOF: Final = 1.0
"""Of the time that a trial took is left for one with other draws."""

_ANY_S: Final = 1e-6
_MAX_ELAPSED: Final = 4.0
"""Elapsed time is at most so many times the processor time of the limit."""

_BASELINE_SHARE: Final = 0.5
_BASELINE_SHARE_OF_MANY: Final = 0.2
"""Of the time goes to the first simulation, mostly the cluster as it is, less of it with over
:data:`MANY_BUNDLES`; how far it got is then the horizon of every trial ..."""

_MIN_ROUNDS: Final = 3
"""... but it gets through so many rounds."""

MANY_BUNDLES: Final = 5_000
"""A cluster with more takes long for a round."""

SHEDDING: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"

_RETURNED_FLOOR: Final = 30
"""A trial ends early once more moves back are seen than this, and than without the change: it is
harmful, however it goes on."""

_SETTLED: Final = 5
_WORSE: Final = 2.0
"""After so many rounds a deviation so many times the present one, and more, is not made good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of a trial.

    Attributes:
        settings: Upstream key to value.
        release: Release that the brokers would run; ``None`` for their current one.
        data: Name of what :attr:`edit` does; two changes of one name are the same.
        edit: Returns the snapshot with other data: a policy less, a bundle split, a true capacity.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    release: str | None = None
    data: str = ""
    edit: Callable[[PulsarSnapshot], PulsarSnapshot] | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Its identity."""
        pairs = tuple(sorted((key, repr(value)) for key, value in self.settings.items()))
        return (pairs, self.release, self.data)

    def also(self, other: Change) -> Change:
        """Return both changes as one."""
        return Change(
            settings={**self.settings, **other.settings},
            release=other.release or self.release,
            data="; ".join(name for name in (self.data, other.data) if name),
            edit=_both(self.edit, other.edit),
        )


NOTHING: Final = Change()


class _TimeIsOverError(Exception):
    """The time is over in the middle of a trial."""


class TimeLimit:
    """The time of one diagnosis, from now on; all its trials have the same one.

    Processor time of the thread counts: on a busy machine a search takes longer, and comes to the
    same causes.

    Args:
        seconds: Of all of it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started = time.thread_time()
        self._began = time.perf_counter()

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._seconds - self._used_s

    def is_over(self, share: float = 1.0) -> bool:
        """Return whether a share of the time is used."""
        return self._used_s > share * self._seconds

    @property
    def _used_s(self) -> float:
        elapsed_s = time.perf_counter() - self._began
        return max(time.thread_time() - self._started, elapsed_s / _MAX_ELAPSED)


Edit = Callable[[PulsarSnapshot], PulsarSnapshot] | None


def _both(first: Edit, then: Edit) -> Edit:
    if first is None or then is None:
        return first or then
    return lambda snapshot: then(first(snapshot))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Result of a change.

    Attributes:
        outcome: The end of it.
        reads: Settings that were read on the way: any other one makes no difference.
        traffic: Farthest distance of a broker's traffic from the mean at the end, whatever is
            judged.
        simulation: The rounds; ``None`` if shedding is off, nothing moves.
        is_cut_short: Whether the time allowed fewer rounds than it takes to judge it: it neither
            proves nor refutes anything.
    """

    outcome: Outcome
    reads: frozenset[str]
    traffic: float | None
    simulation: Simulation | None = None
    is_cut_short: bool = False

    @property
    def traffic_of_all(self) -> float | None:
        """The same over all brokers, whatever policies keep apart."""
        return None if self.simulation is None else self.simulation.deviation_after


@dataclass(eq=False)
class Trials:
    """Trials on one snapshot, each change tried once.

    Attributes:
        snapshot: The cluster.
        judged_by: The measure whose deviation counts.
        budget_s: Seconds after which :attr:`is_over` is true.
        seed: Of the draws.
        progress: Where the number of trials goes.
        assumed: What holds in every trial, the cluster as it is included.
        max_count: Trials after which :attr:`is_over` is true, however long they took; 0: any.
        shared: Rounds that trials have in common.
        compared_with: The cluster as it is, simulated already; ``None`` if it uses this seed.
        stops_midway: Whether a trial that is not done when the search is over is given up; it
            counts as not tried. The cluster as it is is then simulated for fewer rounds.
        traffic_may_differ: Unlike machines are even in usage only with uneven traffic.
        limit: The time so far; ``None`` to start now.
        horizon: Rounds of a trial; 0: :data:`ROUNDS`, or what the time allows the first one.
        is_held_out: Whether these have other draws than the search; they have all of the time.
    """

    snapshot: PulsarSnapshot
    judged_by: MeasureName = "throughput"
    budget_s: float = 2.0
    seed: int = 1
    progress: Progress = field(default_factory=NoProgress)
    assumed: Change = NOTHING
    max_count: int = 0
    shared: SharedRounds = field(default_factory=SharedRounds)
    compared_with: Trial | None = None
    stops_midway: bool = False
    traffic_may_differ: bool = False
    limit: TimeLimit | None = None
    horizon: int = 0
    is_held_out: bool = False
    _trials: dict[tuple[object, ...], Trial | None] = field(default_factory=dict, init=False)
    _by_settings: list[tuple[Mapping[str, Any], Trial]] = field(default_factory=list, init=False)
    _count: int = field(default=0, init=False)
    _limit: TimeLimit = field(init=False)
    _took_s: dict[tuple[object, ...], float] = field(default_factory=dict, init=False)
    _proof_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._limit = self.limit or TimeLimit(self.budget_s)

    @cached_property
    def settings(self) -> EffectiveSettings:
        """The active settings."""
        return effective_settings(
            self.snapshot, overrides=self.assumed.settings, release=self.assumed.release
        )

    @cached_property
    def pools(self) -> Pools:
        """Brokers that policies keep apart: the load is judged in each pool."""
        limit = self.settings.number("loadBalancerBrokerOverloadedThresholdPercentage") / 100
        view = LoadView.of(self.snapshot, self.settings)
        return Pools.of(view, view.overload_usage, limit)

    @cached_property
    def baseline(self) -> Trial:
        """The cluster without changes.

        Raises:
            OpsError: It cannot be simulated.
        """
        trial = self.compared_with or self._tried(NOTHING, is_patient=True)
        self._trials[NOTHING.key] = trial
        return trial

    @property
    def count(self) -> int:
        """Changes that were simulated, those that were cut short excluded."""
        return self._count

    @property
    def is_over(self) -> bool:
        """Whether the time or the number of trials is used up."""
        if self.max_count and self.count >= self.max_count:
            return True
        return self.is_time_over

    @property
    def is_time_over(self) -> bool:
        """Whether all of the time is used."""
        return self._limit.is_over()

    @property
    def is_search_over(self) -> bool:
        """Whether the remaining time is reserved for confirming results."""
        if self.max_count and self.count >= self.max_count:
            return True
        if self.is_held_out or not self._proof_s:
            return self._limit.is_over(_WHOLE_SHARE)
        return self._limit.is_over(_SEARCH_SHARE) or self._limit.left_s < self._proof_s

    def leave_time_for(self, change: Change) -> None:
        """Leave time to simulate a change that helps with other draws, too."""
        took_s = self._took_s.get(change.key, 0.0)
        self._proof_s = max(self._proof_s, _PROOF * took_s, _ANY_S)

    @property
    def is_cut_short(self) -> bool:
        """Whether the time allows fewer rounds than a trial should have."""
        return 0 < self.horizon < ROUNDS

    def with_seed(self, seed: int, compared_with: Trials | None = None) -> Trials:
        """Return trials of the same cluster with other draws.

        Args:
            seed: Of the draws.
            compared_with: Whose baseline changes are compared with; ``None`` for that of this seed.
        """
        return Trials(
            self.snapshot,
            judged_by=self.judged_by,
            budget_s=self.budget_s,
            seed=seed,
            progress=self.progress,
            assumed=self.assumed,
            shared=self.shared,
            stops_midway=self.stops_midway,
            traffic_may_differ=self.traffic_may_differ,
            limit=self._limit,
            horizon=ROUNDS,
            is_held_out=True,
            compared_with=None if compared_with is None else compared_with.baseline,
        )

    def judged(self, by: MeasureName, *, traffic_may_differ: bool = False) -> Trials:
        """Return trials of the same cluster in the same time, judged by another measure.

        A cluster that is simulated already is not simulated again.
        """
        known = vars(self).get("baseline")
        if known is not None and known.simulation is not None:
            deviation = self._deviation(known.simulation.final, self.settings, by)
            known = replace(known, outcome=replace(known.outcome, deviation=deviation))
        else:
            known = None
        return Trials(
            self.snapshot,
            judged_by=by,
            budget_s=self.budget_s,
            progress=self.progress,
            assumed=self.assumed,
            max_count=self.max_count,
            shared=self.shared,
            stops_midway=self.stops_midway,
            traffic_may_differ=traffic_may_differ,
            limit=self._limit,
            horizon=self.horizon,
            compared_with=known,
        )

    def known(self, change: Change) -> bool:
        """Return whether a change was evaluated: fully simulated, or refused."""
        found = self._trials.get(change.key)
        return change.key in self._trials and (found is None or not found.is_cut_short)

    def is_begun(self, change: Change) -> bool:
        """Return whether a change was evaluated, or cut short."""
        return change.key in self._trials

    def trial(self, change: Change) -> Trial | None:
        """Return the result of a change, or ``None`` if it is invalid or out of time.

        Only a change that was simulated without being cut short, or cannot be simulated, is
        :meth:`known` afterwards.
        """
        if change.key not in self._trials:
            try:
                started = time.thread_time()
                self._trials[change.key] = self._same(change) or self._tried(change)
                self._took_s[change.key] = time.thread_time() - started
            except JobStoppedError:
                raise
            except _TimeIsOverError:
                return None
            except OpsError:
                self._trials[change.key] = None
            tried = self._trials[change.key]
            is_finished = tried is not None and not tried.is_cut_short
            self._count += is_finished and change.key != NOTHING.key
            if tried is not None and change.edit is None and change.release is None:
                self._by_settings.append((change.settings, tried))
            if not self.is_held_out:
                self.progress.step(self.count, 0, "simulating changes")
        return self._trials[change.key]

    def _same(self, change: Change) -> Trial | None:
        """Return the trial that a change cannot differ from: that one read nothing it adds."""
        if change.edit is not None or change.release is not None:
            return None
        # what held-out trials are compared with may have other draws
        known = list(self._by_settings)
        if not self.is_held_out:
            known.append(({}, self.baseline))
        for settings, trial in known:
            added = change.settings.keys() - settings.keys()
            if settings.items() <= change.settings.items() and not added & trial.reads:
                return trial
        return None

    def effect(self, change: Change) -> Effect | None:
        """Return the effect of a change on the outcome."""
        trial = self.trial(change)
        if trial is None:
            return None
        try:
            return Effect(before=self.baseline.outcome, after=trial.outcome)
        except _TimeIsOverError:
            return None

    def spoils_traffic(self, change: Change) -> bool:
        """Return whether a change makes traffic less even while another measure is evaluated.

        Within a pool of brokers, or over all of them: a fix that only shifts it between pools is
        none either.
        """
        trial, before = self.trial(change), self.baseline
        if self.traffic_may_differ or trial is None:
            return False
        pairs = ((trial.traffic, before.traffic), (trial.traffic_of_all, before.traffic_of_all))
        return any(
            after is not None and now is not None and after > now + MIN_GAIN_RATIO
            for after, now in pairs
        )

    def _tried(self, change: Change, *, is_patient: bool = False) -> Trial:
        change = self.assumed.also(change)
        snapshot = self._edited(change)
        settings = RecordedSettings.recorded(
            effective_settings(snapshot, overrides=change.settings, release=change.release)
        )
        strategy = active_shedding_strategy(snapshot.manifest.load_manager, settings)
        if settings.shedding_off:
            return Trial(
                outcome=self._idle(snapshot, settings),
                reads=frozenset(SHEDDING_SWITCHES),
                traffic=self._deviation(snapshot, settings, "throughput"),
            )
        done = self._simulated(snapshot, settings, strategy, is_patient=is_patient)
        is_waiting = not is_patient and self._is_worth_waiting(done, settings)
        is_brief = self.is_held_out and self._is_large
        is_cut_short = self._was_cut_short(done)
        if is_waiting and not is_brief:
            try:
                done = self._simulated(snapshot, settings, strategy, rounds=PATIENT_ROUNDS)
                is_cut_short = False
            except _TimeIsOverError:
                is_cut_short = True
        outcome = Outcome(
            moves=done.move_count,
            returned=len(done.flaps),
            deviation=self._deviation(done.final, settings, self.judged_by),
            # that waiting ends is shown by the search; other draws of a large cluster take its word
            converges=done.ending == "converged" or _goes_on(done) or (is_waiting and is_brief),
            rounds=done.rounds[-1].number
            if done.rounds_to_converge is None
            else done.rounds_to_converge,
            missing=self._unserved(snapshot),
            idle_moves=self._idle_moves(snapshot, done),
        )
        reads = frozenset({*settings.reads, *SHEDDING_SWITCHES, SHEDDING, PLACEMENT})
        traffic = self._deviation(done.final, settings, "throughput")
        return Trial(
            outcome=outcome,
            reads=reads,
            traffic=traffic,
            simulation=done,
            is_cut_short=is_cut_short,
        )

    def _was_cut_short(self, done: Simulation) -> bool:
        """Return whether the time limit ended a simulation that more rounds might have changed."""
        return self.is_cut_short and done.ending == "horizon" and len(done.rounds) == self.horizon

    def _edited(self, change: Change) -> PulsarSnapshot:
        """Return the snapshot with the data of a change, one for all trials with it."""
        edit = change.edit
        if edit is None:
            return self.snapshot
        key = ("edited", id(self.snapshot), change.data)
        edited: PulsarSnapshot = self.shared.result(key, self.snapshot, lambda: edit(self.snapshot))
        return edited

    def _simulated(
        self,
        snapshot: PulsarSnapshot,
        settings: EffectiveSettings,
        strategy: AnyStrategy,
        *,
        is_patient: bool = False,
        rounds: int = 0,
    ) -> Simulation:
        cluster = shared_cluster(snapshot, settings, strategy, self.shared)
        limit = None if is_patient else self._gives_up()
        is_first, horizon = not self.horizon, rounds or self.horizon or ROUNDS
        run = Run(shedding=strategy.name, rounds=horizon, seed=self.seed)

        def is_done(rounds: Sequence[RoundResult]) -> bool:
            what = "changes with other placements" if self.is_held_out else "changes"
            words = f"simulating {what}, round {rounds[-1].number} of at most {horizon}"
            self.progress.step(self.count, 0, words)
            if is_first and self._is_long_enough(rounds):
                self.horizon = rounds[-1].number
                return True
            if self.stops_midway and not is_first and self.is_search_over:
                raise _TimeIsOverError
            return limit is not None and limit(rounds)

        done = run_rounds(cluster, run, strategy, settings, is_hopeless=is_done)
        self.horizon = self.horizon or ROUNDS
        return done

    def _is_worth_waiting(self, done: Simulation, settings: EffectiveSettings) -> bool:
        """Return whether a trial improves the unchanged cluster and only needs more rounds.

        After a move a bundle is left alone for its grace period, so that a large cluster rests and
        begins again; that takes longer than the horizon where moves come in waves.
        """
        if done.ending != "horizon" or done.flaps:
            return False
        if done.rounds[-1].moves and not self.is_cut_short:
            return False
        before = self.baseline.outcome.deviation
        after = self._deviation(done.final, settings, self.judged_by)
        return before is not None and after is not None and after < before - MIN_GAIN_RATIO

    def _is_long_enough(self, rounds: Sequence[RoundResult]) -> bool:
        """Return whether the first simulation has used its share of the time."""
        if not self.stops_midway or len(rounds) < _MIN_ROUNDS:
            return False
        share = _BASELINE_SHARE_OF_MANY if self._is_large else _BASELINE_SHARE
        return self._limit.is_over(share)

    @property
    def _is_large(self) -> bool:
        return bool(self.snapshot.bundles.num_rows > MANY_BUNDLES)

    def _gives_up(self) -> Callable[[Sequence[RoundResult]], bool]:
        limit = max(_RETURNED_FLOOR, self.baseline.outcome.returned)

        now, flaps = self.baseline.outcome.deviation or 0.0, Flaps()

        def is_hopeless(rounds: Sequence[RoundResult]) -> bool:
            if len(flaps.after(rounds)) > limit:
                return True
            last = rounds[-1].deviation or 0.0
            return len(rounds) >= _SETTLED and last > _WORSE * now + _WORSE

        if self.judged_by != "throughput":  # a round measures traffic only
            return lambda rounds: len(flaps.after(rounds)) > limit

        return is_hopeless

    def _idle(self, snapshot: PulsarSnapshot, settings: EffectiveSettings) -> Outcome:
        deviation = self._deviation(snapshot, settings, self.judged_by)
        return Outcome(
            moves=0,
            returned=0,
            deviation=deviation,
            converges=True,
            rounds=0,
            missing=self._unserved(snapshot),
        )

    def _idle_moves(self, snapshot: PulsarSnapshot, done: Simulation) -> int:
        """Return the number of moves of bundles without messages."""
        idle: frozenset[str] = self.shared.result(
            ("idle", id(snapshot)), snapshot, lambda: _idle_bundles(snapshot)
        )
        return sum(move.bundle in idle for one in done.rounds for move in one.moves) if idle else 0

    def _unserved(self, snapshot: PulsarSnapshot) -> int:
        """Return the number of unserved bundles; balancer rounds do not change it."""
        found: int = self.shared.result(
            ("unserved", id(snapshot)),
            snapshot,
            lambda: unserved_rows(snapshot, self.settings).size,
        )
        return found

    def _deviation(
        self, snapshot: PulsarSnapshot, settings: EffectiveSettings, judged_by: MeasureName
    ) -> float | None:
        # other weights make other usage of the same load: that evens out nothing
        by = self.settings if judged_by == "usage" else settings
        return self.pools.deviation(measure(snapshot, by).of(judged_by))


def _idle_bundles(snapshot: PulsarSnapshot) -> frozenset[str]:
    """Return the bundles whose last statistics have no messages; unknown ones are none."""
    rates = [column_values(snapshot.bundles, f"msg_rate_{side}") for side in ("in", "out")]
    is_idle = (rates[0] == 0) & (rates[1] == 0)
    return frozenset(snapshot.bundles["bundle"].filter(pa.array(is_idle)).to_pylist())


def _goes_on(done: Simulation) -> bool:
    """Return whether the last round still moves bundles, and none was moved back.

    A large cluster that is relieved one broker a round takes longer than the horizon. One that only
    waits for the grace period of its bundles does not go on: it may begin again.
    """
    return done.ending == "horizon" and bool(done.rounds[-1].moves) and not done.flaps


def judged_trials(trials: Trials) -> Trials:
    """Return trials of the same cluster, judged by the measure that its strategy fires by."""
    settings = trials.settings
    strategy = active_shedding_strategy(trials.snapshot.manifest.load_manager, settings)
    view = LoadView.of(trials.snapshot, settings)
    measure = strategy.fires_by(view, strategy.config(settings))
    return trials.judged(measure)
