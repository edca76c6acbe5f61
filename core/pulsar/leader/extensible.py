"""Replay of the leader of an extensible cluster, from its system topics.

The leader decides by what its brokers publish: the load of each broker, the hottest bundles of
each, and the state of every bundle. All three topics are public to whoever may consume from
``pulsar/system``; the rounds keep a fixed rate from the election on.

Source:
    Pulsar ``UnloadScheduler``, ``TransferShedder``, ``UnloadManager`` (extensible load manager).
Parity:
    A round is a set of bundles, as the real class answers. What the topics do not show is in
    :data:`UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from core.pulsar.leader.events import MESSAGE, ZnodeEvent
from core.pulsar.leader.prediction import PredictedBundle, RoundPrediction
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import EffectiveSettings, effective_settings, known_setting
from core.pulsar.shedding import UnloadChecks, shed_round
from core.pulsar.shedding.registry import strategies_run_by
from core.pulsar.snapshot.load_topics import (
    BROKER_LOAD_TOPIC,
    TOP_BUNDLES_TOPIC,
    UNIT_STATE_TOPIC,
    LoadTopics,
    UnitState,
    with_load_topics,
)
from core.pulsar.snapshot.znodes import readings as roots
from core.pulsar.snapshot.znodes.assemble import assemble
from core.pulsar.snapshot.znodes.readings import Readings
from core.pulsar.view import LoadView
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.problems import ProblemLog
from core.units import ms_to_datetime, pluralize

UNKNOWN: Final = (
    ("Uneven rounds and unloads before the observation began: the first rounds may differ."),
    "Messages on non-persistent topics that the broker dropped for the leader or for Trimtab.",
    "The order in which the leader handles a message that arrives within milliseconds of a round.",
    "Unloads that failed or timed out, unless a bundle state shows it.",
    "Static values in broker.conf of the leader, including debug mode, unless they are specified.",
    "Future loads: brokers publish theirs a few times per minute.",
)
"""What cannot be known from outside, a sentence each."""

_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"
_LEADER: Final = roots.LEADERS[1]
_ISOLATION: Final = "namespaceIsolationPolicies"
_OWNING: Final = frozenset({"Owned", "Splitting", "Releasing"})
_STATE_DELAY_S: Final = 0.008
"""From the start of a round to the first state that it publishes; median on a real cluster."""
_FIRST_STATE_S: Final = 0.001
"""The same at its shortest."""
_EARLY_S: Final = 0.25
"""A round may begin so much before its estimated time."""
_OPEN_S: Final = 5.0
"""States of a round's bundles are its own for so long."""
_STRAYS: Final = 100
_NAMED: Final = 3
_SAME_PHASE_S: Final = 0.3
"""Transfers of two rounds begin at the same time of the interval, give or take this."""
_MS_PER_S: Final = 1000.0
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ExtensibleReplay:
    """Follow the leader of an extensible cluster by events, and predict its rounds.

    Args:
        configured: ``{key: value}`` of broker.conf, typed; what the cluster stores under
            ``/admin/configuration`` overrides it.
        release: Release line; ``None`` for that of most brokers.
        minute_s: Length of a minute of the settings, seconds.
        cluster: Name for messages.

    Raises:
        UnknownNameError: No such setting or release.
        InputError: A value of the wrong type.
    """

    def __init__(
        self,
        *,
        configured: Mapping[str, object] | None = None,
        release: str | None = None,
        minute_s: float = 60.0,
        cluster: str = "cluster",
    ) -> None:
        self.cluster = cluster
        self.minute_s = minute_s
        self._release = release
        self.strategy = strategies_run_by("extensible")[0]
        self.configure(configured or {})
        self.start_over()

    def start_over(self) -> None:
        """Forget everything that events brought: events were missed."""
        self.leader: str | None = None
        self.next_round_at_s: float | None = None
        self.is_anchored = False
        self.now_s = 0.0
        self._readings = Readings(leader_place=_LEADER, broker_place=f"{roots.BROKERS}/{{}}")
        self._topics = LoadTopics(is_read=True)
        self._versions: dict[str, int] = {}
        self._state: object = self.strategy.initial_state()
        self._open: tuple[float, frozenset[str] | None] | None = None
        self._released: dict[str, str] = {}
        self._rested: dict[str, float] = {}
        self._gave_at_ms: dict[str, int] = {}
        self._settings: EffectiveSettings | None = None
        self._is_elected_seen = False
        self._begun_s: float | None = None
        self._strays: list[float] = []

    # events

    def apply(self, event: ZnodeEvent) -> list[RoundPrediction]:
        """Apply one event; return the rounds that began before it."""
        if event.loses_watch:
            rounds = self.advance(event.received_at_s)
            self.start_over()
            return rounds
        is_message = event.kind == MESSAGE
        if not (event.is_znode or event.kind == "del" or is_message):
            return []
        if self._begun_s is None:
            self._begun_s = event.received_at_s
        at_s = event.at_s if is_message else event.received_at_s
        if at_s < self._begun_s:  # the topic of states begins long before watching does
            self._message(event, is_past=True)
            return []
        rounds = self._advance(at_s)
        self.now_s = max(self.now_s, at_s)
        if is_message:
            rounds += self._begun_early(event)
            self._message(event)
        else:
            self._znode(event)
        return rounds

    def configure(self, configured: Mapping[str, object]) -> None:
        """Take over other values of broker.conf.

        Raises:
            UnknownNameError: No such setting.
            InputError: A value of the wrong type.
        """
        self._configured = {
            key: typed_value(known_setting(key), value) for key, value in configured.items()
        }
        self._settings = None

    def _begun_early(self, event: ZnodeEvent) -> list[RoundPrediction]:
        """Run the round that is due in a moment if a state shows that it has begun."""
        due_s = self.next_round_at_s
        if event.path != UNIT_STATE_TOPIC or due_s is None or due_s - event.at_s > _EARLY_S:
            return []
        if event.value is None or '"Releasing"' not in event.value:
            return []
        rounds = self._advance(due_s)
        self.next_round_at_s = event.at_s - _FIRST_STATE_S + self._every_s()
        return rounds

    def advance(self, to_s: float) -> list[RoundPrediction]:
        """Run the rounds that begin before a time; all events before it have been applied."""
        rounds = self._advance(to_s)
        self.now_s = max(self.now_s, to_s)
        return rounds

    def _advance(self, to_s: float) -> list[RoundPrediction]:
        rounds: list[RoundPrediction] = []
        while self.next_round_at_s is not None and self.next_round_at_s <= to_s:
            rounds.append(self._hold_round(self.next_round_at_s))
        return rounds

    def _znode(self, event: ZnodeEvent) -> None:
        readings, path = self._readings, event.path
        value = None if event.value is None or event.kind == "del" else event.value.encode()
        brokers = f"{roots.BROKERS}/"
        if path.startswith(brokers):
            name = path[len(brokers) :]
            if value is None:
                readings.brokers.pop(name, None)
            else:
                readings.brokers[name] = value
        elif path == _LEADER:
            self._lead(event, value)
        elif path == roots.CONFIGURATION:
            readings.dynamic = value
        elif path.endswith(f"/{_ISOLATION}"):
            readings.isolation = value
        elif path.startswith(f"{roots.LOCAL_POLICIES}/"):
            spaces = readings.local_policies
            name = path[len(roots.LOCAL_POLICIES) + 1 :]
            if value is None:
                spaces.pop(name, None)
            else:
                spaces[name] = value
        self._settings = None

    def _lead(self, event: ZnodeEvent, value: bytes | None) -> None:
        """Reset for another leader: maps of what was unloaded are its own."""
        before = self._readings.leader
        self._readings.leader = value
        if value == before and value is not None:
            return
        self._rested, self._gave_at_ms, self._open, self._strays = {}, {}, None, []
        self._state, self.is_anchored = self.strategy.initial_state(), False
        self._is_elected_seen = event.kind != "init"
        self.leader = None
        if value is None:
            self.next_round_at_s = None
            return
        try:
            self.leader = msgspec.json.decode(value, type=dict[str, str]).get("brokerId")
        except _UNREADABLE:
            self.leader = None
        every_s = self._every_s()
        over = max(int((self.now_s - event.at_s) // every_s), 0)
        self.next_round_at_s = event.at_s + (over + 1) * every_s

    def _message(self, event: ZnodeEvent, *, is_past: bool = False) -> None:
        key = event.key or ""
        data = None if event.value is None else event.value.encode()
        records = {
            BROKER_LOAD_TOPIC: self._topics.broker_loads,
            TOP_BUNDLES_TOPIC: self._topics.top_bundles,
        }.get(event.path)
        if records is not None:
            if data is None:
                records.pop(key, None)
            else:
                records[key] = data
        elif event.path == UNIT_STATE_TOPIC:
            self._unit(key, data, event.at_s, is_past=is_past)

    def _unit(self, bundle: str, data: bytes | None, at_s: float, *, is_past: bool) -> None:
        """Take the state of a bundle; the first of two equal versions holds, as on brokers.

        What moved before watching began shows owners only: a round of that time is not known.

        Source:
            Pulsar ``ServiceUnitStateDataConflictResolver``.
        """
        if data is None:
            self._topics.unit_states.pop(bundle, None)
            self._versions.pop(bundle, None)
            return
        try:
            unit = msgspec.json.decode(data, type=UnitState)
        except _UNREADABLE:
            return
        version = unit.version_id or 0
        if version <= self._versions.get(bundle, -1):
            return
        self._versions[bundle] = version
        self._topics.unit_states[bundle] = data
        if is_past:
            return
        if unit.state == "Releasing" and unit.source_broker:
            written_s = (unit.timestamp or 0) / _MS_PER_S
            is_plausible = abs(written_s - at_s) < _OPEN_S
            self._releasing(bundle, unit.source_broker, written_s if is_plausible else at_s)
        elif unit.state in ("Owned", "Free") and bundle in self._released:
            self._unloaded(bundle, self._released.pop(bundle), at_s)

    def _releasing(self, bundle: str, source: str, at_s: float) -> None:
        """Note that a bundle leaves its broker: in the open round, or by someone's order."""
        opened = self._open
        if (
            opened is not None
            and -_EARLY_S <= at_s - opened[0] < _OPEN_S
            and (opened[1] is None or bundle in opened[1])
        ):
            self._released[bundle] = source
            self._anchor(opened[0] if self.is_anchored else at_s - _STATE_DELAY_S)
            return
        if self.is_anchored and not self._is_other_phase(at_s):
            return
        # the phase is unknown: what moves is taken to move in a round
        self.is_anchored = False
        self._anchor(at_s - _STATE_DELAY_S)
        self._open = at_s - _STATE_DELAY_S, None
        self._released[bundle] = source
        self._state = self.strategy.initial_state()

    def _is_other_phase(self, at_s: float) -> bool:
        """Return whether moves outside the rounds repeat at one time of the interval.

        Then the rounds are there: the former evidence of the phase was a manual unload.
        """
        every_s = self._every_s()
        for stray_s in self._strays:
            rounds = round((at_s - stray_s) / every_s)
            if rounds >= 1 and abs(at_s - stray_s - rounds * every_s) < _SAME_PHASE_S:
                self._strays.clear()
                return True
        self._strays = [*self._strays[-_STRAYS:], at_s]
        return False

    def _anchor(self, round_s: float) -> None:
        if not self.is_anchored:
            self.next_round_at_s = round_s + self._every_s()
        self.is_anchored = True

    def _unloaded(self, bundle: str, source: str, at_s: float) -> None:
        """Stamp a bundle and its source, as the leader does when an unload is complete."""
        self._rested[bundle] = at_s
        self._gave_at_ms[source] = round(at_s * _MS_PER_S)

    # rounds

    @property
    def brokers(self) -> Mapping[str, bytes]:
        """Broker id -> its znode."""
        return self._readings.brokers

    @property
    def round_every_s(self) -> float:
        """Seconds from one round to the next."""
        return self._every_s()

    def _every_s(self) -> float:
        return self.minute_s * max(self.settings.number(_INTERVAL), 1.0)

    @property
    def settings(self) -> EffectiveSettings:
        """The active settings of the leader."""
        if self._settings is None:
            self._settings = self._settings_of(self._snapshot(self.now_s))
        return self._settings

    def _settings_of(self, snapshot: PulsarSnapshot) -> EffectiveSettings:
        stored = set(snapshot.settings["name"].to_pylist())
        given = {key: value for key, value in self._configured.items() if key not in stored}
        return effective_settings(snapshot, overrides=given, release=self._release)

    def _snapshot(self, at_s: float) -> PulsarSnapshot:
        """Return the cluster as its topics have it, at the time of a round."""
        problems = ProblemLog()
        readings = self._readings
        readings.owners = self._owners()
        readings.owners_known = bool(readings.owners)
        made = assemble(readings, problems)
        tables = with_load_topics(made.tables, self._topics, problems)
        manifest = Manifest(
            cluster=self.cluster,
            taken_at=ms_to_datetime(round(at_s * _MS_PER_S)) if at_s > 0 else _NEVER,
            tables={},
            load_manager="extensible",
            leader=self.leader,
            release=made.release or "",
        )
        return PulsarSnapshot.build(manifest, tables)

    def _owners(self) -> dict[str, str]:
        owners = {}
        for bundle, raw in self._topics.unit_states.items():
            unit = msgspec.json.decode(raw, type=UnitState)
            owner = unit.dst_broker if unit.state == "Owned" else unit.source_broker
            if owner and unit.state in _OWNING:
                owners[bundle] = owner
        return owners

    def _hold_round(self, at_s: float) -> RoundPrediction:
        prediction, self._state = self._decided(at_s)
        self._open = at_s, frozenset(one.bundle for one in prediction.bundles)
        self.next_round_at_s = at_s + self._every_s()
        return prediction

    def predict(
        self,
        now_s: float,
        *,
        draws: int | None = None,  # noqa: ARG002  # of the protocol
    ) -> RoundPrediction | None:
        """Return the next round by what is known at ``now_s``; changes nothing.

        Args:
            now_s: Time up to which all events were applied, seconds since the epoch.
            draws: Ignored: futures are not drawn here, every share is 1.
        """
        if self.next_round_at_s is None:
            return None
        prediction, _ = self._decided(self.next_round_at_s)
        return msgspec.structs.replace(prediction, made_at_s=now_s)

    def _decided(self, at_s: float) -> tuple[RoundPrediction, Any]:
        snapshot = self._snapshot(at_s)
        settings = self._settings_of(snapshot)
        grace_s = self.minute_s * settings.number(_GRACE)
        self._rested = {name: at for name, at in self._rested.items() if at >= at_s - grace_s}
        state = self.strategy.with_recent_sources(self._state, self._gave_at_ms)
        checks = UnloadChecks(LoadView.of(snapshot, settings), settings)
        done, after = shed_round(self.strategy, checks, state, frozenset(self._rested))
        decision = done.decision
        prediction = RoundPrediction(
            at_s=at_s,
            made_at_s=self.now_s,
            leader=self.leader,
            strategy=self.strategy.name,
            bundles=tuple(
                PredictedBundle(
                    bundle=move.bundle,
                    broker=move.broker,
                    destinations=dict(done.destinations.get(move.bundle, {})),
                )
                for move in done.moves
            ),
            label=decision.label,
            reason=decision.reason,
            sentence=decision.sentence,
            has_shares=False,
            warnings=tuple(self.warnings()),
        )
        return prediction, self.strategy.with_recent_sources(after, {})

    def warnings(self) -> list[str]:
        """Return the reasons for lower confidence, a sentence each."""
        found = []
        if not self.is_anchored:
            found.append(
                "No transfer was observed yet: the start of the leader's rounds is "
                "estimated from its election."
            )
        if not self._is_elected_seen:
            found.append(
                "The leader was elected before the observation began: the number of "
                "uneven rounds it had counted is unknown."
            )
        silent = sorted(set(self._readings.brokers) - set(self._topics.broker_loads))
        if silent:
            found.append(
                f"{pluralize(len(silent), 'broker')} of {len(self._readings.brokers)} "
                "published no load since the observation began and cannot be "
                "evaluated: "
                f"{', '.join(silent[:_NAMED])}{' ...' if len(silent) > _NAMED else ''}."
            )
        return found
