"""Partitions of the tiers: a day of hours, a month of days.

One object over a year is in 365 days; with a file each, to open the files takes longer than to
read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from core.history.store.layout import DAY_MS, FIRST_MONDAY_MS, HOUR_MS, WEEK_MS, day_of, quoted
from core.history.store.reading import TimeRange, files, where
from core.history.store.tables import Tables, booked
from core.history.tiers.registry import DAYS
from core.snapshot.record import DAY, TAKEN_AT, Kind


def partition_start(kind: Kind, start: int) -> int:
    """Return the start of the day, or of the month, that has a period.

    Args:
        kind: The tier.
        start: Of the period, ms.
    """
    if kind is not DAYS:
        return start // DAY_MS * DAY_MS
    month = datetime.fromtimestamp(start / 1000, tz=UTC).replace(day=1)
    return int(month.timestamp() * 1000) // DAY_MS * DAY_MS


def hour_of_week(start: int) -> int:
    """Return the hour of the first Monday's week that stands for the weekday and hour of a time."""
    return (start // HOUR_MS * HOUR_MS - FIRST_MONDAY_MS) % WEEK_MS + FIRST_MONDAY_MS


def partition_end(kind: Kind, start: int) -> int:
    """Return the end of a partition, ms, from its start."""
    if kind is not DAYS:
        return start + DAY_MS
    return partition_start(kind, start + 31 * DAY_MS)


def condition(kind: Kind, cluster: str, span: TimeRange, *more: str) -> str:
    """Return the condition on a cluster's rows of a tier in a time range.

    Before months were partitions, days were: the rows of both are found.
    """
    if span.start is None:
        return where(cluster, span, *more)
    wide = TimeRange(partition_start(kind, span.start), span.end)
    return where(cluster, wide, f"{TAKEN_AT} >= {span.start}", *more)


def condition_of_hours(cluster: str, hours: Sequence[int]) -> str:
    """Return the condition on the rows of some hours, which may be weeks apart."""
    days = ", ".join(quoted(one) for one in sorted({day_of(start) for start in hours}))
    starts = ", ".join(str(one) for one in hours)
    span = TimeRange(min(hours), max(hours))
    return where(cluster, span, f"{DAY} IN ({days})", f"{TAKEN_AT} IN ({starts})")


def tier_files(tiers: Tables, kind: Kind, cluster: str, span: TimeRange) -> list[str]:
    """Return the addresses of the files of a tier that may have rows of a time range."""
    if span.start is None:
        return files(tiers, kind, cluster, span)
    wide = TimeRange(partition_start(kind, span.start), span.end)
    return files(tiers, kind, cluster, wide, f"{TAKEN_AT} >= {span.start}")


def tier_booked(kind: Kind, cluster: str, rows: pa.Table) -> pa.Table:
    """Return rows of a tier as they are written."""
    stored = booked(kind, cluster, rows, segment=None)
    starts, places = np.unique(stored[TAKEN_AT].to_numpy(), return_inverse=True)
    names = pa.array([day_of(partition_start(kind, one)) for one in starts.tolist()], pa.string())
    place = stored.schema.get_field_index(DAY)
    return stored.set_column(place, stored.schema.field(place), names.take(pa.array(places)))
