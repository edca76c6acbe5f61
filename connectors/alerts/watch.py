"""The loop that looks at clusters and tells people; one process of an installation does it.

It reads what the collectors and the journal have: a cluster is not contacted. What was told is
stored before the next look, so that whoever goes on after a restart tells nothing twice; only a
message whose sending was interrupted may come again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import filelock

from connectors.alerts.store import AlertStore
from connectors.alerts.targets import send
from connectors.config.alerts import Alerts, TargetConfig
from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.journal.journal import SqlJournal
from connectors.recording.finding_spans import read_spans, write_spans
from connectors.recording.status import last_collect_error, pipeline_lag_s
from connectors.systems import connector_of, open_journal, systems_of, target_ratio
from connectors.transport.deadline import unless
from core.actions.approval import waits_for_approval
from core.actions.runs import fold
from core.actions.views import RunView
from core.alerts.model import Alert, AlertKey, Facts
from core.alerts.progress import looked, message, to_tell
from core.alerts.thresholds import effective
from core.errors import InvariantError, OpsError
from core.findings.finding import Finding
from core.findings.starts import Spans, carried_on, looked_back, with_history
from core.findings.verdict import Verdict
from core.gauges import Gauge
from core.snapshot.store import SnapshotStore, Storable
from core.systems import record_of
from core.units import datetime_to_ms

_LOG: Final = logging.getLogger("trimtab.alerts")
_RUNS: Final = 20
_HOUR: Final = timedelta(hours=1)
_FIRST_WAIT_S: Final = 15.0
_LAST_WAIT_S: Final = 600.0
_STANDBY_S: Final = 5.0

_HISTORY_WATCHED_FOR: Final = timedelta(minutes=10)
"""So long after the start, older minutes that are added to the history count."""


class RecordedPast(Protocol):
    """What is read in the recorded history."""

    def returned_since(self, cluster: str, since: datetime) -> int:
        """Return the moves since a moment that went back to a server that was left before.

        Raises:
            OpsError: The history cannot be read.
        """

    def first_minute(self, cluster: str) -> datetime | None:
        """Return the first recorded minute; ``None`` if there is none.

        Raises:
            OpsError: The history cannot be read.
        """

    def snapshot_at(self, cluster: str, moment: datetime) -> Storable:
        """Return the newest snapshot that was recorded at or before a moment.

        Raises:
            OpsError: There is none, or the history cannot be read.
        """


def watch(
    config: TrimtabConfig,
    past: RecordedPast,
    stop: threading.Event,
    report: Callable[[str], None],
) -> None:
    """Look at the clusters again and again until ``stop`` is set; others wait meanwhile.

    Args:
        config: Which clusters, limits and targets.
        past: Reads the history.
        stop: Set it to end.
        report: Called with what a person at the terminal wants to know.
    """
    lock = filelock.FileLock(config.state_dir / "alerts.lock", mode=0o600)
    reported = ""
    while not stop.is_set():
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            stop.wait(_STANDBY_S)
            continue
        except OSError as error:
            sentence = f"Alerts: {lock.lock_file} cannot be locked: {error.strerror or error}."
            if sentence != reported:
                report(sentence)
            reported = sentence
            stop.wait(_STANDBY_S)
            continue
        try:
            with unless(stop.is_set):
                _Watch(config, past, report).run(stop)
        finally:
            lock.release()


@dataclass
class _TargetRetries:
    """Retries of a failed target."""

    wait_s: float = _FIRST_WAIT_S
    again_at_s: float = -inf

    def failed(self) -> None:
        self.again_at_s = monotonic() + self.wait_s
        self.wait_s = min(2 * self.wait_s, _LAST_WAIT_S)


class _Watch:
    """One process's turn at looking."""

    def __init__(
        self,
        config: TrimtabConfig,
        past: RecordedPast,
        report: Callable[[str], None],
    ) -> None:
        self._config = config
        self._rules: Alerts = config.alerts
        self._past = past
        self._started_at = datetime.now(UTC)
        self._report = report
        self._snapshots = SnapshotStore(config.state_dir / "snapshots")
        self._seen: dict[str, tuple[Path, tuple[Gauge, ...], tuple[Finding, ...]]] = {}
        self._read: dict[str, tuple[tuple[int, str], list[RunView]]] = {}  # by the journal's end
        self._patience: dict[str, _TargetRetries] = {}
        self._done: set[tuple[str, AlertKey, str]] = set()  # told while another target failed
        self._said = ""

    def run(self, stop: threading.Event) -> None:
        """Look until the stop; no failure ends it."""
        while not stop.is_set():
            try:
                self._turn()
            except OpsError as error:
                self._say(str(error))
            except Exception:  # noqa: BLE001  # a bug in one look must not end all of them
                _LOG.exception("the evaluation of alerts failed")
                self._say("The evaluation of alerts failed; see the log.")
            stop.wait(self._rules.every_s)

    def _turn(self) -> None:
        journal = open_journal(self._config)
        try:
            store = AlertStore(journal.database)
            before = store.alerts()
            facts = [self._facts(cluster, journal) for cluster in self._config.clusters]
            limits = effective(self._rules.limits(), store.threshold_changes())
            after = looked(before, facts, limits)
            now = datetime.now(UTC)
            stored_for = timedelta(days=self._config.history.max_age_days)
            store.save(before, after, now, stored_for)
            repeat = timedelta(hours=self._rules.repeat_hours)
            for cluster, alerts in to_tell(
                after.values(), store.silences(now), now, repeat
            ).items():
                if self._tell(cluster, alerts):
                    told = {one.key: replace(one, told_at=now) for one in alerts}
                    store.save(after, {**after, **told}, now, stored_for)
                    after |= told
        finally:
            journal.close()

    # -- facts ----------------------------------------------------------------------------------

    def _facts(self, cluster: ClusterConfig, journal: SqlJournal) -> Facts:
        now = datetime.now(UTC)
        stored = self._snapshots.latest(cluster.name, now)
        gauges: tuple[Gauge, ...] = ()
        findings: tuple[Finding, ...] = ()
        if stored is not None:
            gauges, findings = self._of_snapshot(cluster, stored.path)
        runs = self._runs(cluster.name, journal)
        rules = cluster.approval.rules()
        return Facts(
            cluster=cluster.name,
            now=now,
            taken_at=None if stored is None else stored.taken_at,
            collect_error=""
            if stored is not None
            else last_collect_error(self._config, cluster.name),
            gauges=gauges,
            findings=findings,
            runs=runs,
            waiting=[view for view in runs if waits_for_approval(view, rules, now)],
            returned=self._returned(cluster.name, now),
            target_ratio=target_ratio(self._config, cluster),
            pipeline_lag_s=pipeline_lag_s(self._config, cluster.name, now),
        )

    def _of_snapshot(
        self, cluster: ClusterConfig, path: Path
    ) -> tuple[tuple[Gauge, ...], tuple[Finding, ...]]:
        """Return a value of a snapshot; computed once."""
        seen = self._seen.get(cluster.name)
        if seen is None or seen[0] != path:
            system: Any = connector_of(self._config, cluster).system
            try:
                load = record_of(cluster.kind, systems_of(self._config)).load
                snapshot = load(path)
                earlier = partial(self._before, cluster, snapshot.manifest.taken_at, load)
                verdict = system.verdict(snapshot, earlier)
                spans = self._spans(cluster.name, system, verdict, snapshot.manifest.taken_at)
                found = verdict.dated(spans, snapshot.manifest.taken_at).findings
                seen = (path, tuple(system.gauges(snapshot)), found)
            except OpsError as error:
                self._say(str(error))
                seen = (path, (), ())
            self._seen[cluster.name] = seen
        return seen[1], seen[2]

    def _spans(self, cluster: str, system: Any, verdict: Verdict, moment: datetime) -> Spans:
        """Return the spans of a cluster's findings after a snapshot, and store them."""
        before = read_spans(self._config, cluster)
        spans = carried_on(before, verdict.findings, moment)
        if before is None or datetime.now(UTC) - self._started_at < _HISTORY_WATCHED_FOR:
            with suppress(OpsError):  # the start is unknown before the first look
                spans = self._with_history(cluster, system, spans, moment)
        if spans != before:
            write_spans(self._config, cluster, spans)
        return spans

    def _with_history(self, cluster: str, system: Any, spans: Spans, moment: datetime) -> Spans:
        first = self._past.first_minute(cluster)
        known_ms = spans.history_from_ms
        if first is None or (known_ms is not None and datetime_to_ms(first) >= known_ms):
            return spans

        def findings_at(at: datetime) -> tuple[datetime, tuple[Finding, ...]]:
            snapshot = self._past.snapshot_at(cluster, at)
            return snapshot.manifest.taken_at, system.verdict(snapshot).findings

        open_ = [(one.code, one.subject) for one in spans.spans if one.end_ms is None]
        return with_history(spans, looked_back(open_, first, moment, findings_at), first)

    def _before(
        self, cluster: ClusterConfig, moment: datetime, load: Callable[[Path], Storable]
    ) -> list[Storable]:
        """Return saved snapshots before a moment, the newest last, as the pages read them."""
        found = []
        for one in self._snapshots.before(cluster.name, moment):
            with suppress(OpsError):  # dropped meanwhile
                found.append(load(one.path))
        return found

    def _runs(self, cluster: str, journal: SqlJournal) -> list[RunView]:
        """Return the latest runs; read again when the journal has more entries."""
        newest = journal.newest()
        if cluster not in self._read or self._read[cluster][0] != newest:
            found = []
            for run_id in journal.run_ids(cluster=cluster, limit=_RUNS):
                with suppress(InvariantError):  # damaged: `trimtab runs --verify` says where
                    found.append(fold(journal.entries(run_id=run_id)))
            self._read[cluster] = newest, found
        return self._read[cluster][1]

    def _returned(self, cluster: str, now: datetime) -> int:
        try:
            return self._past.returned_since(cluster, now - _HOUR)
        except OpsError:
            return 0  # there is no history yet, or the collector's status says why

    # -- telling --------------------------------------------------------------------------------

    def _tell(self, cluster: str, alerts: list[Alert]) -> bool:
        """Tell every target that wants it; return whether some do and none is to be tried again."""
        is_wanted, is_done = False, True
        for target in self._rules.targets:
            wanted = [one for one in alerts if target.wants(cluster, one.severity)]
            is_wanted |= bool(wanted)
            wanted = [one for one in wanted if (target.name, one.key, one.state) not in self._done]
            if wanted and self._sent(target, cluster, wanted):
                self._done |= {(target.name, one.key, one.state) for one in wanted}
            elif wanted:
                is_done = False
        if is_done:
            keys = {one.key for one in alerts}
            self._done = {done for done in self._done if done[1] not in keys}
        return is_done and is_wanted

    def _sent(self, target: TargetConfig, cluster: str, alerts: list[Alert]) -> bool:
        patience = self._patience.setdefault(target.name, _TargetRetries())
        if monotonic() < patience.again_at_s:
            return False
        title, text = message(cluster, alerts)
        try:
            send(target, title, text)
        except OpsError as error:
            patience.failed()
            self._say(str(error))
            return False
        self._patience.pop(target.name)
        self._report(f"{target.name} received: {title}")
        return True

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self._report(f"Alerts: {sentence}")
