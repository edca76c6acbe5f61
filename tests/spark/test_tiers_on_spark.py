"""Tiers on Spark are those of one process, to the last bit; also through a whole turn."""

from __future__ import annotations

import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pegasus_minutes, pulsar_minutes
from tier_year import END, Year, write_year

from core.history.analysis.requests import RecordScope, TrendsRequest
from core.history.analysis.trends.job import trends_here
from core.history.tiers import pipeline
from core.history.tiers.local import hours_here, profiles_here
from core.history.tiers.registry import DAYS, HOURS, SYSTEM_TIERS, tier_tables
from core.progress import NoProgress
from core.spark.jobs.tiers import SparkTiers
from core.spark.jobs.trends import trends_on_spark
from core.units import datetime_to_ms

HOUR_MS = 3_600_000


@pytest.mark.slow
def test_hours_of_spark_are_those_of_one_process(spark, tmp_path) -> None:
    store = store_in(tmp_path)
    minutes = pulsar_minutes(3, 75)
    recorded(store, minutes)
    hours = sorted({datetime_to_ms(one.manifest.taken_at) // HOUR_MS * HOUR_MS for one in minutes})
    here = hours_here(store, CLUSTER, SYSTEM_TIERS["pulsar"], hours)
    assert len(hours) == 3
    assert here.num_rows > 100
    assert SparkTiers(spark).hours(store, CLUSTER, SYSTEM_TIERS["pulsar"], hours).equals(here)


@pytest.mark.slow
def test_profiles_of_spark_are_those_of_one_process(spark, tmp_path) -> None:
    store = store_in(tmp_path)
    year = Year(brokers=2, bundles=4, namespaces=2, days=15, days_of_hours=15)
    write_year(store, year)
    end = datetime_to_ms(END)
    hours = [end - hour * HOUR_MS for hour in range(1, 15 * 24) if hour % 24 < 3]
    here = profiles_here(store, year.cluster, SYSTEM_TIERS["pulsar"], hours)
    assert here.num_rows > 100
    assert set(here["msg_throughput_weeks"].to_pylist()) >= {2}
    assert (
        SparkTiers(spark).profiles(store, year.cluster, SYSTEM_TIERS["pulsar"], hours).equals(here)
    )


@pytest.mark.slow
def test_a_turn_on_spark_commits_what_a_turn_in_process_verifies(spark, tmp_path) -> None:
    store = store_in(tmp_path)
    minutes = pegasus_minutes(5, 30)
    recorded(store, minutes)
    now = datetime_to_ms(minutes[-1].manifest.taken_at) + 2 * HOUR_MS
    result = pipeline.roll_up(store, CLUSTER, now, engine=SparkTiers(spark))
    assert result.hours == 2
    compared, wrong = pipeline.verify(store, CLUSTER, 10, seed=1)
    assert (len(compared), wrong) == (2, [])
    tiers = tier_tables(store)
    for kind in (HOURS, DAYS):
        assert tiers.table(kind.name).transaction_version(CLUSTER) == 30


@pytest.mark.slow
def test_trends_of_tiers_on_spark_are_those_of_one_process(spark, tmp_path) -> None:
    store = store_in(tmp_path)
    minutes = pulsar_minutes(3, 75)
    recorded(store, minutes[:-1])
    pipeline.roll_up(store, CLUSTER, datetime_to_ms(minutes[-1].manifest.taken_at) + 2 * HOUR_MS)
    recorded(store, minutes[-1:])  # late: its hour is answered from minutes
    request, scope = TrendsRequest(period="hour"), RecordScope()
    here = trends_here(store, request, scope, NoProgress())
    there = trends_on_spark(spark, store, request, scope, NoProgress())
    assert here.source == there.source == "hours and minutes"
    assert here.tables() == there.tables()
