"""Jobs in words: how far each is, who requested it, its result; does a job server run them?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pandas as pd

from core.units import format_age
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.workers import LOST_AFTER_S, ended_or_lost

if TYPE_CHECKING:
    from dashboard.services.jobs import Job, JobKind

STATES: Final[Mapping[str, str]] = {
    "queued": "◔ queued",
    "running": "▶ running",
    "done": "✓ done",
    "failed": "✗ failed",
    "stopped": "■ stopped",
}
"""Every state with a sign of its own."""

JOBS: Final = "jobs"
ALL: Final = "all"
"""Clusters of a job that names none."""
_PAGES: Final[Mapping[str, str]] = {"backtest": "backtest"}


def page_of(kind: str) -> str:
    """Return the page on which jobs of a kind are requested and shown."""
    return _PAGES.get(kind, JOBS)


_SUBJECTS: Final[Mapping[str, str]] = {
    "trends": "history",
    "flaps": "history",
    "pipeline": "history",
    "health": "fleet",
    "diagnose": "diagnose",
    "drill": "ownership",
    "shed": "rebalance",
    "simulate": "rebalance",
    "what_if": "rebalance",
    "place": "lookup",
    "topics": "lookup",
}


def subject_page_of(kind: str) -> str:
    """Return the page about what a job computed or made; empty: none."""
    return _SUBJECTS.get(kind, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """State of the job server.

    Attributes:
        is_alive: It was heard of a moment ago.
        sentence: One sentence for people.
        remedy: What to do; empty when it is alive.
    """

    is_alive: bool
    sentence: str
    remedy: str = ""


def server_state(
    status: Mapping[str, object], *, now: datetime, config_words: str = ""
) -> ServerState:
    """Return whether the job server lives, from the status that it keeps writing.

    Args:
        status: What it wrote last; empty: nothing.
        now: The moment, aware UTC.
        config_words: What names the configuration in the line that starts one.
    """
    remedy = f"trimtab jobs serve{config_words}"
    seen_at = moment(status.get("last_seen_at"))
    if seen_at is None:
        return ServerState(is_alive=False, sentence="No job server has run yet.", remedy=remedy)
    silent_s = (now - seen_at).total_seconds()
    if status.get("stopped_at") or abs(silent_s) > LOST_AFTER_S:
        how = "stopped" if status.get("stopped_at") else "last seen"
        sentence = f"Job server: {ended_or_lost(how, silent_s)}."
        return ServerState(is_alive=False, sentence=sentence, remedy=remedy)
    error = status.get("last_error")
    if isinstance(error, dict):
        return ServerState(is_alive=True, sentence=str(error.get("message", "")))
    return ServerState(is_alive=True, sentence=str(status.get("doing") or ""))


def moment(value: object) -> datetime | None:
    """Return a time of a file as aware UTC; ``None``: it is none."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def title_of(job: Job, kinds: Mapping[str, JobKind]) -> str:
    """Return the label of a job's kind."""
    kind = kinds.get(job.kind)
    return kind.title if kind else job.kind or "unreadable"


def progress_ratio(job: Job) -> float:
    """Return the progress of a job, 0..1."""
    status = job.status
    if job.state == "done":
        return 1.0
    return min(1.0, max(0.0, status.done / status.total)) if status.total else 0.0


def progress_words(job: Job, *, is_served: bool) -> str:
    """Return the progress of a job: counts, rate and remaining time."""
    status = job.status
    if job.is_stopping:
        return _stopping(job)
    if job.state == "queued":
        return status.activity or (
            "Waiting for earlier jobs." if is_served else "Waiting for a job server."
        )
    if job.state == "running" and not is_served:
        gone = "job server lost; the next server resolves the state"
        return " · ".join(part for part in (_counts(job), gone) if part)
    if is_on_spark(job) and not status.total:
        return f"{status.activity} Spark takes approx. 30 s to start."
    parts = [_counts(job), status.activity]
    if status.rate_per_s:
        parts.append(_rate(status.rate_per_s))
    if status.eta_s is not None:
        parts.append(f"approx. {format_age(status.eta_s)} left")
    return " · ".join(part for part in parts if part)


def is_on_spark(job: Job) -> bool:
    """Return whether a job requested Spark."""
    return job.request is not None and job.request.parameters.get("engine") == "spark"


