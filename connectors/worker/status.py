"""How a worker is doing, written to a file for the pages to read.

``<state_dir>/workers/<cluster>.json`` is rewritten every two seconds by the first worker that uses
that directory; others on standby do not write it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import filelock
import msgspec

from connectors.config.model import TrimtabConfig
from core.files import make_private, write_whole

HEARTBEAT_S: Final = 2.0
ALIVE_WITHIN_S: Final = 10.0
"""A status that was not renewed for so long is that of a worker that is gone."""


class WorkerStatus(msgspec.Struct, kw_only=True):
    """Status of a worker. Times are ISO 8601, UTC.

    Attributes:
        cluster: Trimtab's name of it.
        worker: The worker's name in the journal.
        host: Machine.
        pid: Process.
        since: When it started.
        last_seen_at: Its last heartbeat.
        doing: One sentence.
        run_id: The run that it executes.
        lease: Where its lease is.
        last_error: ``{"code", "message", "hint"}`` of what keeps it from working.
        stopped_at: When it ended in good order.
    """

    cluster: str
    worker: str
    host: str = msgspec.field(default_factory=socket.gethostname)
    pid: int = msgspec.field(default_factory=os.getpid)
    since: str = ""
    last_seen_at: str = ""
    doing: str = "Starting."
    run_id: str | None = None
    lease: str = ""
    last_error: dict[str, str] | None = None
    stopped_at: str | None = None

    def silent_s(self, now: datetime) -> float:
        """Return seconds since it last reported; a report from the future is as far away."""
        try:
            return abs((now - datetime.fromisoformat(self.last_seen_at)).total_seconds())
        except ValueError:
            return float("inf")

    def is_alive(self, now: datetime) -> bool:
        """Return whether it is ready to execute runs."""
        return self.stopped_at is None and self.silent_s(now) < ALIVE_WITHIN_S


def status_path(config: TrimtabConfig, cluster: str) -> Path:
    """Return the status file of a cluster's worker."""
    return config.state_dir / "workers" / f"{cluster}.json"


def read_status(config: TrimtabConfig, cluster: str) -> WorkerStatus | None:
    """Return the worker's status, or ``None`` if no worker has run here."""
    return read_status_file(status_path(config, cluster))


def read_status_file(path: Path) -> WorkerStatus | None:
    """Return the status of a worker or the job server, or ``None`` if unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorkerStatus)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Heartbeat:
    """Rewrites a status until it is closed; only the first of several with one directory does.

    Args:
        path: The status file.
        status: What is written; its owner changes it.
        on_trouble: Called, once in a row, with the sentence when it cannot be written.
    """

    def __init__(self, path: Path, status: WorkerStatus, on_trouble: Callable[[str], None]) -> None:
        self._path = path
        self._status = status
        self._on_trouble = on_trouble
        self._lock = filelock.FileLock(path.with_suffix(".lock"), thread_local=False)
        self._end = threading.Event()
        self._has_reported = False
        self._thread = threading.Thread(
            target=self._beat, name=f"heartbeat {status.cluster}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._status.since = self._status.last_seen_at = _now()
        self._write()
        self._thread.start()

    def close(self) -> None:
        """Say goodbye."""
        self._end.set()
        self._thread.join()
        self._status.stopped_at = _now()
        self._status.doing = "Ended."
        self._write()
        self._lock.release()

    def _beat(self) -> None:
        while not self._end.wait(HEARTBEAT_S):
            self._write()

    def _write(self) -> None:
        self._status.last_seen_at = _now()
        try:
            make_private(self._path.parent)
            if not self._lock.is_locked:
                self._lock.acquire(timeout=0)
            write_whole(self._path, msgspec.json.encode(self._status), is_durable=False)
        except filelock.Timeout:
            return  # another worker with this directory writes it
        except OSError as exc:
            if not self._has_reported:
                self._on_trouble(f"{self._path} cannot be written: {exc.strerror or exc}.")
            self._has_reported = True
        else:
            self._has_reported = False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
