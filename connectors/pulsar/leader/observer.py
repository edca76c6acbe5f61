"""Follows the leader of a cluster next to the collector, and publishes its next shedding round.

One thread a cluster, over a ZooKeeper session of its own; on an extensible cluster another one
reads the topics that its brokers publish. Whatever fails in it is named in the
collector's status and tried again; the collector goes on without it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import Any, Final, Literal

import msgspec

from connectors.config.model import ClusterConfig
from connectors.pulsar.leader.recording import (
    AVERAGES,
    BUNDLE_DATA_ONCE,
    CLUSTERS,
    DYNAMIC,
    EXTENSIBLE_LEADER,
    LEADER,
    LOCAL_POLICIES,
    OWNERS,
    QUOTAS,
    REPORTS,
    TopicRecording,
)
from connectors.pulsar.leader.watch import ZnodeWatcher
from connectors.pulsar.topics.capture import TABLE_VIEW
from connectors.pulsar.topics.reader import MissingExtraError, require_client
from connectors.transport.deadline import unless
from core.errors import ConfigError, InputError, OpsError
from core.files import make_private, write_whole
from core.ids import is_broker_bound, namespace_of
from core.pulsar.catalogue import SETTINGS
from core.pulsar.leader.accuracy import (
    CALIBRATION_LEAD_S,
    JudgedRound,
    accuracy_by_lead,
    calibrated,
    calibration,
    judge,
)
from core.pulsar.leader.events import MESSAGE, ZnodeEvent
from core.pulsar.leader.extensible import UNKNOWN as UNKNOWN_OF_TOPICS
from core.pulsar.leader.extensible import ExtensibleReplay
from core.pulsar.leader.prediction import (
    LEADS_S,
    WRITTEN_EVERY_S,
    ActualRound,
    Forecast,
    RoundPrediction,
)
from core.pulsar.leader.replay import LeaderReplay
from core.pulsar.settings import effective_settings
from core.pulsar.snapshot.load_topics import UNIT_STATE_TOPIC, UnitState
from core.pulsar.snapshot.znodes import readings as roots
from core.snapshot import PulsarSnapshot

_log = logging.getLogger("trimtab.leader")

FOLLOWED: Final = (
    LEADER,
    CLUSTERS,
    DYNAMIC,
    LOCAL_POLICIES,
    QUOTAS,
    BUNDLE_DATA_ONCE,
    OWNERS,
    AVERAGES,
    REPORTS,
)
"""What the replay needs; averages of bundles are read once, to begin with."""

FOLLOWED_OF_EXTENSIBLE: Final = (
    EXTENSIBLE_LEADER,
    CLUSTERS,
    DYNAMIC,
    LOCAL_POLICIES,
    REPORTS,
)
"""The same of an extensible cluster; the rest is in its system topics."""

MAX_ROUNDS: Final = 500
"""Judged rounds that the measured accuracy is made of; older ones are dropped."""

_LAG_S: Final = 0.3
"""How far clocks of ZooKeeper and of brokers may be apart, and a ZooKeeper follower behind."""

_TOPIC_LAG_S: Final = 1.0
"""The same of messages of topics, which are taken four times a second."""

_QUIET_S: Final = 15.0
"""A round's unloads have ended when none came for so long."""

_FIRST_S: Final = 45.0
"""The first unload of a round may take so long on a leader without enough processor time."""

_PART: Final = 0.6
"""Both are at most so much of the interval between rounds."""

_EARLY_S: Final = 0.3
"""How much earlier than predicted a round may begin."""

_LOST_S: Final = 5.0
"""What a broker gave up so near its own end is no decision of the leader."""

_LATE_S: Final = 1.0
"""How much later than its lead time a prediction may be made."""

_URGENT_S: Final = 2.0
"""So near a round it matters whether nothing changed, or nothing is known yet."""

_LAGS_S: Final = 2.0
"""Events that are known no later than so long ago are worth a warning."""

