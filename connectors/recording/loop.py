"""Recording in a thread of its own: a failing history never delays the collector."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Final, Literal

import filelock

from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.config.private import keep_private
from connectors.journal.journal import SqlJournal
from connectors.recording.attribution import BY_US
from connectors.recording.minutes import ClusterMinutes, WriteResult, minute_text
from connectors.recording.status import RecordingStatus
from connectors.recording.steps import last_place
from connectors.recording.upkeep import Upkeep, UpkeepResult
from connectors.systems import connector_of, open_journal, systems_of
from core.errors import InvariantError, OpsError
from core.history.store.layout import Kinds
from core.history.store.lease import HeldError, Lease
from core.history.store.store import HistoryLocation, HistoryStore
from core.snapshot.store import Storable

_log = logging.getLogger("trimtab.recording")

MAX_WAITING: Final = 3
"""Snapshots that may wait; where writing is slower than capturing the oldest of them is missed."""

_OBJECT_STORES: Final = ("s3:", "s3a:", "az:", "azure:", "abfs:", "abfss:", "adl:", "gs:")
_BOUNDS: Final = {
    "connect_timeout": "5s",
    "timeout": "30s",
    "max_retries": "2",
    "retry_timeout": "60s",
}
"""By default a store that answers nothing is waited for more than three minutes.

Source:
    ``object_store`` ``ClientConfigKey`` and ``RetryConfig``, as delta-rs reads them.
