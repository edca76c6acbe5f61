"""Weekly profile: the median of each hour of the week, its spread and the weeks seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from history_rows import store_in
from tier_year import END, Year, write_year

from core.history.queries.load import LoadRequest, LoadSeries, load_over
from core.history.queries.profile import Profile, profile_of, stored_profile, weekly_profile
from core.history.store.reading import TimeRange
from core.history.store.retention import added_files
from core.history.tiers import pipeline
from core.history.tiers.partitions import condition, tier_booked
from core.history.tiers.registry import HOURS, PROFILES, tier_tables
from core.units import datetime_to_ms

HOUR_MS = 3_600_000
END_MS = datetime_to_ms(END)  # a Monday
DAYS_OUT = set(range(3, 15)) - {8}
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


def same(one: Profile, other: Profile) -> bool:
    pairs = zip(*((it.level, it.spread, it.weeks) for it in (one, other)), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


@pytest.fixture(scope="module")
def recorded_weeks(tmp_path_factory):
    """Hours of three Sundays and a Saturday, and their profiles."""
    store = store_in(tmp_path_factory.mktemp("weeks"))
    year = Year(
        brokers=2, bundles=4, namespaces=2, days=15, days_of_hours=15, missing=frozenset(DAYS_OUT)
    )
    write_year(store, year)
    pipeline.roll_up(store, year.cluster, END_MS + HOUR_MS)
    return store, year


def test_a_profile_of_the_past_knows_nothing_of_later_weeks(recorded_weeks) -> None:
    store, year = recorded_weeks
    end = END_MS - 7 * 24 * HOUR_MS
    found = weekly_profile(store, year.cluster, "cluster", "", end, "msg_throughput")
    newest = weekly_profile(store, year.cluster, "cluster", "", END_MS, "msg_throughput")
    assert same(newest, stored_profile(store, year.cluster, "cluster", "", "msg_throughput"))
    assert found.weeks.max() == newest.weeks.max() - 1


@pytest.mark.parametrize("kind", ["bundle", "broker", "cluster"])
def test_the_pipeline_makes_the_profiles_of_the_hours(recorded_weeks, kind) -> None:
    store, year = recorded_weeks
    subject = {"bundle": year.bundle(3), "broker": year.broker(1), "cluster": ""}[kind]
    span = TimeRange(END_MS - 15 * 24 * HOUR_MS, END_MS - 1)
    request = LoadRequest(
        cluster=year.cluster, kind=kind, subject=subject, span=span, source="hours"
    )
    computed = profile_of(load_over(store, request), "msg_throughput")
    stored = stored_profile(store, year.cluster, kind, subject, "msg_throughput")
    assert same(stored, computed)
    assert (stored.weeks[6, 0], stored.weeks[5, 0]) == (3, 1)
    assert stored_profile(store, year.cluster, "bundle", "unknown", "msg_throughput") is None


def test_an_hour_makes_only_the_profile_of_its_hour_of_the_week_again(recorded_weeks) -> None:
    store, year = recorded_weeks
    assert pipeline.roll_up(store, year.cluster, END_MS + HOUR_MS).rows == 0
    tiers = tier_tables(store)
    rows = pipeline.tier_rows(tiers, HOURS, year.cluster, [END_MS - HOUR_MS])
    hotter = rows["msg_throughput_mean"]
    place = rows.schema.get_field_index("msg_throughput_mean")
    rows = rows.set_column(place, rows.schema.field(place), pc.multiply(hotter, 3.0))
    at = rows.schema.get_field_index("revision")
    rows = rows.set_column(at, rows.schema.field(at), pc.add(rows["revision"], 1))
    before = stored_profile(store, year.cluster, "cluster", "", "msg_throughput")
    whole = condition(HOURS, year.cluster, TimeRange(END_MS - HOUR_MS, END_MS - HOUR_MS))
    tiers.replace(HOURS, tier_booked(HOURS, year.cluster, rows), whole, tiers.fresh(HOURS))
    pipeline.roll_up(store, year.cluster, END_MS + HOUR_MS)
    after = stored_profile(store, year.cluster, "cluster", "", "msg_throughput")
    assert np.argwhere(np.nan_to_num(before.spread - after.spread)).tolist() == [[6, 23]]
    files = added_files(tiers, PROFILES, year.cluster).num_rows
    pipeline.keep_in_order(store, year.cluster, END_MS + HOUR_MS, 400.0)
    merged = added_files(tiers, PROFILES, year.cluster).num_rows
    assert merged == 2 <= files  # a Saturday and a Sunday
    assert same(stored_profile(store, year.cluster, "cluster", "", "msg_throughput"), after)
    assert weekly_profile(store, year.cluster, "cluster", "", END_MS, "msg_throughput")


def test_weeks_that_are_too_old_are_in_no_profile(tmp_path) -> None:
    store = store_in(tmp_path)
    year = Year(brokers=1, bundles=1, namespaces=1, days=64, days_of_hours=64)
    missing = frozenset(range(2, 64))  # the first day and the last one, nine weeks later
    write_year(store, replace(year, missing=missing))
    pipeline.roll_up(store, year.cluster, END_MS - 23 * HOUR_MS)
    found = stored_profile(store, year.cluster, "cluster", "", "msg_throughput")
    assert set(found.weeks[6].tolist()) == {1}
    assert found.weeks.sum() == 24
