"""Trends, flaps, drills and topics on Spark: the same answers as in process, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import NOON, make_history, make_snapshot
from pegasus_snapshots import generated
from pyarrow import csv
from pyspark.sql import SparkSession

from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.job import recorded_of, trends_here
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.operations.drill import OPERATION as DRILL
from core.operations.drill.request import DrillRequest
from core.operations.operation import plain
from core.planning.topics.distribution import place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.progress import NoProgress
from core.spark.engine import Engine, InMemory
from core.spark.jobs.flaps import flaps_on_spark
from core.spark.jobs.topics import place_topics_on_spark
from core.spark.jobs.trends import trends_on_spark

SEED = 3


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> HistoryStore:
    """Two clusters over midnight; one bundle goes to and fro every eight minutes."""
    store = HistoryStore(HistoryLocation(str(tmp_path_factory.mktemp("history"))))
    for name, minutes in (("fleet", 20), ("other", 3)):
        recorder = Recorder(store, name)
        now = NOON - timedelta(hours=12) + timedelta(minutes=12)
        for snapshot in make_history(minutes, cluster=name, now=now, brokers=4, bundles=16):
            recorder.record(snapshot)
    return store


def assert_same(there: Mapping[str, pa.Table], here: Mapping[str, pa.Table]) -> None:
    for name, table in here.items():
        assert there[name].equals(table), name


@pytest.mark.slow
def test_trends_are_the_same(spark: SparkSession, past: HistoryStore) -> None:
    request, scope = TrendsRequest(period="hour"), RecordScope()
    here = trends_here(past, request, scope, NoProgress())
    assert_same(trends_on_spark(spark, past, request, scope, NoProgress()).tables(), here.tables())
    assert here.trends.num_rows > 0


def test_trends_leave_out_minutes_that_came_after_they_were_counted(
    spark: SparkSession, past: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector goes on while Spark starts: here it is five minutes ahead of the count."""
    request = TrendsRequest(period="hour", subjects=("bundles",))
    scope = RecordScope(clusters=("fleet",))
    _, last = past.span("fleet") or (NOON, NOON)
    earlier = RecordScope(clusters=scope.clusters, end=last - timedelta(minutes=5))
    here = trends_here(past, request, earlier, NoProgress())
    counted = recorded_of(past, earlier)
    monkeypatch.setattr(
        "core.spark.jobs.trends.recorded_of", lambda _store, _scope, _period: counted
    )
    assert_same(trends_on_spark(spark, past, request, scope, NoProgress()).tables(), here.tables())
    hot = here.hot.to_pylist()
    assert hot
    assert all(row["mean"] <= row["max"] for row in hot)


def test_flaps_are_the_same(spark: SparkSession, past: HistoryStore) -> None:
    here = flaps_here(past, FlapsRequest(), RecordScope(), NoProgress())
    assert_same(
        flaps_on_spark(spark, past, FlapsRequest(), RecordScope(), NoProgress()).tables(),
        here.tables(),
    )
    assert here.flaps.num_rows > 0


def test_a_failure_drill_is_the_same(spark: SparkSession) -> None:
    wish = DrillRequest(hot_threshold=0.4, seed=SEED)
    sources = {
        "fleet": InMemory(make_snapshot(brokers=6, bundles=60)),
        "peg": InMemory(generated(3, 8, 5)),
    }
    here = Engine().map(DRILL, sources, wish, NoProgress())
    there = Engine(spark).map(DRILL, sources, wish, NoProgress())
    assert list(here) == list(there) == ["fleet", "peg"]
    assert {name: plain(one) for name, one in there.items()} == {
        name: plain(one) for name, one in here.items()
    }
    assert here["fleet"].failures.num_rows
    assert here["peg"].nodes.num_rows


def test_topics_land_in_the_same_places(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = make_snapshot(brokers=4, bundles=40)
    spaces = [name for name in snapshot.namespaces["namespace"].to_pylist() if ":" not in name]
    names = [
        f"persistent://{spaces[at // 10 % len(spaces)]}/topic-{at // 10}-partition-{at % 10}"
        for at in range(3_000)
    ]
    rates = np.random.default_rng(SEED).random(3_002)
    table = pa.table({"topic": [*names, "bad//x", "no/where/t"], "msg_throughput_in": rates})
    csv.write_csv(table, tmp_path / "topics.csv")
    parts = parts_of(tmp_path / "topics.csv", part_bytes=50_000)
    assert len(parts) > 2
    ring = TopicRing.of(snapshot)
    here = place_topics(ring, parts, NoProgress())
    there = place_topics_on_spark(spark, ring, parts, NoProgress())
    for name in ("bundles", "brokers", "concentrated", "spread", "sentence"):
        assert getattr(there, name) == getattr(here, name), name
    assert (there.topics, there.unmatched, there.invalid) == (3_000, 1, 1)
