"""Closed days of hours and closed months of days are few files with the same rows."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc
import pytest
from history_rows import store_in
from tier_rows import range_of
from tier_year import CLUSTER, END, Year, write_year

from core.history.queries.load import LoadRequest, load_over
from core.history.store.layout import DAY_MS, HOUR_MS
from core.history.store.reading import TimeRange
from core.history.store.retention import added_files
from core.history.store.tables import booked
from core.history.tiers import pipeline
from core.history.tiers.partitions import condition, tier_booked
from core.history.tiers.registry import DAYS, tier_tables
from core.units import datetime_to_ms

END_MS = datetime_to_ms(END)  # November 23
YEAR = Year(brokers=2, bundles=6, namespaces=3, days=45, days_of_hours=3, cluster=CLUSTER)
NOW_MS = END_MS + 15 * DAY_MS


@pytest.fixture
def store(tmp_path):
    found = store_in(tmp_path)
    write_year(found, YEAR)
    return found


def rows_of(store, kind):
    return pipeline.tier_rows(tier_tables(store), kind, CLUSTER, range_of(store, kind))


def files_of(store, kind) -> Counter[str]:
    return Counter(added_files(tier_tables(store), kind, CLUSTER)["day"].to_pylist())


def in_earlier_layout(folder):
    """Return the days of a year as an earlier release wrote them: a partition a day."""
    newer, older = store_in(folder / "newer"), store_in(folder / "older")
    write_year(newer, YEAR)
    rows = booked(DAYS, CLUSTER, rows_of(newer, DAYS), segment=None)
    tier_tables(older).append(DAYS, rows)
    return older


def replaced_day(store, start: int, revision: int) -> None:
    """Make a day again, as late minutes do."""
    tiers = tier_tables(store)
    rows = pipeline.tier_rows(tiers, DAYS, CLUSTER, [start])
    place = rows.schema.get_field_index("revision")
    new = pc.if_else(pc.is_valid(rows["revision"]), revision, rows["revision"])
    rows = rows.set_column(place, rows.schema.field(place), new)
    whole = condition(DAYS, CLUSTER, TimeRange(start, start))
    stored = tier_booked(DAYS, CLUSTER, rows)
    tiers.replace(DAYS, stored, whole, tiers.fresh(DAYS), only_one=CLUSTER, version=1)


def test_a_closed_month_is_one_file_with_the_same_rows(store) -> None:
    before = rows_of(store, DAYS)
    assert before.num_rows == 45 * (2 + 6 + 3 + 1 + 1)
    pipeline.keep_in_order(store, CLUSTER, END_MS + HOUR_MS, 400.0)
    merged = files_of(store, DAYS)
    assert merged["2026-10-01"] == 1
    assert merged["2026-11-01"] == 2  # it is open
    pipeline.keep_in_order(store, CLUSTER, NOW_MS, 400.0)
    assert files_of(store, DAYS) == {"2026-10-01": 1, "2026-11-01": 1}
    assert rows_of(store, DAYS).equals(before)


def test_merged_files_have_a_limit(tmp_path, monkeypatch) -> None:
    store = in_earlier_layout(tmp_path)
    before = rows_of(store, DAYS)
    monkeypatch.setattr(pipeline, "MERGED_ROWS", 100)
    pipeline.keep_in_order(store, CLUSTER, NOW_MS, 400.0)
    assert files_of(store, DAYS)["2026-10-01"] == 3  # 23 days, 13 objects
    assert rows_of(store, DAYS).equals(before)


def test_days_that_an_earlier_release_wrote_are_found_and_merged(store, tmp_path) -> None:
    older = in_earlier_layout(tmp_path)
    rows = rows_of(older, DAYS)
    assert len(files_of(older, DAYS)) == 45
    request = LoadRequest(
        cluster=CLUSTER,
        kind="bundle",
        subject=YEAR.bundle(1),
        span=TimeRange(END_MS - 44 * DAY_MS, END_MS - 1),
        source="days",
    )
    answers = [load_over(one, request).rows for one in (store, older)]
    replaced_day(older, END_MS - 30 * DAY_MS, 7)
    assert answers[0].num_rows == 44
    assert rows_of(older, DAYS).num_rows == rows.num_rows
    pipeline.keep_in_order(older, CLUSTER, NOW_MS, 400.0)
    assert files_of(older, DAYS) == {"2026-10-01": 1, "2026-11-01": 1}
    assert [*answers, load_over(older, request).rows] == [answers[0]] * 3


def test_a_day_of_a_merged_month_is_made_again_alone(store) -> None:
    pipeline.keep_in_order(store, CLUSTER, NOW_MS, 400.0)
    before = rows_of(store, DAYS)
    start = END_MS - 30 * DAY_MS
    replaced_day(store, start, 7)
    after = rows_of(store, DAYS)
    revised = after.filter(pc.field("revision") == 7)
    assert revised["taken_at"].to_pylist() == [start]
    assert after.drop_columns("revision").equals(before.drop_columns("revision"))
    pipeline.keep_in_order(store, CLUSTER, NOW_MS, 400.0)
    assert files_of(store, DAYS)["2026-10-01"] == 1
    assert rows_of(store, DAYS).equals(after)
