"""Keeping a history in order: files merged, minutes rolled up, old days dropped; one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

import filelock

from connectors.config.model import TrimtabConfig
from connectors.config.storage import History, Pipeline
from core.errors import OpsError
from core.history.store.store import HistoryError, HistoryStore
from core.history.tiers import pipeline as tiers
from core.units import datetime_to_ms

LOCK_FILE: Final = "history-upkeep.lock"
_FIRST_S: Final = 300.0
_ENDS_WITHIN_S: Final = 2.0
_ANY_AGE: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """Result of an upkeep turn.

    Attributes:
        hours: Hours of single kinds whose files were put together.
        days: Days that were dropped.
        bytes: Size of the cluster's history afterwards.
        paused: Why nothing was put together and dropped; empty: it was.
        rolled_up: Hours that were made of minutes.
        not_rolled_up: Why some were not.
        tier_rows: Rows of the tiers that were written.
        due: Hours that are due afterwards.
        rolled_up_to: Start of the first hour that is not rolled up, ms; ``None``: not read.
    """

    hours: int
    days: tuple[str, ...]
    bytes: int
    paused: str = ""
    rolled_up: int = 0
    not_rolled_up: OpsError | None = None
    tier_rows: int = 0
    due: int = 0
    rolled_up_to: int | None = None


def keep_in_order(
    store: HistoryStore, cluster: str, limits: History, now: datetime, pipeline: Pipeline
) -> UpkeepResult:
    """Compact the history of a cluster, roll it up, and drop what is too old or too much.

    While minutes cannot be rolled up, none is dropped for its age. The limit of the size holds all
    the same: a full disk would lose the next ones.

    Args:
        store: The history.
        cluster: Its name.
        limits: Its retention.
        now: Now.
        pipeline: Whether minutes become hours and days first, and retention of those.
    Raises:
        HistoryError: It cannot be read or written; what was there before is still there.
    """
    max_age = timedelta(days=limits.max_age_days)
    jump = store.jump(cluster, now, max_age)
    hours = 0 if jump else store.compact(cluster, now).hours
    made, failure, due, up_to = tiers.PipelineResult(), None, 0, None
    if pipeline.is_enabled and not jump:
        now_ms = datetime_to_ms(now)
        try:
            if pipeline.engine != "spark":
                made = tiers.roll_up(store, cluster, now_ms)
            tiers.keep_in_order(store, cluster, now_ms, pipeline.hours_max_age_days)
        except OpsError as exc:
            failure = exc
        due, up_to = _progress(store, cluster, now_ms)
    oldest_ms = datetime_to_ms(now - max_age)
    if failure is not None or (up_to is not None and up_to < oldest_ms):
        max_age = _ANY_AGE
    days = [] if jump else store.retain(cluster, now, max_age, limits.max_bytes)
    held = sum(size.bytes for size in store.sizes(cluster).values())
    return UpkeepResult(
        hours=hours,
        days=tuple(days),
        bytes=held,
        paused=str(jump or ""),
        rolled_up=made.hours,
        not_rolled_up=failure,
        tier_rows=made.rows,
        due=due,
        rolled_up_to=up_to,
    )


def _progress(store: HistoryStore, cluster: str, now_ms: int) -> tuple[int, int | None]:
    """Return the hours that are due, and the start of the first hour that is not rolled up."""
    try:
        state = tiers.status(store, cluster, now_ms)
    except OpsError:  # the same as in the turn itself
        return 0, None
    return state.due, tiers.open_hour(now_ms) if state.due_from is None else state.due_from


def keep_in_order_alone(config: TrimtabConfig, store: HistoryStore, cluster: str) -> UpkeepResult:
    """Do the same, unless a collector of this state directory is at it.

    Raises:
        HistoryError: It is, or the history cannot be read or written.
    """
    folder = config.state_dir / "collectors"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / LOCK_FILE).acquire(timeout=_ENDS_WITHIN_S):
            now = datetime.now(UTC)
            return keep_in_order(store, cluster, config.history, now, config.pipeline)
    except filelock.Timeout as exc:
        raise HistoryError(
            f"A collector is maintaining the history of {config.state_dir}.",
            hint="Try again in a minute.",
        ) from exc
    except OSError as exc:
        raise HistoryError(f"{folder} cannot be written: {exc.strerror or exc}.") from exc


class Upkeep:
    """Puts one cluster's history in order every so often, in a thread of its own.

    Whoever else does it for a history of the same state directory is waited for: its turn is left
    out and comes a minute later.

    Args:
        open_history: Opens the history, again for every turn.
        limits: Interval and retention.
        folder: Where the lock file is.
        report: Called from the thread with the result of a turn.
        pipeline: Whether minutes become hours and days, and retention of those.
    """

    def __init__(
        self,
        open_history: Callable[[], HistoryStore],
        cluster: str,
        limits: History,
        folder: Path,
        report: Callable[[UpkeepResult | OpsError], None],
        pipeline: Pipeline,
    ) -> None:
        self._open_history = open_history
        self._cluster = cluster
        self._limits = limits
        self._lock = filelock.FileLock(folder / LOCK_FILE, thread_local=False)
        self._report = report
        self._pipeline = pipeline
        self._every_s = limits.compact_every_min * 60
        self._due = monotonic() + min(_FIRST_S, self._every_s)
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin a turn when one is due and none is under way."""
        if monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = monotonic() + self._every_s
        self._thread = threading.Thread(
            target=self._turn, name=f"history upkeep {self._cluster}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait for a turn under way; one that takes long is left alone, it does no harm."""
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN_S)

    def _turn(self) -> None:
        try:
            with self._lock.acquire(timeout=0):
                self._report(
                    keep_in_order(
                        self._open_history(),
                        self._cluster,
                        self._limits,
                        datetime.now(UTC),
                        self._pipeline,
                    )
                )
        except filelock.Timeout:
            self._due = monotonic() + min(60.0, self._every_s)
        except OSError:  # the state directory is not writable: the collector says so itself
            return
        except OpsError as exc:
            self._report(exc)