_LARGE_BUNDLES: Final = 50_000
_LEADS_OF_LARGE_S: Final = (60.0, 10.0)
"""Lead times on clusters of more bundles: one prediction takes half a second of processor time."""

_SHIFTED_S: Final = 2.0
"""A round that is expected so much earlier or later is another one: the phase was learned again."""

_SAVE_EVERY_S: Final = 300.0
_RESUMED_WITHIN_S: Final = 900.0
"""What was saved longer ago is worth no more than the averages that the leader wrote."""

_AGAIN_S: Final = 5.0
_ENDS_WITHIN_S: Final = 1.0
"""How long the end waits for ZooKeeper; the thread goes with the process."""
_UNKNOWN: Final = (
    "Averages from before the observation began.",
    "Reports that brokers write before the round begins.",
    "Thread order when a report arrives within milliseconds of the round.",
    "Random placement on ties, or when all brokers are above the overload threshold.",
    "Unload calls that fail, and manual unloads within the round.",
)
_NO_FILES: Final = (
    "Settings in broker.conf: no admin URL is configured; the defaults of the release are assumed."
)

_STORE: Final = "ServiceUnitStateMetadataStoreTableViewImpl"
_NO_SOURCE: Final = "No broker has a service address that may be used to read its topics."

State = Literal["waiting", "starting", "watching", "lost", "unsupported", "failed"]
Clock = Callable[[], float]


@dataclass(slots=True, kw_only=True)
class ObserverStatus:
    """Status of a cluster's leader observer. Times are seconds since the epoch.

    Attributes:
        state: ``waiting`` for the first snapshot, ``starting`` (reads what is there),
            ``watching``, ``lost`` (no session), ``unsupported`` (``detail`` names what is
            missing), ``failed`` (see ``last_error``; it is tried again).
        detail: One sentence for people; empty if there is nothing to add.
        since_s: When unbroken watching began.
        started_over: How often everything had to be read again.
        gaps: Brokers of which reports were missed since.
        judged: Rounds judged, the last 500 at most.
        last_error: ``{"code", "message", "hint"}`` of the last failure.
    """

    state: State = "waiting"
    detail: str = ""
    since_s: float | None = None
    started_over: int = 0
    gaps: int = 0
    judged: int = 0
    last_error: dict[str, str] | None = None


@dataclass(slots=True)
class _PendingRound:
    """A round that began and is not judged yet."""

    at_s: float
    predictions: dict[float, RoundPrediction]
    drawn: RoundPrediction | None


