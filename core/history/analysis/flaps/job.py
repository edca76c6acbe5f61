"""Flaps of recorded clusters, one after the other in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.history.analysis.flaps.flaps import EVENT_COLUMNS, FlapAnswer, flap_answer, flaps_of
from core.history.analysis.requests import FlapsRequest, RecordScope
from core.history.analysis.trends.job import chosen_clusters
from core.history.analysis.trends.registry import TRENDS_OF
from core.history.analysis.trends.trends import NO_MINUTES
from core.progress import Progress

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore


def flaps_here(
    store: HistoryStore, request: FlapsRequest, scope: RecordScope, progress: Progress
) -> FlapAnswer:
    """Return the flaps of recorded clusters.

    Raises:
        UnknownNameError: A cluster that was not recorded.
        HistoryError: Nothing is recorded, or it cannot be read.
        JobStoppedError: A stop was requested.
    """
    names = chosen_clusters(store, scope.clusters)
    parts = []
    for done, name in enumerate(names):
        progress.step(done, len(names), f"flaps of {name}")
        span = (name, scope.start, scope.end)
        events = store.rows("events", *span, columns=EVENT_COLUMNS)
        minutes = NO_MINUTES
        for system in TRENDS_OF.values():
            rows = store.rows(system.minute_rows, *span, columns=system.minute_columns)
            minutes = system.minutes(rows) if rows.num_rows else minutes
        parts.append((name, flaps_of(events, minutes, request, scope.minute_s)))
    progress.step(len(names), len(names), "flaps")
    return flap_answer(parts)
