"""Facts of the fleet by day: each cluster against its own target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from history_rows import store_in
from tier_year import END, Year, write_year

from core.history.queries.fleet_facts import fleet_days, middle_of, minutes_above
from core.history.queries.load import LoadRequest, load_over
from core.history.store.layout import DAY_MS
from core.history.store.reading import TimeRange
from core.history.store.store import HistoryStore
from core.history.tiers.model import MAX_ERROR
from core.units import datetime_to_ms

END_MS = datetime_to_ms(END)
SPAN = TimeRange(END_MS - 10 * DAY_MS, END_MS - 1)
NAMES = ("calm", "wide")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> HistoryStore:
    path: Path = tmp_path_factory.mktemp("fleet")
    store = store_in(path)
    for name in NAMES:
        year = Year(cluster=name, days=10, days_of_hours=10, bundles=8, missing=frozenset({4}))
        write_year(store, year)
    return store


def test_a_day_that_was_not_recorded_has_no_row(store) -> None:
    rows = fleet_days(store, {"calm": 0.2, "wide": 0.5, "new": 0.2}, SPAN)
    days = [(END_MS - DAY_MS * number) for number in range(10, 0, -1) if number != 4]
    assert rows["cluster"].to_pylist() == ["calm"] * 9 + ["wide"] * 9
    assert rows["day"].to_pylist() == days * 2
    assert set(rows["minutes_seen"].to_pylist()) == {1440}


@pytest.mark.parametrize("target", [0.05, 0.2, 0.35, 0.5, 2.0])
def test_minutes_outside_are_counted_against_the_own_target(store, target) -> None:
    hours = load_over(
        store, LoadRequest(cluster="calm", kind="cluster", subject="", span=SPAN, source="hours")
    )
    at = hours.rows["taken_at"].to_numpy() // DAY_MS * DAY_MS
    deviation = hours.rows["deviation"].to_numpy()
    rows = fleet_days(store, {"calm": target, "wide": 9.0}, SPAN).to_pylist()
    for row in (one for one in rows if one["cluster"] == "calm"):
        of_day = deviation[at == row["day"]]
        least = int((of_day > target * (1 + MAX_ERROR)).sum()) * 60
        most = int((of_day > target * (1 - MAX_ERROR)).sum()) * 60
        assert least <= row["outside_minutes"] <= most
        assert row["target"] == target
    assert {one["outside_minutes"] for one in rows if one["cluster"] == "wide"} == {0}


def test_the_middle_of_a_bin_is_near_all_of_its_values() -> None:
    values = np.unique(np.geomspace(1, 1e9, 500).astype(np.int64))
    for value in values.tolist():
        exponent = max(value, 16).bit_length() - 1
        b = (exponent - 4) * 16 + (value >> (exponent - 4))
        assert middle_of(b) == pytest.approx(value, rel=MAX_ERROR, abs=1e-9)
    assert minutes_above(0.1, [3], [7]) == 0