class RoundJudge:
    """Keeps the predictions of rounds until what came of them is known.

    Args:
        earlier: Rounds that were judged before.
    """

    def __init__(self, earlier: list[JudgedRound]) -> None:
        self.interval_s = 60.0
        self.rounds: deque[JudgedRound] = deque(earlier, maxlen=MAX_ROUNDS)
        self._made: dict[float, RoundPrediction | None] = {}
        self._drawn: RoundPrediction | None = None
        self._expected_s = 0.0
        self._awaited: deque[_PendingRound] = deque()
        self._given_up: deque[tuple[float, str]] = deque(maxlen=100_000)
        self._lost_at: deque[float] = deque(maxlen=1_000)

    def expect(self, round_at_s: float) -> None:
        """Note when the next round is expected; predictions of another time are dropped."""
        if abs(round_at_s - self._expected_s) > _SHIFTED_S:
            self._made, self._drawn = {}, None
        self._expected_s = round_at_s

    def is_due(self, lead_s: float, round_at_s: float, now_s: float) -> bool:
        """Return whether the prediction of a lead time is due now."""
        return lead_s not in self._made and round_at_s - lead_s <= now_s

    def made(
        self, lead_s: float, prediction: RoundPrediction | None, drawn: RoundPrediction | None
    ) -> None:
        """Note a prediction of the next round; ``None`` if it is too late for that lead time.

        Args:
            lead_s: One of :data:`LEADS_S`.
            prediction: As it was published.
            drawn: The same with the shares as they were drawn.
        """
        self._made[lead_s] = prediction
        if lead_s == CALIBRATION_LEAD_S:
            self._drawn = None if prediction is None else drawn

    def began(self, prediction: RoundPrediction) -> None:
        """Note that the round began; what comes next are predictions of the one after."""
        made = {lead_s: one for lead_s, one in self._made.items() if one is not None}
        self._awaited.append(_PendingRound(prediction.at_s, {**made, 0.0: prediction}, self._drawn))
        self._made, self._drawn = {}, None

    def gave_up(self, bundle: str, at_s: float) -> None:
        """Note that an ownership ended."""
        if not is_broker_bound(namespace_of(bundle)):
            self._given_up.append((at_s, bundle))

    def lost_broker(self, at_s: float) -> None:
        """Note that a broker left, or that the leader changed."""
        self._lost_at.append(at_s)

    def judge_due(self, now_s: float) -> list[JudgedRound]:
        """Judge the rounds that have no open unload."""
        judged = []
        while self._awaited:
            awaited = self._awaited[0]
            moved, end_s, judged_s = self._moved(awaited.at_s)
            if now_s < judged_s:
                break
            self._awaited.popleft()
            if any(awaited.at_s - _LOST_S <= at_s <= end_s + _LOST_S for at_s in self._lost_at):
                continue  # what moved was not the round's doing alone
            actual = ActualRound(at_s=awaited.at_s, selected=None, unloaded=tuple(moved))
            judged.append(judge(awaited.predictions, actual, awaited.drawn))
        self.rounds.extend(judged)
        return judged

    def _moved(self, at_s: float) -> tuple[list[str], float, float]:
        """Return a round's unloads, the time of the last one, and until when more may come."""
        moved: list[str] = []
        quiet_s = min(_QUIET_S, _PART * self.interval_s)
        end_s, until_s = at_s, at_s + min(_FIRST_S, _PART * self.interval_s)
        for given_s, bundle in self._given_up:
            if at_s - _EARLY_S <= given_s <= until_s:
                moved.append(bundle)
                end_s = max(end_s, given_s)
                until_s = end_s + quiet_s
        return list(dict.fromkeys(moved)), end_s, until_s + _LAG_S

    def forget_awaited(self) -> None:
        """Drop what cannot be judged any more: events were missed."""
        self._made, self._drawn = {}, None
        self._awaited.clear()


