"""Does a worker carry out runs? From what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from core.units import format_ago
from dashboard.presenters.freshness import Badge

LOST_AFTER_S: Final = 10.0
"""A worker says that it lives every two seconds; silent for this long, it counts as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """State of the worker of a cluster.

    Attributes:
        is_alive: It was heard of a moment ago.
        sentence: One sentence for people.
        short: Two or three words.
        remedy: What to do; empty when it is alive.
    """

    is_alive: bool
    sentence: str
    short: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """The same with the word worker in it."""
        return self.short if self.short.startswith("no ") else f"worker {self.short}"


def worker_state(
    status: Mapping[str, object],
    *,
    cluster: str,
    now: datetime,
    config_words: str = "",
    is_supervised: bool = False,
) -> WorkerState:
    """Return whether the worker of ``cluster`` lives, from the status that it keeps writing.

    Args:
        status: What it wrote last.
        cluster: Trimtab's name of it.
        now: The moment, aware UTC.
        config_words: What names the configuration in the line that starts one.
        is_supervised: The command that serves the pages starts it again.
    """
    remedy = f"Start a worker: `trimtab worker {cluster}{config_words}`."
    if is_supervised:
        remedy = "It restarts automatically; see Fleet for the next start and the log."
    seen_at = _moment(status.get("last_seen_at"))
    name = str(status.get("worker") or "the worker")
    if seen_at is None:
        return WorkerState(
            is_alive=False,
            sentence=f"No worker has run for {cluster}.",
            short="no worker",
            remedy=remedy,
        )
    silent_s = (now - seen_at).total_seconds()
    if status.get("stopped_at"):
        return WorkerState(
            is_alive=False,
            sentence=f"Worker of {cluster} ({name}): {ended_or_lost('stopped', silent_s)}.",
            short="no worker",
            remedy=remedy,
        )
    if abs(silent_s) > LOST_AFTER_S:
        how = ended_or_lost("last seen", silent_s)
        return WorkerState(
            is_alive=False,
            sentence=f"Worker of {cluster} ({name}): {how}.",
            short=f"last seen {format_ago(silent_s)}" if silent_s > 0 else format_ago(silent_s),
            remedy=remedy,
        )
    doing = str(status.get("doing") or "")
    return WorkerState(
        is_alive=True, sentence=f"The worker {name} is alive. {doing}".strip(), short="alive"
    )


def ended_or_lost(how: str, silent_s: float) -> str:
    """Return ``stopped 3 min ago``, or which clock is ahead for a report from the future."""
    if silent_s > -1:
        return f"{how} {format_ago(silent_s)}"
    return f"reported with its {format_ago(silent_s)}"


def worker_badge(worker: WorkerState) -> Badge:
    """Return the worker as a badge; the header shows it where actions are allowed."""
    if worker.is_alive:
        return Badge(
            text="worker", icon=":material/engineering:", tone="gray", help=worker.sentence
        )
    return Badge(
        text=worker.words,
        icon=":material/engineering:",
        tone="orange",
        help=f"{worker.sentence} Apply is disabled. {worker.remedy}",
    )


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
