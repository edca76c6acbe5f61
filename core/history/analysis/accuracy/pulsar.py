"""The shadow of Pulsar's load manager: what it would do on each live snapshot.

It keeps for each strategy what the real class keeps between its rounds, and decides once in each
shedding interval of the cluster, as the leader does. What it predicts is compared with what the
leader really did by :mod:`core.history.analysis.accuracy.accuracy`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.errors import OpsError
from core.history.analysis.accuracy.shadow import MIN_REPORTED, SHADOW, is_due, rows_of, slack_ms
from core.pulsar.averages import (
    AVERAGES,
    TERMS,
    known_sums,
    sampled,
    seeds_of,
    set_column,
    sums,
)
from core.pulsar.leader.prediction import RoundPrediction
from core.pulsar.settings import SHEDDING_SWITCHES, effective_settings
from core.pulsar.shedding import (
    Decision,
    Round,
    UnloadChecks,
    active_shedding_strategy,
    find_shedding_strategy,
    shed_round,
)
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.view import LoadView
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.units import datetime_to_ms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = Mapping[str, Floats]
"""Of bundles, by name."""

_RETAINED: Final = (*AVERAGES, *(f"{term}_samples" for term, _ in TERMS))
_WRITE_SHOWN_BY: Final = tuple(f"short_{rate}" for rate in RATES)
"""Averages that show the moment of a write: they change the most."""
_MOST_GUESSES: Final = 16


Observed = Callable[[], RoundPrediction | None]


_CONFIGURED: Final = "loadBalancerLoadSheddingStrategy"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_MS: Final = 1000

_REACH: Final = 2.0
"""An observed round older than so many intervals is of an observer that stopped."""


def no_observer() -> RoundPrediction | None:
    """Return the note that no leader observer runs."""
    return None


@dataclass(slots=True)
class _Memory:
    """State of one strategy between rounds.

    Attributes:
        state: The strategy's own; ``None`` if it starts again.
        left: The same when shedding was switched off: the leader goes on from there.
        before: What it was before the last round.
        decided_at: Of its last round, ms.
        failure: Why it could not be run last time; empty: it could.
    """

    state: object = None
    left: Any = None
    before: Any = None
    decided_at: int | None = None
    failure: str = ""


@dataclass(frozen=True)
class _PreviousSnapshot:
    """The snapshot before: as it was read, and the averages of its bundles as they were then."""

    read: PulsarSnapshot
    averages: Columns


class CarriedAverages:
    """Averages of one cluster's bundles as its leader has them; snapshots come in their order."""

    def __init__(self) -> None:
        self._before: _PreviousSnapshot | None = None
        self._leader: str | None = None

    def on(self, snapshot: PulsarSnapshot) -> PulsarSnapshot:
        """Return a snapshot with the leader's averages in place of those that it wrote.

        The first snapshot and another leader begin with what is written; the extensible manager
        keeps no averages.

        Cost:
            O(bundles + brokers), no Python loop over them.
        """
        manifest, carried = snapshot.manifest, snapshot
        if manifest.load_manager != "modular" or manifest.leader != self._leader:
            self._before, self._leader = None, manifest.leader
        averages: Columns = _columns(snapshot.bundles, _RETAINED)
        if self._before is not None:
            averages = _Minute(snapshot, self._before).averages()
            carried = _with_averages(snapshot, averages)
        self._before = _PreviousSnapshot(snapshot, averages)
        return carried