"""
_ENDS_WITHIN_S: Final = 5.0
"""With that of the upkeep less than a supervisor waits before it kills."""
_LOOK_S: Final = 1.0

Report = Callable[[Literal["recorded", "unrecorded", "paused"], str], None]


def open_history(config: TrimtabConfig) -> HistoryStore:
    """Return the history of a configuration; nothing is read or written yet."""
    named = {name: secret.get_secret_value() for name, secret in config.history.options.items()}
    is_bounded = config.history_uri.startswith(_OBJECT_STORES)
    options = {**_BOUNDS, **named} if is_bounded else named
    kinds = Kinds(system.record for system in systems_of(config))
    return HistoryStore(HistoryLocation(config.history_uri, options, kinds))


def recorded_entries(config: TrimtabConfig) -> dict[int, str]:
    """Return the journal entries recorded in the history: by position, their runs.

    Raises:
        HistoryError: The history cannot be read.
    """
    store = open_history(config)
    found: dict[int, str] = {}
    for cluster in config.clusters:
        if store.span(cluster.name) is not None:
            columns, ours = ["run_id", "details"], {"by": BY_US}
            events = store.rows("events", cluster.name, columns=columns, matching=ours)
            for row in events.to_pylist():
                if place := last_place([row["details"]]):
                    found[place] = row["run_id"]
    return found


class RecordedCluster:
    """Recorder of one cluster and of the journal; close it in the end.

    Args:
        config: Where history and journal are.
        every_s: Seconds between two snapshots of it.
    """

    def __init__(self, config: TrimtabConfig, cluster: ClusterConfig, every_s: float) -> None:
        self._config = config
        self._journal: SqlJournal | None = None
        shadow = connector_of(config, cluster).shadow(config, cluster)
        interval_s = config.history.interval_s
        period_s = max(every_s, interval_s)
        lease = Lease(period_s, config.state_dir / "collectors" / f"{cluster.name}.segments")
        rest_s = max(0.0, interval_s - every_s / 2)  # snapshots are not quite on time
        self.minutes = ClusterMinutes(
            lambda: open_history(config),
            cluster.name,
            self._opened,
            shadow,
            lease,
            round(rest_s * 1_000),
        )

    def _opened(self) -> SqlJournal:
        self._journal = self._journal or open_journal(self._config)
        return self._journal

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


class Recording:
    """Records what a collector hands over, in a thread of its own.

    Args:
        config: Where the history is, and its retention.
        cluster: Which one is recorded.
        every_s: Seconds between two snapshots of it.
        report: Called when recording begins to fail, and when it works again.
        on_change: Called after every change of :attr:`status`.
    """

    def __init__(
        self,
        config: TrimtabConfig,
        cluster: ClusterConfig,
        every_s: float,
        report: Report,
        on_change: Callable[[], None],
    ) -> None:
        self.status = RecordingStatus(place=config.history_uri)
        self._report = report
        self._on_change = on_change
        self._recorded = RecordedCluster(config, cluster, every_s)
        folder = config.state_dir / "collectors"
        self._upkeep = Upkeep(
            lambda: open_history(config),
            cluster.name,
            config.history,
            folder,
            self._on_upkeep,
            config.pipeline,
        )
        self._failing = ""
        self._waiting: queue.Queue[Storable | None] = queue.Queue()
        self._thread = threading.Thread(
            target=self._run, name=f"record {cluster.name}", daemon=True
        )
        self._thread.start()

    def put(self, snapshot: Storable) -> None:
        """Hand over a snapshot; returns at once."""
        while self._waiting.qsize() >= MAX_WAITING:
            try:
                self._waiting.get_nowait()
            except queue.Empty:
                break
            self.status.missed += 1
        self._waiting.put(snapshot)

    def close(self) -> None:
        """Record what was handed over and end; what takes longer than 5 s is given up."""
        self._waiting.put(None)
        self._thread.join(_ENDS_WITHIN_S)
        self._upkeep.close()

    def _run(self) -> None:
        while True:
            try:
                snapshot = self._waiting.get(timeout=_LOOK_S)
            except queue.Empty:
                self._upkeep.look()
                continue
            if snapshot is None:
                self._recorded.close()
                return
            self._once(snapshot)
            self._upkeep.look()

    def _once(self, snapshot: Storable) -> None:
        began = monotonic()
        try:
            written = self._recorded.minutes.record(snapshot)
        except HeldError as exc:
            self.status.is_standby = True
            self._note(exc, "standby:")
        except OpsError as exc:
            self._failed(exc)
        except Exception as exc:  # noqa: BLE001  # one bug must not end the recording of a cluster
            _log.error("recording ended unexpectedly", exc_info=exc)
            self._failed(_as_bug(exc))
        else:
            self._written(written, monotonic() - began)
        self._on_change()

    def _written(self, written: WriteResult, took_s: float) -> None:
        status = self.status
        status.is_standby = False
        if written.is_new:
            status.minutes += 1
            status.last_minute_at = minute_text(written.taken_at)
            status.last_rows = written.rows
            status.last_events = written.events
            status.last_duration_s = round(took_s, 3)
        if written.problem is not None:
            self._note(written.problem, "The runs or forecasts of this minute were not recorded:")
        elif self._failing:
            self._failing = ""
            self._report("recorded", "its minutes are recorded again.")

    def _failed(self, exc: OpsError) -> None:
        self.status.missed += 1
        self._note(exc, "not recorded:")

    def _note(self, exc: OpsError, what: str) -> None:
        """Keep the failure in the status; say it once, until it is another one."""
        self.status.last_error_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.status.last_error = exc.as_json()
        if exc.message != self._failing:
            self._failing = exc.message
            self._report("unrecorded", f"{what} {exc} The snapshots are stored.")

    def _on_upkeep(self, came: UpkeepResult | OpsError) -> None:
        if isinstance(came, OpsError):
            self.status.upkeep_error = came.as_json()
        else:
            self.status.upkeep_at = datetime.now(UTC).isoformat(timespec="milliseconds")
            failure = came.not_rolled_up
            self.status.upkeep_error = None if failure is None else failure.as_json()
            self.status.bytes = came.bytes
            self.status.tier_rows += came.tier_rows
            self.status.hours_due = came.due
            if came.rolled_up_to is not None:
                self.status.rolled_up_to = minute_text(came.rolled_up_to)
            if came.paused and came.paused != self.status.upkeep_paused:
                self._report("paused", f"history: {came.paused}")
            self.status.upkeep_paused = came.paused
        self._on_change()


def record_once(config: TrimtabConfig, cluster: ClusterConfig, snapshot: Storable) -> bool:
    """Record one snapshot, unless a collector records the cluster anyway.

    Returns:
        Whether it was recorded.
    Raises:
        HistoryError: It could not be written.
    """
    keep_private(config.state_dir)
    folder = config.state_dir / "collectors"
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / f"{cluster.name}.lock")
    try:
        with lock.acquire(timeout=0):
            recorded = RecordedCluster(config, cluster, config.collect_every_s)
            try:
                return recorded.minutes.record(snapshot).is_new
            finally:
                recorded.close()
    except (filelock.Timeout, HeldError):
        return False


def _as_bug(exc: Exception) -> InvariantError:
    return InvariantError(
        f"Recording failed with an internal error ({type(exc).__name__}: {exc}).",
        hint="It is retried; please report it with the collector's log.",
    )
