"""Trimtab's processes that are down; see :mod:`dashboard.services`.

``trimtab dashboard`` and ``demo`` write how the processes are that they start again. Others, of
units or machines of their own, are known by what they report in the state directory.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dashboard import services

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.services import Config

SUPERVISOR_ENV: Final = "TRIMTAB_SUPERVISOR"
"""Where a supervisor writes how its processes are, for these processes."""

HEARTBEAT_S: Final = 2.0
"""How often processes and their supervisor give a sign of life."""

_SUPERVISOR_SILENT: Final = timedelta(seconds=10)
_CYCLES: Final = 3.0
"""So many cycles late, a collector does not collect."""
_SOONEST_LATE_S: Final = 60.0
_MISSED_FOR: Final = timedelta(days=1)
_ENDED: Final = "ended"
_SILENT: Final = "no report"
_TITLES: Final = {"jobs": "The job server"}


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a process.

    Attributes:
        name: ``pages``, ``collector``, ``worker``, ``jobs``; ``supervisor``.
        cluster: Which one it reports on; empty: it is about all.
        pid: Process id; 0: unknown.
        is_up: It runs, and gave a sign of life.
        since: Since when it is up, or down; aware UTC.
        restarts: How often its supervisor started it again; ``None``: it has none here.
        next_start_at: When that is; ``None``: it runs, or has no supervisor here.
        last_end: How its latest process ended; empty: unknown, or none has.
        log: File with its output, from the state directory on; empty: unknown.
    """

    name: str
    cluster: str = ""
    pid: int = 0
    is_up: bool
    since: datetime
    restarts: int | None = None
    next_start_at: datetime | None = None
    last_end: str = ""
    log: str = ""

    @property
    def sentence(self) -> str:
        """The fault for people who are not signed in, one sentence: no path, host or name."""
        end = f" ({self.last_end})" if self.last_end else ""
        restarts = "" if self.restarts is None else f" Restarts: {self.restarts}."
        start = f" Next start at {self.next_start_at:%H:%M:%S}." if self.next_start_at else ""
        since = f"{self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{title_of(self.name)} is down since {since}{end}.{start}{restarts}"


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """Status file of a supervisor.

    Attributes:
        pid: Its process id.
        last_seen_at: When it wrote this, aware UTC.
        processes: Those that it starts again.
    """

    pid: int
    last_seen_at: datetime
    processes: list[ProcessState]


def title_of(name: str) -> str:
    """Return the name of a process as the beginning of a sentence."""
    return _TITLES.get(name, f"The {name}")


def supervised() -> list[ProcessState]:
    """Return the processes of this one's supervisor; empty: it has none.

    A supervisor that is silent is named as the process that is down: it starts nothing again.
    """
    file = os.environ.get(SUPERVISOR_ENV)
    if not file:
        return []
    try:
        found = msgspec.json.decode(Path(file).read_bytes(), type=Supervision)
    except (OSError, msgspec.MsgspecError):
        return [ProcessState(name="supervisor", is_up=False, since=services.now())]
    if abs(services.now() - found.last_seen_at) <= _SUPERVISOR_SILENT:
        return found.processes
    lost = ProcessState(name="supervisor", pid=found.pid, is_up=False, since=found.last_seen_at)
    return [lost, *found.processes]


def down(config: Config) -> list[ProcessState]:
    """Return the processes that are down.

    Of a supervised process every report counts. Another one is down when it went silent less than
    a day ago, and not by a clean end: one that was ended, or never ran here, is not
    missed.

    Args:
        config: Its clusters, and where processes report.
    """
    known = {one.name: one for one in supervised()}
    found = [one for one in known.values() if not one.is_up]
    now = services.now()
    for name, cluster, end, since in _reports(config, now):
        ours = known.get(name)
        if not end or (ours is not None and not ours.is_up):
            continue
        if ours is None and (end == _ENDED or now - since > _MISSED_FOR):
            continue
        base = ours or ProcessState(name=name, is_up=False, since=since)
        found.append(
            msgspec.structs.replace(
                base, cluster=cluster, is_up=False, since=since, last_end=end, next_start_at=None
            )
        )
    return found


def _reports(config: Config, now: datetime) -> Iterator[tuple[str, str, str, datetime]]:
    """Yield name, cluster and time of each report, and why it is out of date (else empty)."""
    from connectors.jobs.server import server_status_path  # noqa: PLC0415  # commands must start fast
    from connectors.worker.status import read_status_file, status_path  # noqa: PLC0415  # the same

    places = [("worker", one.name, status_path(config, one.name)) for one in config.clusters]
    for name, cluster, path in [*places, ("jobs", "", server_status_path(config))]:
        status = read_status_file(path)
        if status is not None:
            is_silent = not status.is_alive(now)
            why = _ENDED if status.stopped_at else _SILENT if is_silent else ""
            yield name, cluster, why, _moment(status.last_seen_at) or now
    for one in config.clusters:
        report = _decoded(services.collector_status_path(config, one.name))
        due = _moment(report.get("next_due_at"))
        if due is not None:
            late_s = _CYCLES * max(_number(report, "every_s"), _number(report, "last_duration_s"))
            late_s = max(late_s, _SOONEST_LATE_S, 2 * one.timeouts.capture_s)
            is_late = now - due > timedelta(seconds=late_s)
            why = _ENDED if report.get("stopped_at") else _SILENT if is_late else ""
            yield "collector", one.name, why, due


def _decoded(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(report: dict[str, Any], name: str) -> float:
    value = report.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else None