class _Minute:
    """Changes between two snapshots, by row of the later one's bundles."""

    def __init__(self, snapshot: PulsarSnapshot, before: _PreviousSnapshot) -> None:
        bundles, brokers, past = snapshot.bundles, snapshot.brokers, before.read.bundles
        rows = row_of(past["bundle"], bundles["bundle"])
        self._now = _columns(bundles, RATES)
        self._was = _rows(_columns(past, RATES), rows)
        self._seeds = seeds_of(snapshot)
        self._written = _columns(bundles, _RETAINED)
        self._is_new = _differs(self._written, _rows(_columns(past, _RETAINED), rows))
        order, self._reports = _reports(brokers, before.read.brokers)
        reporter = row_of(brokers["broker"], bundles["reported_by"])
        was = np.append(row_of(brokers["broker"], past["reported_by"]), -1)[rows]
        self._is_reported = reporter >= 0
        self._stays = self._is_reported & (reporter == was)
        self._place = np.append(order, self._reports)[reporter]
        reported = np.append(order < self._reports, np.False_)[was]
        # the broker that gave a bundle wrote first: no report named it, and its averages went
        lost = (was >= 0) & (reporter != was) & (reported | ~self._is_reported)
        self._held = {
            name: np.where(lost, np.nan, values)
            for name, values in _rows(before.averages, rows).items()
        }

    def averages(self) -> Columns:
        """Return the averages of now: what was written, and the reports that came since."""
        at, last = self._written_after(), self._reports
        own = int(self._is_new.any())  # the leader takes one more sample when it writes
        older = self._after(self._after(self._held, 0, at, own), at, last)
        newer = self._after(self._written, at, last)
        return {name: np.where(self._is_new, newer[name], older[name]) for name in _RETAINED}

    def _written_after(self) -> int:
        """Return the number of reports received before the leader's write, inferred from it."""
        judged = self._is_new & self._stays
        if not judged.any():
            return 0
        guesses = np.unique(np.linspace(0, self._reports, _MOST_GUESSES).round().astype(int))
        found = [self._miss(int(guess), judged) for guess in guesses]
        return int(guesses[int(np.argmin(found))])

    def _miss(self, reports: int, judged: Flags) -> float:
        """Difference between written and computed averages after that many reports."""
        guessed = self._after(self._held, 0, reports, 1)
        miss = 0.0
        for name in _WRITE_SHOWN_BY:
            wanted = self._written[name][judged]
            apart = np.abs(guessed[name][judged] - wanted)
            miss += float(np.nansum(apart) / max(np.nansum(np.abs(wanted)), 1.0))
        return miss

    def _after(self, averages: Columns, first: int, end: int, more: int = 0) -> Columns:
        """Return averages after the samples that some of the reports brought.

        Args:
            averages: Before.
            first: Number of the first of the reports.
            end: Number of the first one after them.
            more: Samples of the state at the end.
        """
        place = np.clip(self._place, first, end)
        is_before_write = self._place < end
        old = np.where(self._stays, place - first + np.where(is_before_write, 0, more), 0)
        new = np.where(self._is_reported & (is_before_write | ~self._stays), end - place, 0)
        new += np.where(self._is_reported & is_before_write, more, 0)
        return self._sampled(self._sampled(averages, self._was, old), self._now, new)

    def _sampled(self, averages: Columns, rates: Columns, counts: Ints) -> Columns:
        made: dict[str, Floats] = {}
        takes = counts > 0
        for term, most in TERMS:
            name = f"{term}_samples"
            held = np.nan_to_num(averages[name]).astype(np.int64)
            for rate, last in rates.items():
                begun = self._seeds.get(rate), (held, most)
                key = f"{term}_{rate}"
                made[key], filled = sampled(averages[key], last, takes, counts, begun)
            made[name] = np.where(takes & np.isfinite(last), filled, averages[name])
        return made


def _with_averages(snapshot: PulsarSnapshot, averages: Columns) -> PulsarSnapshot:
    bundles, brokers = snapshot.bundles, snapshot.brokers
    reporter = row_of(brokers["broker"], bundles["reported_by"])
    for name, values in averages.items():
        kind = bundles.schema.field(name).type
        array = pa.array(values, pa.float64(), mask=np.isnan(values))
        bundles = set_column(bundles, name, pc.cast(array, kind))
    for name in AVERAGES:
        totals = sums(reporter, averages[name], brokers.num_rows)
        brokers = set_column(brokers, name, known_sums(brokers, name, totals))
    tables = {**snapshot.tables, "bundles": bundles, "brokers": brokers}
    return PulsarSnapshot.build(snapshot.manifest, tables)