class LeaderObserver:
    """Follows one cluster's leader in a thread.

    Args:
        cluster: Its ZooKeeper.
        folder: Where the forecast and the judged rounds are stored.
        minute_s: Length of a minute of the cluster's settings, seconds; 60 but in a sandbox.
        on_change: Called after a change of :attr:`status` that a person should see.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        cluster: ClusterConfig,
        folder: Path,
        *,
        minute_s: float = 60.0,
        on_change: Callable[[], None] = lambda: None,
        clock: Clock = time,
    ) -> None:
        self.status = ObserverStatus()
        self._cluster, self._minute_s = cluster, minute_s
        self._on_change, self._clock = on_change, clock
        self._forecast_path = forecast_path(folder, cluster.name)
        self._rounds_path = folder / f"{cluster.name}.rounds.json"
        self._model_path = folder / f"{cluster.name}.replay.npz"
        self._is_resumed, self._resumed = False, ""
        self._here: set[str] = set()  # znodes seen since a restart, until all were read
        self._saved_at = monotonic()
        self._judge = RoundJudge(_read_rounds(self._rounds_path))
        self._model: LeaderReplay | ExtensibleReplay | None = None
        self._topics: TopicRecording | None = None
        self._messages: queue.SimpleQueue[list[ZnodeEvent]] = queue.SimpleQueue()
        self._watcher: ZnodeWatcher | None = None
        self._last_round: RoundPrediction | None = None
        self._published: Forecast | None = None
        self._written_at = monotonic()
        self._wanted: dict[str, object] | None = None
        self._configured: dict[str, object] | None = None
        self._has_files = False
        self._is_modular = self._is_followed_modular = True
        self._unsupported = ""
        self._has_snapshot = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"leader of {cluster.name}", daemon=True
        )
        self._thread.start()

    # -- the collector's side -----------------------------------------------------------------

    def put(self, snapshot: PulsarSnapshot) -> None:
        """Take over what ZooKeeper does not show: the settings that the brokers run with."""
        settings = effective_settings(snapshot)
        self._wanted = {
            setting.key: settings.value(setting.key)
            for setting in SETTINGS
            if settings.origin(setting.key) not in ("assumed", "dynamic")
        }
        self._has_files = bool(self._wanted)
        self._is_modular = snapshot.manifest.load_manager != "extensible"
        view = str(settings.value(TABLE_VIEW) or "").rpartition(".")[2]
        is_in_store = view == _STORE and not self._is_modular
        self._unsupported = (
            f"Ownership is stored in the metadata store ({TABLE_VIEW}), which is not supported."
            if is_in_store
            else ""
        )
        self._has_snapshot.set()

    def close(self) -> None:
        """End the thread; twice is harmless."""
        self._stop.set()
        self._has_snapshot.set()
        self._thread.join(_ENDS_WITHIN_S)

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        self._has_snapshot.wait()
        with unless(self._stop.is_set):
            self._follow_until_stopped()
        self._set("lost", "The collector has stopped.")

    def _follow_until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                reason = self._unsupported_reason()
                if reason:
                    self._set("unsupported", reason)
                    self._publish(None)
                    self._stop.wait(_AGAIN_S)
                    continue
                self._follow()
            except OpsError as exc:
                self._failed(exc.as_json(), str(exc))
            except Exception as exc:  # noqa: BLE001  # one bug must not end the watch over a cluster
                _log.error("the leader observer ended unexpectedly", exc_info=exc)
                sentence = f"It failed with an internal error ({type(exc).__name__}: {exc})."
                self._failed({"code": "invariant", "message": sentence, "hint": ""}, sentence)

    def _unsupported_reason(self) -> str:
        """Return the reason the leader cannot be observed, or ""."""
        if self._is_modular:
            return ""
        try:
            require_client()
        except MissingExtraError as exc:
            return str(exc)
        return self._unsupported

    def _failed(self, error: dict[str, str], sentence: str) -> None:
        self.status.last_error = error
        self.status.started_over += 1
        self._judge.forget_awaited()
        self._set("failed", sentence)
        self._stop.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Follow until the stop, or until the manager is another one.

        Raises:
            OpsError: ZooKeeper cannot be reached, or a setting cannot be used.
        """
        self._configured = self._wanted
        self._is_followed_modular = self._is_modular
        follow = LeaderReplay if self._is_modular else ExtensibleReplay
        self._model = follow(
            configured=self._configured, minute_s=self._minute_s, cluster=self._cluster.name
        )
        if isinstance(self._model, LeaderReplay):
            self._resume(self._model)
        self._set("starting", "")
        trees = FOLLOWED if self._is_modular else FOLLOWED_OF_EXTENSIBLE
        watcher = ZnodeWatcher(self._cluster, trees, self._take)
        self._watcher = watcher
        try:
            watcher.run(self._tick)
            self._save()
        finally:
            watcher.close()
            self._close_topics()
            self._watcher = None

    def _resume(self, model: LeaderReplay) -> None:
        """Go on from what the collector before saved, unless that is too long ago."""
        path = self._model_path
        self._is_resumed, self._here = False, set()
        try:
            is_recent = 0 <= self._clock() - path.stat().st_mtime < _RESUMED_WITHIN_S
        except OSError:
            return
        if is_recent:
            try:
                model.load(path)
            except InputError as exc:
                self.status.last_error = exc.as_json()
            else:
                self._is_resumed = True
        # what breaks the observer must not break it again
        path.unlink(missing_ok=True)

    def _save(self) -> None:
        """Keep the replay for the collector after this one."""
        self._saved_at = monotonic()
        if not isinstance(self._model, LeaderReplay) or self.status.state != "watching":
            return
        try:
            self._model.save(self._model_path)
            self._model_path.chmod(0o600)
        except OSError as exc:
            sentence = f"{self._model_path} cannot be written: {exc.strerror or exc}."
            self.status.last_error = {"code": "state", "message": sentence, "hint": ""}

    def _bridged(self, events: list[ZnodeEvent]) -> list[ZnodeEvent]:
        """Return the first events after a restart, deletions in between before the last one."""
        self._here.update(event.path for event in events if event.is_znode)
        model = self._model
        if not isinstance(model, LeaderReplay) or events[-1].kind != "ready":
            return events
        gone = [path for path in model.held_paths() if path not in self._here]
        self._is_resumed, self._here = False, set()
        at_s = self._clock()
        since_s = at_s - model.now_s
        self._resumed = f"Resumed after {since_s:.0f} s without a collector."
        deletions = [ZnodeEvent(kind="del", received_at_s=at_s, path=path) for path in gone]
        return [*events[:-1], *deletions, events[-1]]

    def _take(self, events: list[ZnodeEvent]) -> None:
        """Apply the events of one pass of the watcher."""
        model = self._model
        if model is None:
            return
        if self._is_resumed:
            events = self._bridged(events)
        # the first events of a large cluster take more memory than all that is stored of them
        pending = events[::-1]
        events.clear()
        while pending:
            event = pending.pop()
            if event.kind == "ready" and isinstance(model, ExtensibleReplay):
                self._open_topics(model)
            self._note(event)
            for prediction in model.apply(event):
                self._began(prediction)

    def _open_topics(self, model: ExtensibleReplay) -> None:
        """Begin to read the topics, unless they are read already.

        Raises:
            OpsError: They cannot be read.
        """
        if self._topics is not None:
            return
        self._topics = TopicRecording(self._cluster, self._messages.put)
        self._topics.start(model.brokers)
        if not self._topics.is_started:
            raise ConfigError(
                _NO_SOURCE,
                hint="Add the brokers' addresses to admin_urls, or check their registered "
                "addresses.",
            )
        self._take_messages()

    def _close_topics(self) -> None:
        """End reading the topics, and drop what was not taken."""
        topics, self._topics = self._topics, None
        if topics is not None:
            topics.close()
        self._messages = queue.SimpleQueue()

    def _take_messages(self) -> None:
        """Apply what arrived from the topics."""
        if self._topics is not None and self._topics.failure is not None:
            raise self._topics.failure
        events: list[ZnodeEvent] = []
        while not self._messages.empty():
            events += self._messages.get()
        if events:
            self._take(sorted(events, key=lambda event: event.at_s))

    def _note(self, event: ZnodeEvent) -> None:
        """Take from an event what status and judgement need."""
        if event.kind == "session":
            self._session(event)
        elif event.kind == "ready" and self.status.state != "watching":
            self._watching(event.received_at_s)
        elif event.kind == MESSAGE:
            self._released(event)
        elif event.kind == "del":
            self._deleted(event)
        elif event.path in roots.LEADERS and event.kind == "new":
            self._judge.lost_broker(event.at_s)
            self._judge.expect(0.0)  # the round of another leader, even if it is due as soon

    def _session(self, event: ZnodeEvent) -> None:
        if event.loses_watch:
            self.status.started_over += 1
            self.status.since_s, self._resumed = None, ""
            self._judge.forget_awaited()
            self._close_topics()
            self._set("lost", "The ZooKeeper session was lost; all znodes are read again.")
        elif event.state != "SyncConnected":
            self._set("lost", "The connection to ZooKeeper was lost.")

    def _watching(self, at_s: float) -> None:
        if self.status.since_s is None:
            self.status.since_s = at_s
        self._set("watching", self._resumed)

    def _deleted(self, event: ZnodeEvent) -> None:
        if event.path.startswith(f"{roots.OWNERSHIP}/"):
            self._judge.gave_up(event.path[len(roots.OWNERSHIP) + 1 :], event.received_at_s)
        elif event.path.startswith(f"{roots.BROKERS}/"):
            self._judge.lost_broker(event.received_at_s)

    def _released(self, event: ZnodeEvent) -> None:
        """Note a bundle that a broker of an extensible cluster gives up."""
        if event.path != UNIT_STATE_TOPIC or event.value is None:
            return
        try:
            unit = msgspec.json.decode(event.value, type=UnitState)
        except (msgspec.MsgspecError, RecursionError):
            return
        if unit.state == "Releasing" and unit.source_broker and event.key:
            self._judge.gave_up(event.key, event.at_s)

    def _began(self, prediction: RoundPrediction) -> None:
        self._last_round = prediction
        # a round of a leader that does not shed is no evidence
        if self.status.state == "watching" and prediction.reason != "disabled":
            self._judge.began(prediction)

    # -- several times a second ---------------------------------------------------------------

    def _tick(self) -> bool:
        """Do what is due by the clock; return whether to end."""
        model = self._model
        if self._stop.is_set() or model is None:
            return True
        if self._is_modular != self._is_followed_modular or self._unsupported:
            return True
        if self.status.state != "watching":
            self._publish(None)
            return False
        self._take_messages()
        self._advance(model, self._clock())
        if monotonic() - self._saved_at > _SAVE_EVERY_S:
            self._save()
        return False

    def _advance(self, model: LeaderReplay | ExtensibleReplay, now_s: float) -> None:
        """Hold the rounds that are due, predict the next one, and judge those that have ended."""
        if self._wanted is not None and self._wanted != self._configured:
            self._configured = self._wanted
            model.configure(self._configured)
        if self._published is not None and self._is_write_due():
            self._write(self._published)
        # a round is held once everything that was written before it has been read
        until_s = now_s if self._watcher is None else min(now_s, self._watcher.read_until_s)
        lag_s = _LAG_S if self._is_followed_modular else _TOPIC_LAG_S
        for prediction in model.advance(until_s - lag_s):
            self._began(prediction)
        self._predict(model, now_s, until_s)
        self._judge.interval_s = model.round_every_s
        if self._judge.judge_due(now_s):
            self._save_rounds()

    def _predict(
        self, model: LeaderReplay | ExtensibleReplay, now_s: float, known_until_s: float
    ) -> None:
        """Predict the next round at its lead times.

        Args:
            model: The leader's.
            now_s: Seconds since the epoch.
            known_until_s: Every event before it has been applied. What came since is unknown, as
                the future is: a collector that lags draws longer futures, and their shares fall.
        """
        at_s = model.next_round_at_s
        if self._watcher is not None:
            self._watcher.is_urgent = at_s is not None and abs(at_s - now_s) < _URGENT_S
        if at_s is None:
            self._judge.expect(0.0)
            self._publish(None)
            return
        self._judge.expect(at_s)
        is_large = isinstance(model, LeaderReplay) and model.averages.size > _LARGE_BUNDLES
        leads_s = _LEADS_OF_LARGE_S if is_large else LEADS_S
        due = [lead for lead in leads_s if lead > 0 and self._judge.is_due(lead, at_s, now_s)]
        if not due:
            return
        drawn = model.predict(known_until_s)
        if drawn is None:
            return
        # what counts is when a reader could see it, not when it was begun
        done_s = max(self._clock(), now_s)
        prediction = calibrated(drawn, self._judge.rounds)
        late = _late_words(at_s, min(due), done_s, done_s - known_until_s)
        if late:
            warnings = (*prediction.warnings, *late)
            prediction = msgspec.structs.replace(prediction, warnings=warnings)
        for lead_s in due:
            # where watching began, or the round before ended, too late for it there is none
            is_in_time = at_s - done_s > lead_s - _LATE_S
            self._judge.made(lead_s, prediction if is_in_time else None, drawn)
        self._publish(prediction)

    # -- what is stored -----------------------------------------------------------------------

    def _publish(self, prediction: RoundPrediction | None) -> None:
        """Write the forecast if it differs from the one before, or that one is old."""
        status = self.status
        model = self._model
        status.gaps = len(model.confidence.gaps) if isinstance(model, LeaderReplay) else 0
        known = _UNKNOWN if self._is_modular else UNKNOWN_OF_TOPICS
        unknown = known if self._has_files else (*known, _NO_FILES)
        states: dict[str, Any] = {"waiting": "starting", "failed": "lost"}
        forecast = Forecast(
            cluster=self._cluster.name,
            written_at_s=0.0,
            observed_since_s=status.since_s or 0.0,
            status=states.get(status.state, status.state),
            detail=status.detail,
            next_round=prediction,
            last_round=self._last_round,
            accuracy=accuracy_by_lead(self._judge.rounds),
            calibration=calibration(self._judge.rounds),
            unknown=unknown,
        )
        if forecast == self._published and not self._is_write_due():
            return
        self._published = forecast
        self._write(forecast)

    def _is_write_due(self) -> bool:
        return monotonic() - self._written_at >= WRITTEN_EVERY_S

    def _write(self, forecast: Forecast) -> None:
        """Write the forecast with the present time, by which readers know a stopped observer."""
        self._written_at = monotonic()
        written = msgspec.structs.replace(forecast, written_at_s=self._clock())
        _replace(self._forecast_path, msgspec.json.encode(written))

    def _save_rounds(self) -> None:
        self.status.judged = len(self._judge.rounds)
        _replace(self._rounds_path, msgspec.json.encode(list(self._judge.rounds)))
        self._on_change()

    def _set(self, state: State, detail: str) -> None:
        status = self.status
        if (status.state, status.detail) != (state, detail):
            status.state, status.detail = state, detail
            if state != "watching":
                self._publish(None)
            self._on_change()


