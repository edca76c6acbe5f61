"""Growth: robust slopes of what grows, and the dates at which the cluster is full."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from history_rows import CLUSTER as RECORDED
from history_rows import recorded, store_in
from pegasus_minutes import pegasus_minutes
from tier_year import CLUSTER, END, Year, write_year

from core.history.queries.growth import Growth, growth
from core.history.queries.growth_context import growth_context
from core.history.queries.slopes import medians, slopes_of
from core.history.store.layout import DAY_MS, HistoryError
from core.history.store.reading import TimeRange
from core.history.store.store import HistoryStore
from core.history.tiers.local import tier_columns
from core.history.tiers.model import GrowthContext
from core.history.tiers.partitions import tier_booked
from core.history.tiers.registry import DAYS, tier_tables
from core.units import datetime_to_ms

END_MS = datetime_to_ms(END)
TARGET = 0.2
LIMIT_KEY = "loadBalancerBrokerOverloadedThresholdPercentage"


def last(days: int, until: int = 0) -> TimeRange:
    end = END_MS - until * DAY_MS
    return TimeRange(end - days * DAY_MS, end - 1)


def asked(
    store: HistoryStore, days: int = 84, context: GrowthContext | None = None, until: int = 0
) -> Growth:
    return growth(store, CLUSTER, last(days, until), context or GrowthContext(), TARGET)


def owned(year: Year, brokers: int) -> pa.Table:
    numbers = range(year.bundles)
    return pa.table(
        {
            "subject": [year.bundle(one) for one in numbers],
            "server": [year.broker(one % brokers) for one in numbers],
        }
    )


@pytest.fixture(scope="module")
def grown() -> Year:
    return Year(days=90, days_of_hours=0, bundles=24, growth={3: 0.01, 8: 0.02}, noise=0.01)


@pytest.fixture(scope="module")
def store(grown, tmp_path_factory) -> HistoryStore:
    found = store_in(tmp_path_factory.mktemp("growth"))
    write_year(found, grown)
    return found


def row_of(found: Growth, kind: str, subject: str) -> dict:
    rows = [
        one for one in found.rows.to_pylist() if (one["kind"], one["subject"]) == (kind, subject)
    ]
    assert len(rows) == 1
    return rows[0]


# -- slopes ----------------------------------------------------------------------------------------


def test_a_line_has_its_slope_whatever_some_weeks_are() -> None:
    times = np.arange(12) - 11.5
    line = 5.0 + 2.0 * times
    spoiled = np.where(np.isin(np.arange(12), [4, 9]), 400.0, line)
    holes = np.where(np.arange(12) % 4 == 1, np.nan, line)
    found = slopes_of(times, np.stack([line, spoiled, holes]), 0.0, 6)
    assert found.slope.tolist() == pytest.approx([2.0, 2.0, 2.0])
    assert found.level.tolist() == pytest.approx([5.0, 5.0, 5.0])
    assert found.size.tolist() == [12, 12, 9]
    assert (found.low <= found.slope).all()
    assert (found.slope <= found.high).all()


def test_a_series_has_the_slope_that_it_has_alone() -> None:
    rng = np.random.default_rng(5)
    times = np.array([-9.5, -7.5, -6.5, -5.5, -4.5, -3.5, -1.5, -0.5])
    values = rng.normal(size=(50, 8))
    values[rng.random((50, 8)) < 0.1] = np.nan
    together = slopes_of(times, values, 0.0, 6)
    for row in range(50):
        known = np.isfinite(values[row])
        y, t = values[row][known], times[known]
        pairs = [(y[b] - y[a]) / (t[b] - t[a]) for a in range(y.size) for b in range(a + 1, y.size)]
        expected = np.median(pairs) if y.size >= 6 else np.nan
        assert together.slope[row] == pytest.approx(expected, nan_ok=True)


def test_intervals_contain_the_true_slope_about_as_often_as_stated() -> None:
    rng = np.random.default_rng(1)
    times = np.arange(26) - 25.5
    values = 3.0 + 0.5 * times + rng.normal(size=(2_000, 26))
    found = slopes_of(times, values, 0.0, 6)
    share = ((found.low <= 0.5) & (found.high >= 0.5)).mean()
    assert 0.93 < share < 0.98


def test_medians_skip_the_unknown() -> None:
    values = np.array([[1.0, np.nan, 3.0, 9.0], [np.nan] * 4, [2.0, 4.0, np.nan, np.nan]])
    assert medians(values).tolist() == pytest.approx([3.0, np.nan, 3.0], nan_ok=True)
    assert np.isnan(medians(np.empty((2, 0)))).all()


# -- what grows ------------------------------------------------------------------------------------


def test_the_bundles_that_grow_are_found_with_their_slope(store, grown) -> None:
    found = asked(store)
    names = found.growing("bundle", 10)["subject"].to_pylist()
    assert sorted(names) == sorted(grown.bundle(one) for one in (3, 8))
    for number, a_day in grown.growth.items():
        row = row_of(found, "bundle", grown.bundle(number))
        now = 1 + a_day * 89.5
        assert row["ratio_per_month"] == pytest.approx(30 * a_day / now, rel=0.05)
        assert row["per_month_low"] <= row["per_month"] <= row["per_month_high"]
        assert row["weeks"] == 12
    by_kind = {one.kind: one for one in found.counts}
    assert list(by_kind) == ["tenant", "namespace", "bundle"]
    bundles = by_kind["bundle"]
    assert (bundles.growing, bundles.shrinking, bundles.steady, bundles.too_short) == (2, 0, 22, 0)
    tenants = {grown.bundle(one).partition("/")[0] for one in (3, 8)}
    assert tenants >= set(found.growing("tenant", 10)["subject"].to_pylist()) != set()


def test_the_largest_slopes_are_first(store) -> None:
    slopes = asked(store).rows["per_month"].to_pylist()
    assert slopes == sorted(slopes, reverse=True)


def test_weeks_end_with_the_last_whole_day_and_count_with_five_days(tmp_path) -> None:
    store = store_in(tmp_path)
    gaps = frozenset({8, 9, 10, 15, 16})
    write_year(store, Year(days=60, days_of_hours=0, bundles=6, missing=gaps))
    whole = growth(
        store,
        CLUSTER,
        TimeRange(END_MS - 60 * DAY_MS + 5, END_MS + 3 * 3_600_000),
        GrowthContext(),
        TARGET,
    )
    assert whole.span == last(8 * 7)
    assert whole.weeks == 7  # the second last has four days, the third last five
    assert whole.weeks_missing == 0


def test_too_few_weeks_are_counted_and_nothing_is_said(store, grown) -> None:
    context = GrowthContext(owned(grown, 4), 0.85, LIMIT_KEY)
    found = asked(store, 34, context)
    assert (found.weeks, found.weeks_missing) == (4, 2)
    assert found.rows.num_rows == 0
    assert [one.too_short for one in found.counts] == [2, 6, 24]
    for one in (found.full, found.outside):
        assert one.state == "unknown"
        assert "2 are missing" in one.reason
        assert one.at_ms is None
    with pytest.raises(HistoryError, match="rolled up"):
        growth(store, CLUSTER, TimeRange(0, 50 * DAY_MS), GrowthContext(), TARGET)


def test_a_young_bundle_has_no_trend(tmp_path) -> None:
    store = store_in(tmp_path)
    write_year(store, Year(days=60, days_of_hours=0, bundles=4, namespaces=2))
    # the same cluster with two more bundles, from three weeks on
    write_year(store, Year(days=20, days_of_hours=0, bundles=6, namespaces=2))
    assert asked(store, 56).counts[-1].too_short == 2


# -- when it is full -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filling(tmp_path_factory) -> tuple[HistoryStore, Year]:
    every = dict.fromkeys(range(400), 0.01)
    year = Year(days=84, days_of_hours=0, bundles=400, growth=every, noise=0.01)
    store = store_in(tmp_path_factory.mktemp("filling"))
    write_year(store, year)
    return store, year


def test_the_date_at_which_the_cluster_is_full(filling) -> None:
    store, _ = filling
    now = asked(store, context=GrowthContext(None, 9.0, LIMIT_KEY)).full.now
    a_day = now * 0.01 / (1 + 0.01 * 83.5)
    limit = now + 100 * a_day
    found = asked(store, context=GrowthContext(None, limit, LIMIT_KEY)).full
    assert (found.state, found.limit, found.limit_key) == ("date", limit, LIMIT_KEY)
    assert found.at_ms == pytest.approx(END_MS + 100 * DAY_MS, abs=3 * DAY_MS)
    assert found.earliest_ms <= found.at_ms <= found.latest_ms
    assert found.per_month == pytest.approx(30 * a_day, rel=0.03)


def test_a_limit_that_is_reached_far_or_not_approached_has_no_date(filling, store) -> None:
    growing, _ = filling
    now = asked(growing, context=GrowthContext(None, 9.0, LIMIT_KEY)).full.now
    states = {
        limit: asked(growing, context=GrowthContext(None, limit, LIMIT_KEY)).full.state
        for limit in (0.9 * now, 9.0 * now, 9.0)
    }
    assert list(states.values()) == ["reached", "beyond", "beyond"]
    assert asked(growing).full.state == "unknown"
    assert "settings" in asked(growing).full.reason


def test_a_cluster_that_shrinks_is_never_full(tmp_path) -> None:
    store = store_in(tmp_path)
    every = dict.fromkeys(range(24), -0.004)
    write_year(store, Year(days=84, days_of_hours=0, bundles=24, growth=every, noise=0.01))
    found = asked(store, context=GrowthContext(None, 0.85, LIMIT_KEY)).full
    assert (found.state, found.at_ms, found.earliest_ms) == ("steady", None, None)
    assert found.per_month < 0


@pytest.fixture(scope="module")
def halves(tmp_path_factory) -> tuple[HistoryStore, pa.Table, int]:
    """What grows is on server ``a``; and the days until it is outside."""
    grows = dict.fromkeys(range(0, 400, 2), 0.004)
    year = Year(days=84, days_of_hours=0, bundles=400, namespaces=4, growth=grows, noise=0.01)
    store = store_in(tmp_path_factory.mktemp("halves"))
    write_year(store, year)
    rows = {one["subject"]: one for one in asked(store).rows.to_pylist()}
    loads = [rows[year.bundle(one)]["now"] for one in range(400)]
    owners = {year.bundle(one): "a" for one in range(0, 200, 2)}
    load = sum(loads[0:200:2])
    slope = load * 0.004 / (1 + 0.004 * 83.5)
    other = 0.0
    for number in range(1, 400, 2):
        if other < load:
            owners[year.bundle(number)] = "b"
            other += loads[number]
    days = next(
        day for day in range(2_000) if (load + slope * day) / (load + slope * day + other) >= 0.6
    )
    table = pa.table({"subject": list(owners), "server": list(owners.values())})
    return store, table, days


def test_the_first_server_leaves_the_band_with_the_bundles_that_it_has_now(halves) -> None:
    store, owners, days = halves
    found = asked(store, context=GrowthContext(owners)).outside
    assert (found.state, found.limit_key) == ("date", "")
    assert found.at_ms == pytest.approx(END_MS + days * DAY_MS, abs=0.05 * days * DAY_MS)
    assert found.earliest_ms < found.at_ms < found.latest_ms
    # two servers leave it at the same time, one on each side
    assert (found.subject, found.limit) in {("a", TARGET), ("b", -TARGET)}


def test_a_server_outside_the_band_is_named(halves) -> None:
    store, owners, _ = halves
    rows = owners.to_pylist()
    moved = [{**one, "server": "a"} if number % 4 else one for number, one in enumerate(rows)]
    found = asked(store, context=GrowthContext(pa.Table.from_pylist(moved))).outside
    assert (found.state, found.at_ms) == ("reached", None)
    assert abs(found.now) > TARGET


def test_objects_without_a_trend_count_as_steady(halves) -> None:
    store, owners, _ = halves
    new = pa.table({"subject": ["t/n/0x1_0x2"], "server": ["b"]})
    found = asked(store, context=GrowthContext(pa.concat_tables([owners, new])))
    assert found.not_rated == 1
    assert found.outside.at_ms == asked(store, context=GrowthContext(owners)).outside.at_ms


def test_without_owners_or_a_second_server_the_band_is_unknown(halves) -> None:
    store, owners, _ = halves
    assert asked(store).outside.state == "unknown"
    alone = owners.filter(pa.compute.equal(owners["server"], "a"))
    found = asked(store, context=GrowthContext(alone)).outside
    assert found.state == "unknown"
    assert found.reason == "Fewer than two brokers have bundles with days."


# -- limit and owners ------------------------------------------------------------------------------


def test_the_limit_is_the_setting_of_the_cluster() -> None:
    found = growth_context(make_snapshot(brokers=3, bundles=12))
    assert (found.limit_ratio, found.limit_key) == (0.85, LIMIT_KEY)
    snapshot = make_snapshot(brokers=3, bundles=12)
    expected = {one["bundle"]: one["owner"] for one in snapshot.bundles.to_pylist() if one["owner"]}
    rows = found.owners.to_pylist()
    assert {one["subject"]: one["server"] for one in rows} == expected
    assert growth_context(None).owners is None


def test_tables_of_pegasus_have_their_names(tmp_path) -> None:
    store = store_in(tmp_path)
    snapshot = pegasus_minutes(7, 1)[0]
    recorded(store, [snapshot])
    table = snapshot.tables["tables"].to_pylist()[0]
    whole = {"minutes_seen": 1440, "minutes_missing": 0}
    days = []
    for day in range(56):
        at = {"taken_at": END_MS - (56 - day) * DAY_MS, **whole}
        days.append({**at, "kind": "cluster", "subject": "", "system": "pegasus"})
        load = {"request_rate_mean": 100.0 + day, "request_rate_minutes": 1440}
        for kind, name in (("table", str(table["app_id"])), ("partition", f"{table['app_id']}.2")):
            days.append({**at, "kind": kind, "subject": name, **load})
    rows = pa.Table.from_pylist(days, schema=tier_columns(DAYS))
    tier_tables(store).append(DAYS, tier_booked(DAYS, RECORDED, rows))
    span = TimeRange(END_MS - 56 * DAY_MS, END_MS - 1)
    found = growth(store, RECORDED, span, GrowthContext(), 0.2)
    assert found.rows["subject"].to_pylist() == sorted([table["name"], f"{table['name']}.2"])


def test_partitions_of_pegasus_have_primaries_and_no_limit() -> None:
    snapshot = pegasus_minutes(7, 1)[0]
    found = growth_context(snapshot)
    assert found.limit_ratio is None
    first = snapshot.tables["partitions"].to_pylist()[0]
    name = f"{first['app_id']}.{first['index']}"
    assert {"subject": name, "server": first["primary"]} in found.owners.to_pylist()