def _columns(table: pa.Table, names: tuple[str, ...]) -> Columns:
    return {name: column_values(table, name) for name in names}


def _rows(columns: Columns, rows: Ints) -> Columns:
    """Return columns in other rows, NaN for row -1."""
    return {name: np.append(values, np.nan)[rows] for name, values in columns.items()}


def _differs(columns: Columns, others: Columns) -> Flags:
    """Whether any known value differs."""
    parts = [np.isfinite(values) & (values != others[name]) for name, values in columns.items()]
    return np.asarray(np.any(parts, axis=0), np.bool_)


def _reports(brokers: pa.Table, before: pa.Table) -> tuple[Ints, int]:
    """Return each broker's reports since then, and their number.

    A broker that wrote none has the number after the last.
    """
    reported = column_values(brokers, "reported_at")
    at = row_of(before["broker"], brokers["broker"])
    was = np.append(column_values(before, "reported_at"), np.nan)[at]
    rows = np.flatnonzero(np.isfinite(reported) & ~(reported <= was))
    order = np.full(reported.size, rows.size, np.int64)
    order[rows[np.argsort(reported[rows], kind="stable")]] = np.arange(rows.size)
    return order, rows.size


@dataclass
class PulsarShadow:
    """Shedding strategies on live snapshots of a Pulsar cluster.

    The configured strategy is always among them, and is run as if shedding were switched on;
    whether it is stands in ``is_switched_on``. A new leader knows nothing of the rounds of the one
    before, so the strategies start again with it. When the leader holds its rounds shows in what it
    moves: the shadow falls in with them, so that both decide on the same load, the first time after
    shedding was switched on above all.

    Attributes:
        others: Class names of strategies besides the configured one.
        minute_s: Seconds that count as one minute of the cluster's settings; 60 but for a sandbox
            whose time is compressed.
        observed: Returns the last round of the leader observer, ``None`` where none runs. Its
            rounds are those of the configured strategy then: they begin when the leader's do, with
            every report up to their start.
    """

    others: Sequence[str] = ()
    minute_s: float = 60.0
    observed: Observed = no_observer
    _memories: dict[str, _Memory] = field(default_factory=dict)
    _unloaded_at: dict[str, int] = field(default_factory=dict)
    _leader: str | None = None
    _is_on: bool = False
    _round_at: int | None = None
    _is_answered: bool = False
    _previous: PulsarSnapshot | None = None
    _averages: CarriedAverages = field(default_factory=CarriedAverages)
    _observed_at: int | None = None

    def remember(self, moved: Mapping[str, int]) -> None:
        """Take over what was moved before the first snapshot: bundle to time, ms."""
        self._unloaded_at |= moved

    def decide(self, snapshot: PulsarSnapshot, moved: Collection[str] = ()) -> pa.Table:
        """Return each strategy's next moves, as :data:`SHADOW`; see :class:`Shadow`.

        Source:
            Pulsar ``ModularLoadManagerImpl#doLoadShedding``: what it unloaded rests for the grace
            period. Whoever looks from outside knows what moved, not who requested it.
        """
        snapshot = self._averages.on(snapshot)
        taken_at = datetime_to_ms(snapshot.manifest.taken_at)
        self._notice_leader(snapshot.manifest.leader)
        if moved:
            self._fall_in()
        self._previous = snapshot
        # it was unloaded in the leader's round that followed the shadow's last one
        last = self._round_at if self._round_at is not None else taken_at
        self._unloaded_at |= dict.fromkeys(moved, last)
        try:
            effective = effective_settings(snapshot)
            configured = active_shedding_strategy(snapshot.manifest.load_manager, effective)
        except OpsError as exc:
            turn = _RoundValues(taken_at, is_configured=True, is_on=False)
            return _failed("configured", self._memory("configured"), turn, exc)
        is_on = not effective.shedding_off
        self._notice_switch(is_on=is_on)
        grace_ms = effective.number(_GRACE) * self.minute_s * _MS
        interval_ms = max(effective.number(_INTERVAL), 1.0) * self.minute_s * _MS
        self._unloaded_at = {
            name: at
            for name, at in self._unloaded_at.items()
            if taken_at - at < grace_ms - slack_ms(interval_ms)
        }
        if is_due(taken_at, self._round_at, interval_ms):
            self._round_at, self._is_answered = taken_at, False
        names = dict.fromkeys([configured.name, *self.others])
        parts = [
            self._round(
                snapshot, name, interval_ms, _RoundValues(taken_at, name == configured.name, is_on)
            )
            for name in names
        ]
        turn = _RoundValues(taken_at, is_configured=True, is_on=is_on)
        parts[0] = self._observed_rows(parts[0], configured.name, interval_ms, turn)
        return pa.concat_tables(parts)

    def _observed_rows(
        self, rows: pa.Table, strategy: str, interval_ms: float, turn: _RoundValues
    ) -> pa.Table:
        """Return the rows of the configured strategy: those of the observed round if there is one.

        A snapshot that is decided on later than the observer's round, and an observer that stopped,
        leave the rows of the snapshot.
        """
        seen = self.observed()
        if seen is None or seen.strategy != strategy or seen.label == "failure":
            return rows
        at = round(seen.at_s * _MS)
        if not turn.taken_at - _REACH * interval_ms <= at <= turn.taken_at:
            return rows
        if at == self._observed_at:
            return SHADOW.empty_table()
        self._observed_at = at
        return _observed_table(seen, is_on=turn.is_on)

    def _notice_leader(self, leader: str | None) -> None:
        if leader is None or leader == self._leader:
            return
        if self._leader is not None:
            self._unloaded_at.clear()
            for memory in self._memories.values():
                memory.state = memory.left = memory.before = None
        self._leader = leader

    def _notice_switch(self, *, is_on: bool) -> None:
        """Keep the strategy's state while the leader does not shed, as the leader does.

        Its first round comes within an interval, so the shadow's is due at once.
        """
        if is_on == self._is_on:
            return
        for memory in self._memories.values():
            if is_on:
                memory.state = memory.left
                memory.decided_at = self._round_at = None
            else:
                memory.left = memory.state
        self._is_on = is_on

    def _fall_in(self) -> None:
        """Take the leader's round to have been on the snapshot before its moves were seen.

        What strategies remember of the load is then what the leader remembers, and the next round
        is an interval after its. Moves that show later still are of the same round.
        """
        previous = self._previous
        if previous is None or self._is_answered or not self._is_on:
            return
        self._is_answered = True
        at = datetime_to_ms(previous.manifest.taken_at)
        if self._round_at is None or at <= self._round_at:
            return
        self._round_at = at
        for name, memory in self._memories.items():
            if memory.decided_at is None or memory.failure or memory.decided_at >= at:
                continue
            memory.decided_at = at
            memory.state = memory.before
            with contextlib.suppress(OpsError):  # it will say so in its next round
                self._simulated(previous, find_shedding_strategy(name), memory)

    def _memory(self, name: str) -> _Memory:
        return self._memories.setdefault(name, _Memory())

    def _round(
        self, snapshot: PulsarSnapshot, name: str, interval_ms: float, turn: _RoundValues
    ) -> pa.Table:
        memory = self._memory(name)
        if not is_due(turn.taken_at, memory.decided_at, interval_ms):
            return SHADOW.empty_table()
        memory.decided_at = turn.taken_at
        try:
            strategy = find_shedding_strategy(name)
            done = self._simulated(snapshot, strategy, memory)
        except OpsError as exc:
            return _failed(name, memory, turn, exc)
        if done.decision.label == "failure" or done.decision.reason == "unavailable":
            return _failed(name, memory, turn, done.decision)
        memory.failure = ""
        return _round_rows(name, turn, done)

    def _simulated(self, snapshot: PulsarSnapshot, strategy: AnyStrategy, memory: _Memory) -> Round:
        assumed: dict[str, object] = dict.fromkeys(SHEDDING_SWITCHES, True)
        assumed[_CONFIGURED] = strategy.name
        settings = effective_settings(snapshot, overrides=assumed)
        view = LoadView.of(snapshot, settings)
        if memory.state is None:
            memory.state = strategy.initial_state()
        memory.before = memory.state
        done, memory.state = shed_round(
            strategy, UnloadChecks(view, settings), memory.state, frozenset(self._unloaded_at)
        )
        return done