def _late_words(at_s: float, lead_s: float, done_s: float, lag_s: float) -> tuple[str, ...]:
    """Return the notes on a late prediction or old events; sentences."""
    late_s, left_s = done_s - (at_s - lead_s), max(at_s - done_s, 0.0)
    late = f"Computed {late_s:.0f} s late: {left_s:.0f} s before the round, not {lead_s:g} s."
    lags = f"The collector lags: events of the last {lag_s:.0f} s are unknown."
    return (*((late,) if late_s > _LATE_S else ()), *((lags,) if lag_s > _LAGS_S else ()))


def forecast_path(folder: Path, cluster: str) -> Path:
    """Return the forecast file of a cluster's leader."""
    return folder / f"{cluster}.forecast.json"


def read_forecast(path: Path) -> Forecast | None:
    """Return the forecast that was published last, ``None`` where there is none to read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Forecast)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def last_round(path: Path) -> RoundPrediction | None:
    """Return the round that the observer of a forecast predicted last, ``None`` if none runs."""
    forecast = read_forecast(path)
    return None if forecast is None or not forecast.is_current else forecast.last_round


def _read_rounds(path: Path) -> list[JudgedRound]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[JudgedRound])[-MAX_ROUNDS:]
    except (OSError, msgspec.MsgspecError, RecursionError):
        return []


def _replace(path: Path, raw: bytes) -> None:
    """Write a file so that a reader never sees half of it."""
    make_private(path.parent)
    write_whole(path, raw, is_durable=False)
