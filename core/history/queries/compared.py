"""Load of an object next to the same time some weeks before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.history.queries.load import LoadRequest, LoadSeries, load_over
from core.history.store.layout import DAY_MS, HistoryError
from core.history.store.reading import TimeRange
from core.snapshot.record import TAKEN_AT

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Shift = Literal["week", "month", "quarter"]

SHIFT_DAYS: Final[dict[Shift, int]] = {"week": 7, "month": 28, "quarter": 91}
"""Whole weeks, so that a Monday is compared with a Monday."""


@dataclass(frozen=True, slots=True)
class MeasureChange:
    """Change of one measure.

    Attributes:
        measure: Its name.
        now: Mean over the compared periods; ``None`` if it is unknown in all of them.
        before: The same, earlier.
        now_max: Highest value.
        before_max: The same, earlier.
    """

    measure: str
    now: float | None
    before: float | None
    now_max: float | None
    before_max: float | None

    @property
    def change_ratio(self) -> float | None:
        """Change, share of the earlier mean; ``None`` if one is unknown or the earlier is 0."""
        if self.now is None or not self.before:
            return None
        return self.now / self.before - 1


@dataclass(frozen=True, eq=False)
class LoadComparison:
    """Load of an object, and the same time earlier.

    Attributes:
        shift: ``week``, ``month`` (28 days) or ``quarter`` (91 days).
        now: The load.
        before: The earlier load; ``None`` if none was recorded.
        periods: Periods of ``now`` with load.
        compared: Those of which the same time earlier has load, too: only they are compared.
        changes: Of each measure.
    """

    shift: Shift
    now: LoadSeries
    before: LoadSeries | None
    periods: int
    compared: int
    changes: tuple[MeasureChange, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison without the rows, as JSON."""
        return {
            "shift": self.shift,
            "days": SHIFT_DAYS[self.shift],
            "periods": self.periods,
            "compared": self.compared,
            "changes": [
                {
                    "measure": one.measure,
                    "now": one.now,
                    "before": one.before,
                    "change_ratio": one.change_ratio,
                    "now_max": one.now_max,
                    "before_max": one.before_max,
                }
                for one in self.changes
            ],
        }


def compare(store: HistoryStore, request: LoadRequest, shift: Shift) -> LoadComparison:
    """Return the load of an object next to the same time earlier.

    Both come from the same tier: the coarser one that is needed for either.

    Raises:
        UnknownNameError: The system of the cluster has no such kind of object.
        HistoryError: Nothing was recorded in the range itself, or it cannot be read.
    """
    now = load_over(store, request)
    away = SHIFT_DAYS[shift] * DAY_MS
    start, end = request.span.start or 0, request.span.end or 0
    earlier = replace(request, span=TimeRange(start - away, end - away))
    before: LoadSeries | None
    try:
        before = load_over(store, replace(earlier, source=request.source or now.source))
        if not before.rows.num_rows:
            before = load_over(store, earlier)
    except HistoryError:
        before = None
    if before is not None and before.source != now.source:
        now = load_over(store, replace(request, source=before.source))
    return _compared(now, before, shift, away)


def _compared(
    now: LoadSeries, before: LoadSeries | None, shift: Shift, away: int
) -> LoadComparison:
    if before is None or not before.rows.num_rows:
        alone = [(one.name, *_values(now.rows, one.name)) for one in now.measures]
        changes = [MeasureChange(name, mean, None, top, None) for name, mean, top in alone]
        return LoadComparison(shift, now, None, now.rows.num_rows, 0, tuple(changes))
    times = np.asarray(now.rows[TAKEN_AT].to_numpy(), np.int64) - away
    earlier = np.asarray(before.rows[TAKEN_AT].to_numpy(), np.int64)
    same, at, at_earlier = np.intersect1d(times, earlier, return_indices=True)
    rows, rows_earlier = now.rows.take(at), before.rows.take(at_earlier)
    changes = []
    for one in now.measures:
        mean, top = _values(rows, one.name)
        mean_earlier, top_earlier = _values(rows_earlier, one.name)
        changes.append(MeasureChange(one.name, mean, mean_earlier, top, top_earlier))
    return LoadComparison(shift, now, before, times.size, same.size, tuple(changes))


def _values(rows: pa.Table, measure: str) -> tuple[float | None, float | None]:
    """Return mean, by minutes seen, and maximum of a measure; ``None`` if it is unknown."""
    mean, top = (_floats(rows, name) for name in (measure, f"{measure}_max"))
    known = np.isfinite(mean)
    weights = _floats(rows, "minutes_seen")
    if not known.any() or not weights[known].sum():
        return None, None
    return float(np.average(mean[known], weights=weights[known])), float(np.nanmax(top))


def _floats(rows: pa.Table, name: str) -> NDArray[np.float64]:
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
