"""The shadow balancer: what a balancer would do on each live snapshot, and never does.

It keeps for each strategy what the real class keeps between its rounds, and decides once in each
shedding interval of the cluster, as the leader does. What it predicts is compared with what the
leader really did by :mod:`core.history.analysis.accuracy.accuracy`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from core.errors import OpsError
from core.history.analysis.accuracy.leader_averages import CarriedAverages
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
from core.snapshot import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot
from core.units import datetime_to_ms


def _field(name: str, kind: pa.DataType, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit} if unit else None)


SHADOW: Final = pa.schema(
    [
        _field("taken_at", pa.int64(), "ms", nullable=False),
        _field("strategy", pa.string(), nullable=False),  # class name; Pegasus: app | cluster
        _field("is_configured", pa.bool_(), nullable=False),  # the one that the cluster goes by
        _field("is_switched_on", pa.bool_(), nullable=False),  # the cluster balances by itself
        _field("label", pa.string(), nullable=False),  # success | skip | failure
        _field("reason", pa.string(), nullable=False),
        _field("sentence", pa.string(), nullable=False),
        _field("position", pa.int64()),  # of the move in its round, from 0
        _field("broker", pa.string()),  # null: nothing would move; Pegasus: the node that gives
        _field("bundle", pa.string()),  # Pegasus: the partition's gpid
        _field("destination", pa.string()),  # the most likely one
        _field("probability", pa.float64(), "ratio"),  # of that destination
        _field("distribution", pa.string()),  # JSON {broker: probability}
    ]
)
"""One row a move that would be made, one row without a broker where nothing would move."""

Snapshot = PulsarSnapshot | PegasusSnapshot
Observed = Callable[[], RoundPrediction | None]

LEAST_TOLD: Final = 0.001
"""Destinations less likely than this are not recorded."""

_CONFIGURED: Final = "loadBalancerLoadSheddingStrategy"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_MS: Final = 1000
_EARLY: Final = 0.25
"""How much of its interval a round may come early: captures are never exactly on time."""

_PUNCTUAL_MS: Final = 5_000
"""And no more than this."""

_REACH: Final = 2.0
"""An observed round older than so many intervals is of an observer that stopped."""


def no_observer() -> RoundPrediction | None:
    """Return that no leader observer runs."""
    return None


class Shadow(Protocol):
    """A shadow balancer of one cluster."""

    def decide(self, snapshot: Any, moved: Collection[str] = ()) -> pa.Table:
        """Return what would be done now, as :data:`SHADOW`; no rows when no round is due.

        Args:
            snapshot: The newest one; they come in the order of their times.
            moved: Bundles that the cluster itself moved since the snapshot before.
        """
        ...

    def remember(self, moved: Mapping[str, int]) -> None:
        """Take over what was moved before the first snapshot: bundle to time, ms."""
        ...


class NoShadow:
    """For a system whose balancer is not predicted."""

    def decide(self, snapshot: object, moved: Collection[str] = ()) -> pa.Table:
        """Return no rows."""
        del snapshot, moved
        return SHADOW.empty_table()

    def remember(self, moved: Mapping[str, int]) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Memory:
    """What is kept of one strategy from round to round.

    Attributes:
        state: The strategy's own; ``None``: it starts anew.
        left: The same when shedding was switched off: the leader goes on from there.
        before: What it was before the last round.
        decided_at: Of its last round, ms.
        failure: Why it could not be run last time; empty: it could.
    """

    state: Any = None
    left: Any = None
    before: Any = None
    decided_at: int | None = None
    failure: str = ""


@dataclass
class PulsarShadow:
    """Shedding strategies on live snapshots of a Pulsar cluster.

    The configured strategy is always among them, and is run as if shedding were switched on;
    whether it is stands in ``is_switched_on``. A new leader knows nothing of the rounds of the one
    before, so the strategies start anew with it. When the leader holds its rounds shows in what it
    moves: the shadow falls in with them, so that both decide on the same load, the first time after
    shedding was switched on above all.

    Attributes:
        others: Class names of strategies beside the configured one.
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

    def decide(self, snapshot: Snapshot, moved: Collection[str] = ()) -> pa.Table:
        """Return what each strategy would do now, as :data:`SHADOW`; see :class:`Shadow`.

        Source:
            Pulsar ``ModularLoadManagerImpl#doLoadShedding``: what it unloaded rests for the grace
            period. Whoever looks from outside knows what moved, not who asked for it.
        """
        if not isinstance(snapshot, PulsarSnapshot):
            return SHADOW.empty_table()
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
            turn = _Turn(taken_at, is_configured=True, is_on=False)
            return _failed("configured", self._memory("configured"), turn, exc)
        is_on = not effective.shedding_off
        self._notice_switch(is_on=is_on)
        grace_ms = effective.number(_GRACE) * self.minute_s * _MS
        interval_ms = max(effective.number(_INTERVAL), 1.0) * self.minute_s * _MS
        self._unloaded_at = {
            name: at
            for name, at in self._unloaded_at.items()
            if taken_at - at < grace_ms - _slack_ms(interval_ms)
        }
        if is_due(taken_at, self._round_at, interval_ms):
            self._round_at, self._is_answered = taken_at, False
        names = dict.fromkeys([configured.name, *self.others])
        parts = [
            self._round(
                snapshot, name, interval_ms, _Turn(taken_at, name == configured.name, is_on)
            )
            for name in names
        ]
        turn = _Turn(taken_at, is_configured=True, is_on=is_on)
        parts[0] = self._observed_rows(parts[0], configured.name, interval_ms, turn)
        return pa.concat_tables(parts)

    def _observed_rows(
        self, rows: pa.Table, strategy: str, interval_ms: float, turn: _Turn
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
        """A leader that sheds nothing asks nothing: it goes on with what it knew before.

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
                self._played(previous, find_shedding_strategy(name), memory)

    def _memory(self, name: str) -> _Memory:
        return self._memories.setdefault(name, _Memory())

    def _round(
        self, snapshot: PulsarSnapshot, name: str, interval_ms: float, turn: _Turn
    ) -> pa.Table:
        memory = self._memory(name)
        if not is_due(turn.taken_at, memory.decided_at, interval_ms):
            return SHADOW.empty_table()
        memory.decided_at = turn.taken_at
        try:
            strategy = find_shedding_strategy(name)
            done = self._played(snapshot, strategy, memory)
        except OpsError as exc:
            return _failed(name, memory, turn, exc)
        if done.decision.label == "failure" or done.decision.reason == "unavailable":
            return _failed(name, memory, turn, done.decision)
        memory.failure = ""
        return _told(name, turn, done)

    def _played(self, snapshot: PulsarSnapshot, strategy: AnyStrategy, memory: _Memory) -> Round:
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
    shown = {broker: p for broker, p in likely.items() if p >= LEAST_TOLD}
    return {
        "destination": best,
        "probability": None if best is None else likely[best],
        "distribution": json.dumps(shown, sort_keys=True),
    }


def is_due(now_ms: int, last_ms: int | None, interval_ms: float) -> bool:
    """Return whether an interval has gone by since the last round, or nearly so."""
    if last_ms is None:
        return True
    return now_ms - last_ms >= interval_ms - _slack_ms(interval_ms)


def _slack_ms(interval_ms: float) -> float:
    return min(interval_ms * _EARLY, _PUNCTUAL_MS)


@dataclass(frozen=True, slots=True)
class _Turn:
    """What all rows of a strategy's round share."""

    taken_at: int
    is_configured: bool
    is_on: bool


def _failed(name: str, memory: _Memory, turn: _Turn, why: OpsError | Decision) -> pa.Table:
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


def _told(name: str, turn: _Turn, done: Round) -> pa.Table:
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
    return f"{done.decision.sentence} Nothing of it is unloaded: {bundle}: {why}{more}.".strip()


def rows_of(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows as :data:`SHADOW`; columns that they do not name are null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SHADOW)
