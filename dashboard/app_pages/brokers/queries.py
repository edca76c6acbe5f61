"""The metrics of saved snapshots: small files, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from core.errors import SnapshotError
from core.schemas.pulsar import BROKER_METRICS
from core.snapshot.store import CachedSnapshot, read_table
from dashboard.presenters.metrics import counters_sentence
from dashboard.queries.cache import cached
from dashboard.queries.snapshots import moves_seen, span_minutes

_MAX_TABLES = 64


def _read(shelved: CachedSnapshot) -> pa.Table | None:
    try:
        table = read_table(shelved.path, "broker_metrics")
        return table.cast(BROKER_METRICS)
    except (SnapshotError, pa.ArrowException, ValueError, KeyError):
        return None  # from before there were metrics, or dropped meanwhile


broker_metrics_of = cached(_read, max_entries=_MAX_TABLES)
"""``broker_metrics`` of a saved snapshot; ``None`` where it has none."""


def counted_and_seen(entries: Sequence[CachedSnapshot], shown: pa.Table, end: datetime) -> str:
    """Return what the leader counted next to what the saved snapshots show.

    Args:
        entries: Saved snapshots of the stretch of time, oldest first.
        shown: ``broker_metrics`` of the shown one.
        end: When that was taken.
    """
    window = [entry for entry in entries if entry.taken_at <= end]
    if len(window) < 2:
        return ""
    before = broker_metrics_of(window[0])
    return counters_sentence(before, shown, len(moves_seen(window)), span_minutes(window))