def _stopping(job: Job) -> str:
    """Return the reason for a pending stop."""
    if not is_on_spark(job):
        return f"Stopping after the current part. {_counts(job)}".strip()
    if not job.status.total:
        return "Stopping after Spark has started (up to 1 min)."
    return f"Stopping after the current Spark tasks. {_counts(job)}"


def _counts(job: Job) -> str:
    status = job.status
    if status.total:
        return f"{status.done:,} of {status.total:,}"
    return f"{status.done:,} done" if status.done else ""


def _rate(per_s: float) -> str:
    return f"{per_s:,.3g}/s" if per_s >= 1 else f"{per_s * 60:,.3g}/min"


def outcome(job: Job) -> str:
    """Return the result or the progress of a job in one sentence."""
    if job.answer is not None:
        return job.answer.sentence
    if job.status.error is not None:
        return job.status.error["message"]
    return job.status.activity


def took_s(job: Job, now: datetime) -> float | None:
    """Return seconds since a job began, or that it took."""
    started = moment(job.status.started_at)
    if started is None:
        return None
    return max(0.0, ((moment(job.status.ended_at) or now) - started).total_seconds())


def key_figures(jobs: Sequence[Job], *, server: ServerState) -> list[KeyFigure]:
    """Return the number of jobs by state, and the state of the job server."""
    count = Counter(job.state for job in jobs)
    return [
        KeyFigure(
            label="Job server",
            value="alive" if server.is_alive else "not running",
            note="ready" if server.is_alive else "jobs are queued",
            status="ok" if server.is_alive else "bad",
            help=server.sentence,
        ),
        KeyFigure(label="Running", value=f"{count['running']:,}"),
        KeyFigure(label="Queued", value=f"{count['queued']:,}"),
        KeyFigure(label="Done", value=f"{count['done']:,}"),
        KeyFigure(
            label="Failed",
            value=f"{count['failed']:,}",
            note=f"{count['stopped']:,} stopped" if count["stopped"] else "",
            status="bad" if count["failed"] else "",
        ),
    ]


def clusters_of(job: Job) -> str:
    """Return the clusters that a job is about, in a few words."""
    parameters = job.request.parameters if job.request else {}
    nested = parameters.get("grid")
    held = parameters | nested if isinstance(nested, dict) else parameters
    names = held.get("clusters") or held.get("cluster") or []
    listed = [names] if isinstance(names, str) else [str(name) for name in names]
    return ", ".join(listed) or ALL


def subtitle(job: Job) -> str:
    """Return the clusters of a job, its requester and time, its state, and its name."""
    request = job.request
    asked = f"{request.requested_at[:16].replace('T', ' ')} UTC" if request else ""
    who = request.actor if request else ""
    return " · ".join(filter(None, (clusters_of(job), who, asked, STATES[job.state], job.id)))


def in_order(jobs: Sequence[Job]) -> tuple[list[Job], list[Job]]:
    """Return the running and queued jobs in the order of execution, and the ended ones.

    Args:
        jobs: Newest first.
    """
    active = [job for job in reversed(jobs) if not job.is_ended]
    active.sort(key=lambda job: job.state != "running")
    return active, [job for job in jobs if job.is_ended]


def jobs_frame(
    jobs: Sequence[Job], kinds: Mapping[str, JobKind], now: datetime, *, is_served: bool = True
) -> pd.DataFrame:
    """Return one row a job.

    Args:
        jobs: In the order of the rows.
        kinds: By name.
        now: Aware UTC.
        is_served: Whether a job server runs.
    """
    return pd.DataFrame(
        [
            {
                "job": job.id,
                "kind": title_of(job, kinds),
                "cluster": clusters_of(job),
                "state": STATES[job.state],
                "progress": progress_ratio(job) * 100,
                "outcome": outcome(job)
                if job.is_ended
                else progress_words(job, is_served=is_served),
                "who": job.request.actor if job.request else "",
                "asked_at": moment(job.request.requested_at) if job.request else None,
                "took_s": took_s(job, now),
                "open": "Open result" if job.answer is not None else None,
                "stop": None if job.is_ended or job.is_stopping else "Stop",
            }
            for job in jobs
        ],
        columns=[
            *("job", "kind", "cluster", "state", "progress", "outcome", "who", "asked_at"),
            *("took_s", "open", "stop"),
        ],
    )
