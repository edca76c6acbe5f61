"""Weekly profile: the median of each hour of the week, its spread and the weeks seen."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from core.history.queries.load import LoadRequest, LoadSeries
from core.history.queries.profile import profile_of
from core.history.store.reading import TimeRange
from core.units import datetime_to_ms

HOUR_MS = 3_600_000
MONDAY = datetime_to_ms(datetime(2026, 11, 2, tzinfo=UTC))


def series(values: dict[int, float | None], source: str = "hours") -> LoadSeries:
    """A series from the hour's number since a Monday."""
    rows = pa.table(
        {
            "taken_at": pa.array([MONDAY + hour * HOUR_MS for hour in values], pa.int64()),
            "msg_throughput": pa.array(list(values.values()), pa.float64()),
        }
    )
    request = LoadRequest(cluster="c", kind="cluster", subject="", span=TimeRange(0, 1))
    return LoadSeries(request, "pulsar", source, rows)


def test_an_hour_of_the_week_has_its_median_spread_and_weeks() -> None:
    first, week = 2 * 24 + 5, 168  # Wednesday, 05:00
    values = {first + week * number: value for number, value in enumerate([10.0, 14.0, 90.0])}
    found = profile_of(series(values), "msg_throughput")
    assert found.level.shape == found.spread.shape == found.weeks.shape == (7, 24)
    assert (found.level[2, 5], found.spread[2, 5], found.weeks[2, 5]) == (14.0, 4.0, 3)
    assert np.isfinite(found.level).sum() == 1
    assert found.weeks.sum() == 3


def test_an_hour_seen_once_has_no_spread_and_an_unknown_one_no_week() -> None:
    found = profile_of(series({0: 7.0, 1: None, 169: None, 6 * 24 + 23: 3.0}), "msg_throughput")
    assert (found.level[0, 0], found.weeks[0, 0]) == (7.0, 1)
    assert np.isnan(found.spread[0, 0])
    assert np.isnan(found.level[0, 1])
    assert found.weeks[0, 1] == 0
    assert found.level[6, 23] == 3.0  # the last hour of a Sunday


@pytest.mark.parametrize("source", ["minutes", "days"])
def test_a_profile_is_made_of_hours(source) -> None:
    with pytest.raises(ValueError, match=f"not of {source}"):
        profile_of(series({0: 1.0}, source), "msg_throughput")
