"""The collector: takes a snapshot of each cluster at regular times and stores it.

One collector per cluster, by a file lock in the state directory; another one that is started waits
for the lock, so that it takes over when the first ends. Its status is in
``<state_dir>/collectors/<cluster>.json`` for the pages to read.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

import filelock
import msgspec
from structlog.contextvars import bound_contextvars

from connectors.config.model import ClusterConfig, TrimtabConfig
from connectors.config.private import keep_private
from connectors.connector import Collector, Observer
from connectors.recording.loop import Recording
from connectors.recording.status import RecordingStatus
from connectors.systems import connector_of, plans_of
from connectors.transport.deadline import unless
from core.errors import InvariantError, OpsError
from core.files import write_whole
from core.snapshot.store import SnapshotStore

_log = logging.getLogger("trimtab.collector")
_LOCK_RETRY_S: Final = 2.0
_LOOK_S: Final = 0.5
_FIRST_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorEvent:
    """Something a person at the terminal wants to know.

    Attributes:
        cluster: Name.
        kind: ``collected``, ``failed``, ``waiting`` or ``stopped``; ``unrecorded``: the history
            could not be written, ``recorded``: it is written again; ``paused``: nothing is dropped
            by age.
        sentence: What happened.
    """

    cluster: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.cluster}: {self.sentence}"


@dataclass(slots=True, kw_only=True)
class CollectorStatus:
    """Status of a collector; written whole after every attempt. Times are ISO 8601, UTC.

    Attributes:
        cluster: Name.
        pid: Process of the collector.
        every_s: Seconds between two snapshots.
        collected: Snapshots stored since it started.
        last_success_at: Moment of the newest stored snapshot.
        last_snapshot_id: Its id.
        last_duration_s: How long it took.
        problem_count: Problems in it.
        last_error_at: Moment of the last failure; a later success does not clear it.
        last_error: ``{"code", "message", "hint"}`` of it.
        next_due_at: When the next attempt is due.
        stopped_at: When the collector ended in good order.
        history: How recording is doing; ``None`` if nothing is recorded.
        retention_paused: Why old snapshots are not dropped by age for now; empty: they are.
    """

    cluster: str
    pid: int = field(default_factory=os.getpid)
    every_s: float = 60.0
    collected: int = 0
    last_success_at: str | None = None
    last_snapshot_id: str | None = None
    last_duration_s: float | None = None
    problem_count: int = 0
    last_error_at: str | None = None
    last_error: dict[str, str] | None = None
    next_due_at: str | None = None
    stopped_at: str | None = None
    history: RecordingStatus | None = None
    leader: Any = None
    retention_paused: str = ""


def run_collector(
    config: TrimtabConfig,
    clusters: Sequence[ClusterConfig],
    every_s: float,
    stop: threading.Event,
    on_event: Callable[[CollectorEvent], None],
) -> None:
    """Collect ``clusters`` side by side until ``stop`` is set; returns when all have ended.

    Args:
        config: State directory and retention.
        every_s: Seconds from the start of one capture to the start of the next.
        stop: Set it to end; a capture under way is given up.
        on_event: Called from the collecting threads.
    """
    keep_private(config.state_dir)
    threads = [
        threading.Thread(
            target=_Loop(config, cluster, every_s, stop, on_event).run,
            name=f"collect {cluster.name}",
        )
        for cluster in clusters
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Loop:
    """One cluster's collecting thread."""

    def __init__(
        self,
        config: TrimtabConfig,
        cluster: ClusterConfig,
        every_s: float,
        stop: threading.Event,
        on_event: Callable[[CollectorEvent], None],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._every_s = every_s
        self._stop = stop
        self._on_event = on_event
        self._retention = config.keep.retention()
        self._snapshot_store = SnapshotStore(config.state_dir / "snapshots")
        self._folder = config.state_dir / "collectors"
        self._status = CollectorStatus(cluster=cluster.name, every_s=every_s)
        self._writing = threading.Lock()
        self._recording: Recording | None = None
        self._observer: Observer | None = None
        self._connector = connector_of(config, cluster)

    def run(self) -> None:
        """Wait for the lock, collect until the stop, write the end into the status."""
        lock = filelock.FileLock(self._folder / f"{self._cluster.name}.lock")
        if not self._acquire(lock):
            return
        if self._config.history.is_recorded:
            self._recording = Recording(
                self._config, self._cluster, self._every_s, self._report, self._write_status
            )
            self._status.history = self._recording.status
        self._observer = self._connector.observer(self._config, self._cluster, self._write_status)
        if self._observer is not None:
            self._status.leader = self._observer.status
        # before the first look, which may take long: the former collector's end is over
        self._status.next_due_at = _text(_now())
        self._write_status()
        try:
            with unless(self._stop.is_set):
                self._collect_until_stopped()
        finally:
            if self._observer is not None:
                self._observer.close()
            self._status.stopped_at = _text(_now())
            self._write_status()  # first: a history that hangs may take longer than there is
            if self._recording is not None:
                self._recording.close()
            lock.release()

    def _acquire(self, lock: filelock.BaseFileLock) -> bool:
        """Wait for the lock; ``False``: the stop came first. Trouble is reported once in a row."""
        reported = ""
        while not self._stop.is_set():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                lock.acquire(timeout=0)
            except filelock.Timeout:
                kind = "waiting"
                sentence = "standby: another collector reads this cluster."
            except OSError as exc:  # a disk that is full or read-only may not stay so
                kind = "failed"
                sentence = f"{lock.lock_file} cannot be locked: {exc.strerror or exc}."
            else:
                return True
            if sentence != reported:
                self._report(kind, sentence)
            reported = sentence
            self._stop.wait(_LOCK_RETRY_S)
        return False

    def _collect_until_stopped(self) -> None:
        collector: Collector | None = None
        try:
            while not self._stop.is_set():
                began = monotonic()
                cycle = secrets.token_hex(4)  # in every line of this look, also when it fails
                with bound_contextvars(cluster=self._cluster.name, cycle=cycle):
                    try:
                        collector = collector or self._collector()
                        self._once(collector)
                    except OpsError as exc:
                        if self._stop.is_set():
                            break  # it was given up
                        self._failed(exc)
                    except Exception as exc:  # noqa: BLE001  # one bug must not end the watch over a cluster
                        self._failed(_as_bug(exc))
                rest_s = max(0.0, self._every_s - (monotonic() - began))
                self._status.next_due_at = _text(_now() + timedelta(seconds=rest_s))
                self._write_status()
                self._rest(collector, rest_s)
        finally:
            if collector is not None:
                collector.close()

    def _collector(self) -> Collector:
        """Return the collector; it continues from the newest snapshot."""
        latest = self._snapshot_store.latest(self._cluster.name, _now())
        path = None if latest is None else latest.path
        return self._connector.collector(self._cluster, path, plans_of(self._config, self._cluster))

    def _rest(self, collector: Collector | None, rest_s: float) -> None:
        """Wait for the next turn; a broker that comes or goes brings it forward."""
        until = monotonic() + rest_s
        soonest = monotonic() + min(rest_s, _FIRST_AGAIN_S)
        while not self._stop.is_set() and (now := monotonic()) < until:
            if collector is not None and collector.changed.is_set() and now >= soonest:
                return
            self._stop.wait(min(_LOOK_S, until - now))

    def _once(self, collector: Collector) -> None:
        snapshot = collector.collect()
        cached = self._snapshot_store.put(snapshot, self._retention)
        if self._recording is not None:
            self._recording.put(snapshot)
        if self._observer is not None:
            self._observer.put(snapshot)
        manifest = snapshot.manifest
        status = self._status
        status.collected += 1
        status.last_success_at = _text(manifest.taken_at)
        status.last_snapshot_id = cached.snapshot_id
        status.last_duration_s = round(manifest.duration_s, 3)
        status.problem_count = len(manifest.problems)
        jump = self._snapshot_store.jump(self._cluster.name, manifest.taken_at, self._retention)
        if jump is not None and not status.retention_paused:
            self._report("paused", str(jump))
        status.retention_paused = str(jump or "")
        problems = f"{status.problem_count} problems in {manifest.duration_s:.1f} s"
        sizes = self._connector.system.record.sizes(snapshot)
        self._report("collected", ", ".join([*sizes, problems]))

    def _failed(self, exc: OpsError) -> None:
        self._status.last_error_at = _text(_now())
        self._status.last_error = exc.as_json()
        self._report("failed", str(exc))

    def _report(self, kind: str, sentence: str) -> None:
        self._on_event(CollectorEvent(cluster=self._cluster.name, kind=kind, sentence=sentence))

    def _write_status(self) -> None:
        """Replace the status file; a reader never sees half of it."""
        path = self._folder / f"{self._cluster.name}.json"
        with self._writing:  # the recording thread writes its part as well
            try:
                self._folder.mkdir(parents=True, exist_ok=True)  # it may have been removed
                write_whole(path, msgspec.json.encode(self._status), is_durable=False)
            except OSError as exc:
                self._report("failed", f"{path} cannot be written: {exc.strerror}.")


def _as_bug(exc: Exception) -> InvariantError:
    """Return the message of an unexpected exception; the log gets the details."""
    _log.error("a capture ended unexpectedly", exc_info=exc)
    return InvariantError(
        f"The capture failed with an internal error ({type(exc).__name__}).",
        hint="It is retried; please report it with the collector's log.",
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