def _observed_table(seen: RoundPrediction, *, is_on: bool) -> pa.Table:
    """Return a round of the leader observer as :data:`SHADOW`."""
    common = {
        "taken_at": round(seen.at_s * _MS),
        "strategy": seen.strategy,
        "is_configured": True,
        "is_switched_on": is_on,
        "label": seen.label,
        "reason": seen.reason,
        "sentence": seen.sentence,
    }
    moves = [one for one in seen.bundles if one.is_selected and one.destinations]
    if not moves:
        return rows_of([common])
    return rows_of(
        [
            common
            | {"position": position, "broker": one.broker, "bundle": one.bundle}
            | _landing(one.destinations)
            for position, one in enumerate(moves)
        ]
    )


def _landing(likely: Mapping[str, float]) -> dict[str, object]:
    """Return the columns on where a bundle goes."""
    best = max(likely, key=lambda broker: (likely[broker], broker), default=None)
    shown = {broker: p for broker, p in likely.items() if p >= MIN_REPORTED}
    return {
        "destination": best,
        "probability": None if best is None else likely[best],
        "distribution": json.dumps(shown, sort_keys=True),
    }


@dataclass(frozen=True, slots=True)
class _RoundValues:
    """Common values of all rows of a strategy's round."""

    taken_at: int
    is_configured: bool
    is_on: bool


