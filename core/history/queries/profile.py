"""Weekly profile of an object: level and spread of its load by hour of the day and weekday."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.history.queries.load import LoadSeries
from core.history.store.layout import DAY_MS, HOUR_MS
from core.snapshot.record import TAKEN_AT

Floats = NDArray[np.float64]

MIN_WEEKS: Final = 2
"""Hours of the week that were seen less often have no spread."""


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
    place = (at // DAY_MS + 3) % 7 * 24 + at // HOUR_MS % 24  # 1970-01-01 was a Thursday
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
