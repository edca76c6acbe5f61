"""Weekly profile of an object: level and spread of its load by hour of the day and weekday."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.queries.load import LoadRequest, LoadSeries, load_over
from core.history.queries.tier_reader import TierReader
from core.history.store.layout import FIRST_MONDAY_MS, HOUR_MS, WEEK_MS
from core.history.store.reading import TimeRange
from core.history.store.retention import added_files
from core.history.tiers.model import PROFILE_WEEKS
from core.history.tiers.registry import HOURS, PROFILES, tier_tables
from core.history.tiers.sql import MIN_WEEKS
from core.snapshot.record import TAKEN_AT

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Profile:
    """Load by weekday (rows, Monday first) and hour of the day (UTC).

    Attributes:
        level: Shape ``(7, 24)``: median over the weeks; NaN if it was never seen.
        spread: Median absolute deviation from it; NaN below :data:`MIN_WEEKS`.
        weeks: Weeks in which the hour was seen.
    """

    level: Floats
    spread: Floats
    weeks: NDArray[np.int64]


def stored_profile(
    store: HistoryStore, cluster: str, kind: str, subject: str, measure: str
) -> Profile | None:
    """Return the profile of the newest weeks that the pipeline made; ``None`` if it has none.

    The arguments are those of :func:`weekly_profile`.

    Raises:
        HistoryError: The profiles cannot be read.
    """
    found = TierReader(store, cluster).ask(
        f"SELECT weekday, hour, {measure}_level AS level, {measure}_spread AS spread, "  # noqa: S608  # names of ours
        f"{measure}_weeks AS weeks FROM rows WHERE kind = $kind AND subject = $subject",
        PROFILES,
        TimeRange(),
        kind=kind,
        subject=subject,
    )
    if found is None or not found.num_rows:
        return None
    at = tuple(found[name].to_numpy() for name in ("weekday", "hour"))
    level, spread = np.full((7, 24), np.nan), np.full((7, 24), np.nan)
    weeks = np.zeros((7, 24), np.int64)
    for values, name in ((level, "level"), (spread, "spread"), (weeks, "weeks")):
        values[at] = found[name].to_numpy()
    return Profile(level, spread, weeks)


def weekly_profile(
    store: HistoryStore, cluster: str, kind: str, subject: str, end_ms: int, measure: str
) -> Profile | None:
    """Return the profile of an object: stored, or from its hours.

    The stored one is of the newest weeks: one that ends before them, and one that the pipeline did
    not make, is computed.

    Args:
        store: The history.
        cluster: Name of the cluster.
        kind: Kind of the object.
        subject: Its name in the tiers.
        end_ms: Where the weeks end.
        measure: One with percentiles.
    Returns:
        ``None`` if no hour of the object is known.
    Raises:
        HistoryError: The records cannot be read.
    """
    newest = pc.max(added_files(tier_tables(store), HOURS, cluster)["last"]).as_py()
    if newest is not None and end_ms >= newest:
        stored = stored_profile(store, cluster, kind, subject, measure)
        if stored is not None:
            return stored
    span = TimeRange(end_ms - PROFILE_WEEKS * WEEK_MS, end_ms)
    request = LoadRequest(cluster=cluster, kind=kind, subject=subject, span=span, source="hours")
    series = load_over(store, request)
    return profile_of(series, measure) if series.rows.num_rows else None


def profile_of(series: LoadSeries, measure: str) -> Profile:
    """Return the profile of a measure.

    Args:
        series: From hours.
        measure: One of its measures.
    """
    if series.source != "hours":
        raise ValueError(f"A profile is made of hours, not of {series.source}.")
    at = np.asarray(series.rows[TAKEN_AT].to_numpy(), np.int64)
    column = series.rows[measure].cast(pa.float64())
    values = np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    place = (at - FIRST_MONDAY_MS) % WEEK_MS // HOUR_MS
    level, spread = np.full(168, np.nan), np.full(168, np.nan)
    weeks = np.zeros(168, np.int64)
    for one in range(168):
        known = values[(place == one) & np.isfinite(values)]
        weeks[one] = known.size
        if known.size:
            level[one] = np.median(known)
        if known.size >= MIN_WEEKS:
            spread[one] = np.median(np.abs(known - level[one]))
    return Profile(level.reshape(7, 24), spread.reshape(7, 24), weeks.reshape(7, 24))