def _failed(name: str, memory: _Memory, turn: _RoundValues, why: OpsError | Decision) -> pa.Table:
    """Return the row of a round that could not be; once, until the reason is another one."""
    if isinstance(why, Decision):
        reason, sentence = str(why.reason), why.sentence
    else:
        reason, sentence = why.code, str(why)
    if sentence == memory.failure:
        return SHADOW.empty_table()
    memory.failure = sentence
    return rows_of(
        [
            {
                "taken_at": turn.taken_at,
                "strategy": name,
                "is_configured": turn.is_configured,
                "is_switched_on": turn.is_on,
                "label": "failure",
                "reason": reason,
                "sentence": sentence,
            }
        ]
    )


def _round_rows(name: str, turn: _RoundValues, done: Round) -> pa.Table:
    common = {
        "taken_at": turn.taken_at,
        "strategy": name,
        "is_configured": turn.is_configured,
        "is_switched_on": turn.is_on,
        "label": done.decision.label,
        "reason": done.decision.reason,
        "sentence": _sentence(done),
    }
    if not done.moves:
        return rows_of([common])
    return rows_of(
        [
            common
            | {"position": position, "broker": move.broker, "bundle": move.bundle}
            | _landing(done.destinations.get(move.bundle, {}))
            for position, move in enumerate(done.moves)
        ]
    )


def _sentence(done: Round) -> str:
    if done.moves or not done.skipped:
        return done.decision.sentence
    bundle, why = next(iter(done.skipped.items()))
    more = f" (and {len(done.skipped) - 1} more)" if len(done.skipped) > 1 else ""
    return (
        f"{done.decision.sentence} None of these bundles is unloaded: {bundle}: {why}{more}."
    ).strip()
