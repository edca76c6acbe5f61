"""Robust slopes of many series at once: Theil-Sen, with Sen's interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_Z: Final = 1.96
"""Of an interval of 95%."""

_MOST_VALUES: Final = 4_000_000
"""Slopes of pairs that are held at once."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Trend of each series; all of shape ``(n,)``.

    Attributes:
        slope: Median of the slopes of all pairs, by unit of time; NaN for too few values.
        low: Lower end of its interval of 95%, for independent values.
        high: Upper end.
        level: Of the trend at the time asked for.
        size: Known values.
    """

    slope: Floats
    low: Floats
    high: Floats
    level: Floats
    size: NDArray[np.int64]


def slopes_of(times: Floats, values: Floats, at: float, min_size: int) -> Slopes:
    """Return the trend of each series.

    Args:
        times: Shape ``(w,)``, ascending.
        values: Shape ``(n, w)``; NaN is unknown.
        at: Time of the level.
        min_size: Series with fewer known values have no trend.
    """
    before, after = np.triu_indices(times.size, 1)
    size = np.isfinite(values).sum(axis=1)
    found = np.full((4, values.shape[0]), np.nan)
    step = max(1, _MOST_VALUES // max(before.size, 1))
    for start in range(0, values.shape[0] if before.size else 0, step):
        some = values[start : start + step]
        pairs = (some[:, after] - some[:, before]) / (times[after] - times[before])
        found[:3, start : start + step] = _ranked(pairs, size[start : start + step])
    found[:, size < min_size] = np.nan
    found[3] = medians(values - found[0][:, None] * (times - at))
    return Slopes(found[0], found[1], found[2], found[3], size)


def medians(values: Floats) -> Floats:
    """Return the median of the known values of each row; NaN if it has none."""
    if not values.shape[1]:
        return np.full(values.shape[0], np.nan)
    return _middle(np.sort(values, axis=1), np.isfinite(values).sum(axis=1))


def _middle(ordered: Floats, known: NDArray[np.int64]) -> Floats:
    """Return the median of each row of ascending values, of which the first are known."""
    rows = np.arange(ordered.shape[0])
    low, high = np.maximum(known - 1, 0) // 2, np.minimum(known // 2, ordered.shape[1] - 1)
    found: Floats = np.where(known > 0, (ordered[rows, low] + ordered[rows, high]) / 2, np.nan)
    return found


def _ranked(pairs: Floats, size: NDArray[np.int64]) -> Floats:
    """Return median and interval of the slopes of pairs, shape ``(3, n)``."""
    ordered = np.sort(pairs, axis=1)
    known = np.isfinite(pairs).sum(axis=1)
    spread = _Z * np.sqrt(size * (size - 1.0) * (2.0 * size + 5.0) / 18.0)
    last = np.maximum(known - 1, 0)
    low = np.clip(np.floor((known - spread) / 2).astype(np.int64) - 1, 0, last)
    high = np.clip(np.ceil((known + spread) / 2).astype(np.int64), 0, last)
    rows = np.arange(pairs.shape[0])
    return np.stack([_middle(ordered, known), ordered[rows, low], ordered[rows, high]])
