"""Load of one object over time: the coarsest records that answer, the numbers of the minutes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pulsar_minutes
from pegasus_minutes import pegasus_minutes
from tier_rows import plain_hours
from tier_year import CLUSTER as PROD
from tier_year import END, Year, write_year

from core.errors import UnknownNameError
from core.history.queries.compared import compare
from core.history.queries.load import (
    LoadRequest,
    load_over,
    source_for,
    subject_id,
    subject_names,
)
from core.history.store.layout import DAY_MS, HOUR_MS, HistoryError
from core.history.store.reading import TimeRange
from core.history.store.store import HistoryStore
from core.history.tiers import pipeline
from core.units import datetime_to_ms

SNAPSHOTS = pulsar_minutes(6, 12)
FIRST, LAST = (SNAPSHOTS[row].manifest.taken_at for row in (0, -1))
WHOLE = TimeRange(datetime_to_ms(FIRST), datetime_to_ms(LAST))
END_MS = datetime_to_ms(END)
SMALL = Year(days=100, days_of_hours=40, bundles=12)


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    store = store_in(tmp_path)
    recorded(store, SNAPSHOTS)
    return store


@pytest.fixture(scope="module")
def year(tmp_path_factory) -> HistoryStore:
    store = store_in(tmp_path_factory.mktemp("year"))
    write_year(store, SMALL)
    return store


def asked(store: HistoryStore, kind: str, subject: str, span: TimeRange = WHOLE, **more):
    cluster = more.pop("cluster", CLUSTER)
    request = LoadRequest(cluster=cluster, kind=kind, subject=subject, span=span, **more)
    return load_over(store, request)


def last(days: float, until: int = 0) -> TimeRange:
    end = END_MS - until * DAY_MS
    return TimeRange(int(end - days * DAY_MS), end - 1)


def roll_up(store: HistoryStore) -> None:
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(LAST + timedelta(hours=2)))


def objects() -> list[tuple[str, str]]:
    """One of each kind: the last one, which came while others were there."""
    return sorted({kind: (kind, name) for _, kind, name in sorted(plain_hours(SNAPSHOTS))}.values())


def test_minutes_have_the_load_of_the_snapshots(store) -> None:
    expected: dict[tuple[str, str], list[int | None]] = {}
    for (_, kind, name), flows in sorted(plain_hours(SNAPSHOTS).items()):
        expected.setdefault((kind, name), []).extend(flows)
    for kind, name in objects():
        found = asked(store, kind, name)
        assert found.source == "minutes"
        flows = [None if one is None else one / 1000 for one in expected[kind, name]]
        assert found.rows["msg_throughput"].to_pylist() == flows, (kind, name)


@pytest.mark.parametrize("source", ["hours", "days"])
def test_a_period_computed_from_minutes_is_the_one_that_the_pipeline_makes(store, source) -> None:
    before = {one: asked(store, *one, source=source, is_whole=True) for one in objects()}
    roll_up(store)
    for one, computed in before.items():
        after = asked(store, *one, source=source, is_whole=True)
        assert computed.from_finer
        assert not after.from_finer
        assert after.describe_source() == f"from {source}"
        assert computed.rows.equals(after.rows), one


def test_a_late_minute_is_in_the_answer_before_it_is_rolled_up(tmp_path) -> None:
    store = store_in(tmp_path)
    recorded(store, SNAPSHOTS[:-1])
    roll_up(store)
    recorded(store, SNAPSHOTS[-1:])
    late = {one: asked(store, *one, source="days") for one in objects()}
    assert {one.from_finer for one in late.values()} == {1}
    roll_up(store)
    for one, found in late.items():
        assert asked(store, *one, source="days").rows.equals(found.rows), one


def test_hours_answer_a_short_range_when_its_minutes_are_gone(store) -> None:
    roll_up(store)
    assert asked(store, "cluster", "").source == "minutes"
    store.retain(CLUSTER, LAST + timedelta(days=3), timedelta(days=1), 1 << 40)
    assert asked(store, "cluster", "").source == "hours"


def test_the_coarsest_records_answer_a_range(year) -> None:
    tenant = SMALL.bundle(0).partition("/")[0]
    sources = {
        days: asked(year, "tenant", tenant, last(days), cluster=PROD) for days in (0.5, 7, 30, 90)
    }
    assert {days: one.source for days, one in sources.items()} == {
        0.5: "hours",
        7: "hours",
        30: "hours",
        90: "days",
    }
    assert sources[7].rows.num_rows == 7 * 24
    assert sources[90].rows.num_rows == 90
    assert [source_for(days * DAY_MS) for days in (1, 2, 60)] == ["minutes", "hours", "days"]


def test_days_answer_where_hours_are_gone(year) -> None:
    found = asked(year, "broker", SMALL.broker(1), last(10, until=60), cluster=PROD)
    assert found.source == "days"
    assert found.rows.num_rows == 10


def test_a_day_has_the_mean_of_its_hours(year) -> None:
    span, bundle = last(3), SMALL.bundle(5)
    hours = asked(year, "bundle", bundle, span, cluster=PROD, source="hours")
    days = asked(year, "bundle", bundle, span, cluster=PROD, source="days")
    means = hours.rows["msg_throughput"].to_numpy().reshape(3, 24).mean(axis=1)
    assert days.rows["msg_throughput"].to_pylist() == pytest.approx(means.tolist())


def test_an_unknown_kind_and_an_empty_range_are_errors(year) -> None:
    with pytest.raises(UnknownNameError):
        asked(year, "node", "n1", last(7), cluster=PROD)
    with pytest.raises(HistoryError):
        asked(year, "cluster", "", TimeRange(0, HOUR_MS), cluster=PROD)


def test_a_growing_bundle_is_compared_with_the_same_weekdays(tmp_path) -> None:
    store = store_in(tmp_path)
    grown = Year(days=60, days_of_hours=60, bundles=2, namespaces=1, growth={1: 0.01}, noise=0.0)
    write_year(store, grown)
    for number, expected in ((0, 0.0), (1, 0.28 / (1 + 0.01 * 28.0))):
        request = LoadRequest(
            cluster=PROD, kind="bundle", subject=grown.bundle(number), span=last(7)
        )
        found = compare(store, request, "month")
        change = next(one for one in found.changes if one.measure == "msg_throughput")
        assert (found.periods, found.compared) == (168, 168)
        assert change.change_ratio == pytest.approx(expected, abs=0.02)


def test_only_periods_recorded_both_times_are_compared(tmp_path) -> None:
    store = store_in(tmp_path)
    gaps = Year(days=20, days_of_hours=20, bundles=2, namespaces=1, missing=frozenset({8, 9}))
    write_year(store, gaps)
    request = LoadRequest(cluster=PROD, kind="cluster", subject="", span=last(7))
    found = compare(store, request, "week")
    assert (found.periods, found.compared) == (168, 120)
    alone = compare(store, request, "quarter")
    assert alone.before is None
    assert alone.compared == 0
    assert [one.before for one in alone.changes] == [None, None]
    assert alone.changes[0].now is not None
    assert alone.changes[0].change_ratio is None


def test_the_name_of_a_pegasus_table_is_its_id(tmp_path) -> None:
    store = store_in(tmp_path)
    snapshots = pegasus_minutes(7, 6)
    recorded(store, snapshots)
    name = snapshots[0].tables["tables"].to_pylist()[0]["name"]
    table = subject_id(store, CLUSTER, "table", name)
    assert table.isdecimal()
    assert subject_id(store, CLUSTER, "partition", f"{name}.2") == f"{table}.2"
    kinds = {table: "table", f"{table}.2": "partition", "9999": "table"}
    names = subject_names(store, CLUSTER, kinds)
    assert list(names.values()) == [name, f"{name}.2", "9999"]
    span = TimeRange(*(datetime_to_ms(snapshots[row].manifest.taken_at) for row in (0, -1)))
    found = asked(store, "table", table, span)
    assert found.rows["request_rate"].to_pylist() == [4 * (3.0 + minute) for minute in range(6)]
    part = asked(store, "partition", f"{table}.2", span, is_whole=True)
    assert part.rows["read_rate"].to_pylist() == [2.0 + minute for minute in range(6)]
    node = snapshots[0].tables["nodes"].to_pylist()[0]["node"]
    assert asked(store, "node", node, span, source="hours").rows.num_rows
