"""The pages' questions to the history: answers on rows laid down by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from fleet_builder import NOON, make_history
from history_rows import CLUSTER, lay_down, recorded, store_in

from core.errors import SnapshotError, UnknownNameError
from core.history.queries.events import EventQueries
from core.history.queries.query import (
    MAX_COLUMNS,
    Drain,
    HistoryQueries,
    MinuteRange,
    event_step_of,
    step_of,
)
from core.history.queries.sql import Period, is_local, local_paths
from core.pulsar.measures import drained_rows
from core.units import datetime_to_ms
from dashboard.queries.history import ClusterHistory
from dashboard.queries.pulsar import broker_load

AT = datetime_to_ms(NOON)
MINUTE = 60_000
WEIGHTS = {"cpu": 1.0, "direct_memory": 0.0, "bandwidth_in": 1.0, "bandwidth_out": 0.5}
HOUR = Period(NOON - timedelta(hours=1), NOON)


def broker_row(at, broker, segment=1, **columns):
    return {"taken_at": at, "segment": segment, "broker": broker} | columns


def minute_row(at, segment=1):
    return {"taken_at": at, "segment": segment, "snapshot_id": f"{at:016x}", "system": "pulsar"}


def event_row(at, kind, subject, before=None, after=None, *, by="cluster", segment=None):
    return {
        "taken_at": at,
        "segment": segment,
        "kind": kind,
        "subject": subject,
        "before": before,
        "after": after,
        "by": by,
    }


@pytest.fixture
def store(tmp_path):
    return store_in(tmp_path)


@pytest.fixture
def queries(store):
    return HistoryQueries(store, CLUSTER, "pulsar")


@pytest.fixture
def events(store):
    return EventQueries(store, CLUSTER)


def two_minutes(store):
    """Two brokers at two minutes: 60 and 20 MB/s, then 40 and 40."""
    rows = [
        broker_row(
            at,
            broker,
            cpu_usage=1.0,
            cpu_ratio=cpu,
            bandwidth_in_ratio=0.1,
            bandwidth_out_ratio=0.9,
            msg_throughput_in=load,
            msg_throughput_out=load,
            msg_rate_in=1.0,
            msg_rate_out=2.0,
            bundle_count=3,
        )
        for at, loads in ((AT - MINUTE, (30e6, 10e6)), (AT, (20e6, 20e6)))
        for broker, load, cpu in (("a", loads[0], 0.5), ("b", loads[1], 0.2))
    ]
    lay_down(store, "brokers", rows)
    lay_down(store, "minutes", [minute_row(AT - MINUTE), minute_row(AT)])


def test_an_empty_history_answers_every_question_with_nothing(queries, events):
    assert len(queries.minutes(HOUR)) == 0
    assert queries.grid("cpu", HOUR, step_ms=0, weights=WEIGHTS).mean.size == 0
    assert queries.evenness("throughput", HOUR, weights=WEIGHTS).deviation.size == 0
    assert queries.servers_at(AT, weights=WEIGHTS).num_rows == 0
    assert queries.server_series("a", HOUR, step_ms=0, weights=WEIGHTS).num_rows == 0
    assert events.events(HOUR).num_rows == 0
    assert events.counts(HOUR, step_ms=MINUTE).num_rows == 0
    assert events.movers(HOUR).num_rows == 0
    assert events.neighbours(AT, HOUR) == (None, None)


def test_grid_has_each_server_at_each_minute(store, queries):
    two_minutes(store)
    grid = queries.grid("throughput", HOUR, step_ms=0, weights=WEIGHTS)
    assert grid.subjects == ["a", "b"]
    assert grid.at_ms.tolist() == [AT - MINUTE, AT]
    assert grid.mean.tolist() == [[60e6, 40e6], [20e6, 40e6]]


def test_grid_of_longer_stretches_holds_mean_and_peak(store, queries):
    two_minutes(store)
    grid = queries.grid("throughput", HOUR, step_ms=3_600_000, weights=WEIGHTS)
    both = dict(zip(grid.subjects, grid.mean[:, 0].tolist(), strict=True))
    assert grid.at_ms.size == 2  # 11:00 and 12:00
    assert both == {"a": 60e6, "b": 20e6}
    wide = queries.grid("throughput", HOUR, step_ms=86_400_000, weights=WEIGHTS)
    assert wide.mean.tolist() == [[50e6], [30e6]]
    assert wide.peak.tolist() == [[60e6], [40e6]]


def test_usage_is_the_largest_weighted_resource(store, queries):
    two_minutes(store)
    grid = queries.grid("usage", HOUR, step_ms=0, weights=WEIGHTS)
    assert grid.mean[:, 1].tolist() == pytest.approx([0.5, 0.45])  # cpu; half of 0.9


def test_usage_of_a_broker_that_reported_nothing_is_unknown(store, queries):
    lay_down(store, "brokers", [broker_row(AT, "a")])
    lay_down(store, "minutes", [minute_row(AT)])
    grid = queries.grid("usage", HOUR, step_ms=0, weights=WEIGHTS)
    assert np.isnan(grid.mean).all()


def test_evenness_is_how_far_the_busiest_stands_over_the_mean(store, queries):
    two_minutes(store)
    found = queries.evenness("throughput", HOUR, weights=WEIGHTS)
    assert found.deviation.tolist() == pytest.approx([0.5, 0.0])
    assert found.spread.tolist() == pytest.approx([40e6, 0.0])
    assert found.share_over(0.2) == 0.5


def test_rows_whose_minute_was_never_committed_are_not_seen(store, queries, events):
    two_minutes(store)
    lay_down(store, "brokers", [broker_row(AT + 1, "ghost", cpu_ratio=1.0)])
    lay_down(store, "brokers", [broker_row(AT, "other try", segment=7, cpu_ratio=1.0)])
    lay_down(
        store,
        "events",
        [
            event_row(AT, "move", "left by a killed writer", segment=7),
            event_row(AT, "move", "of a minute", segment=1),
            event_row(AT - 5, "run", "appended by itself"),
        ],
    )
    later = Period(HOUR.start, NOON + timedelta(minutes=1))
    assert queries.grid("cpu", later, step_ms=0, weights=WEIGHTS).subjects == ["a", "b"]
    assert set(events.events(later)["subject"].to_pylist()) == {"of a minute", "appended by itself"}


def test_period_ends_are_within_it(store, queries):
    two_minutes(store)
    assert len(queries.minutes(Period(NOON, NOON))) == 1
    assert len(queries.minutes(Period(NOON - timedelta(minutes=1), NOON))) == 2


def test_servers_of_one_minute_have_every_measure(store, queries):
    two_minutes(store)
    table = queries.servers_at(AT, weights=WEIGHTS)
    assert table["subject"].to_pylist() == ["a", "b"]
    assert table["throughput"].to_pylist() == [40e6, 40e6]
    assert table["bundles"].to_pylist() == [3.0, 3.0]


def test_unknown_measure_offers_those_that_there_are(queries):
    with pytest.raises(UnknownNameError, match="throughputs"):
        queries.grid("throughputs", HOUR, step_ms=0, weights=WEIGHTS)


def test_bundle_is_idle_where_it_has_no_row(store, queries):
    two_minutes(store)
    lay_down(
        store,
        "bundle_loads",
        [
            {
                "taken_at": AT - MINUTE,
                "segment": 1,
                "bundle": "x",
                "msg_rate_in": 4.0,
                "msg_rate_out": 2.0,
                "msg_throughput_in": 1.0,
                "msg_throughput_out": 1.0,
            }
        ],
    )
    minutes = queries.minutes(HOUR)
    alone = queries.bundle_series("x", minutes, HOUR, 0)
    assert alone["rate"].to_pylist() == [6.0, 0.0]
    day = queries.bundle_series("x", minutes, HOUR, 86_400_000)
    assert day["rate"].to_pylist() == [3.0]
    ways = queries.bundle_series("x", minutes, HOUR, 0, {"out": "msg_throughput_out"})
    assert ways.to_pydict() == {"at": [AT - MINUTE, AT], "out": [1.0, 0.0]}


def test_a_bundle_is_read_from_the_record_where_snapshots_are_saved_for_minutes_only(store):
    two_minutes(store)
    load = {"segment": 1, "bundle": "x", "msg_throughput_in": 3.0, "msg_throughput_out": 1.0}
    lay_down(store, "bundle_loads", [{"taken_at": AT, **load}])
    moved = event_row(AT, "move", "x", "a", "b")
    lay_down(store, "events", [moved, event_row(AT, "move", "xy", "a", "b")])
    history = ClusterHistory(store, CLUSTER, "pulsar", (1,))
    found = broker_load._bundle_over((history, HOUR, "x"))
    assert found.times == [NOON], "before its first load it may not have existed"
    assert found.rates["msg_throughput_in"].tolist() == [3.0]
    assert [(one.from_broker, one.to_broker) for one in found.moves] == [("a", "b")]
    assert found.end == NOON
    assert broker_load._bundle_over((history, HOUR, "idle")) is None


def test_a_drained_server_is_no_part_of_evenness_and_marked_in_past_minutes(store, queries):
    two_minutes(store)
    facts = {"broker": "b", "segment": 1}
    since = AT - MINUTE - 10_000
    lay_down(
        store,
        "broker_facts",
        [
            {"taken_at": AT - MINUTE, "emptied_at": since, **facts},
            {"taken_at": AT, "emptied_at": None, **facts},
        ],
    )
    assert queries.drains(HOUR) == (Drain("b", since, AT),)
    found = queries.evenness("throughput", HOUR, weights=WEIGHTS)
    assert found.deviation.tolist() == [0.0, 0.0], "60 and 20 MB/s, one of them drained"
    history = ClusterHistory(store, CLUSTER, "pulsar", (1,))
    tables = broker_load._brokers_over((history, HOUR))
    assert [drained_rows(table).tolist() for _, table in tables] == [[False, True], [False, False]]


def test_moves_to_and_from_a_broker_are_read_from_the_record(store):
    two_minutes(store)
    moves = [event_row(AT, "move", *one) for one in (("x", "a", "b"), ("y", "b", "c"))]
    lay_down(store, "events", [*moves, event_row(AT - MINUTE, "move", "z", "", "a")])
    history = ClusterHistory(store, CLUSTER, "pulsar", (1,))
    found = broker_load._broker_moves((history, HOUR, "a"))
    assert [(one.bundle, one.from_broker, one.to_broker) for one in found] == [
        ("z", None, "a"),
        ("x", "a", "b"),
    ]


def test_movers_count_returns_and_the_shortest_stay(store, events):
    lay_down(
        store,
        "events",
        [
            event_row(AT - 30 * MINUTE, "move", "x", "a", "b"),
            event_row(AT - 20 * MINUTE, "move", "x", "b", "a"),
            event_row(AT - 15 * MINUTE, "move", "x", "a", "c", by="trimtab"),
            event_row(AT - 15 * MINUTE, "move", "y", "a", "c"),
            event_row(AT - 15 * MINUTE, "setting", "x", "1", "2"),
        ],
    )
    rows = events.movers(HOUR).to_pylist()
    assert [row["subject"] for row in rows] == ["x", "y"]
    assert rows[0]["moves"] == 3
    assert rows[0]["returns"] == 1
    assert rows[0]["by_trimtab"] == 1
    assert rows[0]["shortest_stay_ms"] == 5 * MINUTE
    assert rows[1]["shortest_stay_ms"] is None


def test_events_are_filtered_by_kind_and_name_and_the_newest_come_first(store, events):
    lay_down(
        store,
        "events",
        [
            event_row(AT - 2 * MINUTE, "move", "acme/x", "a", "b"),
            event_row(AT - MINUTE, "leader", "leader", "a", "b"),
            event_row(AT, "move", "acme/y", "a", "b"),
        ],
    )
    assert events.events(HOUR)["subject"].to_pylist() == ["acme/y", "leader", "acme/x"]
    assert events.events(HOUR, kinds=["move"], subject="x")["subject"].to_pylist() == ["acme/x"]
    assert events.events(HOUR, limit=1).num_rows == 1
    assert events.neighbours(AT - MINUTE, HOUR) == (AT - 2 * MINUTE, AT)


def test_moves_off_a_server_that_was_lost_that_minute_count_apart(store, events):
    at = AT - 2 * MINUTE
    lay_down(
        store,
        "events",
        [
            event_row(at, "broker_down", "a"),
            event_row(at, "move", "x", "a", "b"),
            event_row(at, "move", "y", "c", "b"),
            event_row(at + MINUTE, "move", "z", "a", "b"),  # a is back, or another story
        ],
    )
    rows = events.counts(HOUR, step_ms=10 * MINUTE).to_pylist()
    told = {row["kind"]: (row["count"], row["orphans"]) for row in rows}
    assert told == {"broker_down": (1, 0), "move": (3, 1)}
    assert sorted(events.movers(HOUR)["subject"].to_pylist()) == ["y", "z"]


def test_a_move_seen_in_two_halves_counts_once_and_a_first_owner_not_at_all(store, events):
    at = AT - 5 * MINUTE
    lay_down(
        store,
        "events",
        [
            event_row(at, "move", "x", "a", "b"),
            event_row(at + MINUTE, "move", "x", "b", None),
            event_row(at + 2 * MINUTE, "move", "x", None, "a"),
            event_row(at, "move", "y", None, "a"),
        ],
    )
    (row,) = events.counts(HOUR, step_ms=60 * MINUTE).to_pylist()
    assert (row["count"], row["arrivals"]) == (4, 2)
    (mover,) = events.movers(HOUR).to_pylist()
    assert (mover["subject"], mover["moves"], mover["returns"]) == ("x", 2, 1)


def test_events_are_counted_by_time_kind_and_who(store, events):
    lay_down(
        store,
        "events",
        [
            event_row(AT - 2 * MINUTE, "move", "x", "a", "b"),
            event_row(AT - 2 * MINUTE + 1, "move", "y", "a", "b"),
            event_row(AT - 2 * MINUTE, "move", "z", "a", "b", by="trimtab"),
            event_row(AT - 2 * MINUTE, "split", "z", by=None),
        ],
    )
    rows = events.counts(HOUR, step_ms=10 * MINUTE).to_pylist()
    assert [(row["kind"], row["by"], row["count"]) for row in rows] == [
        ("move", "cluster", 2),
        ("move", "trimtab", 1),
        ("split", "", 1),
    ]
    assert rows[0]["first_at"] == AT - 2 * MINUTE
    assert rows[0]["subject"] == "x"


def test_damaged_file_is_told_with_the_kind(store, queries):
    two_minutes(store)
    for file in local_paths(store.files("brokers", CLUSTER)):
        Path(file).write_bytes(b"not parquet at all")
    with pytest.raises(SnapshotError, match=r"brokers cannot be read: day .* of cluster fleet"):
        queries.grid("cpu", HOUR, step_ms=0, weights=WEIGHTS)


def test_what_a_recorder_wrote_is_what_is_asked_for(store, queries, events):
    history = make_history(4, brokers=4, bundles=40, now=NOON)
    recorded(store, history)
    grid = queries.grid("rate", HOUR, step_ms=0, weights=WEIGHTS)
    for column, snapshot in enumerate(history):
        rates = (
            snapshot.brokers["msg_rate_in"].to_numpy() + snapshot.brokers["msg_rate_out"].to_numpy()
        )
        assert grid.mean[:, column].tolist() == pytest.approx(rates.tolist(), nan_ok=True)
    assert queries.minutes(HOUR).snapshot_ids[-1] == history[-1].snapshot_id
    assert events.events(HOUR).num_rows == store.rows("events", CLUSTER).num_rows


def test_rows_are_read_by_the_store_where_only_it_can(tmp_path, queries, store, monkeypatch):
    two_minutes(store)
    straight = queries.grid("cpu", HOUR, step_ms=0, weights=WEIGHTS)
    monkeypatch.setattr("core.history.queries.sql.is_local", lambda uri: False)
    through = queries.grid("cpu", HOUR, step_ms=0, weights=WEIGHTS)
    assert through.subjects == straight.subjects
    assert through.mean.tolist() == straight.mean.tolist()


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("/var/lib/history", True),
        ("history", True),
        ("file:///var/lib/history", True),
        ("s3://bucket/history", False),
        ("hdfs://name/history", False),
    ],
)
def test_place_of_a_history_is_local_or_not(uri, local):
    assert is_local(uri) is local


def test_file_addresses_become_paths():
    assert local_paths(["file:///a/day%3D1/x.parquet", "/a/b c"]) == [
        "/a/day=1/x.parquet",
        "/a/b c",
    ]


@pytest.mark.parametrize(
    ("minutes", "every_s", "step_s"),
    [(10, 60, 0), (360, 60, 0), (1_440, 60, 300), (43_200, 60, 14_400), (17_280, 5, 300)],
)
def test_minutes_are_drawn_in_stretches_that_are_never_empty(minutes, every_s, step_s):
    at = np.arange(minutes, dtype=np.int64) * every_s * 1000
    recorded_minutes = MinuteRange(at, [""] * minutes)
    step = step_of(recorded_minutes)
    assert step == step_s * 1000
    if step:
        assert step >= 2 * every_s * 1000
        assert (at[-1] - at[0]) / step <= MAX_COLUMNS


def test_events_of_any_period_stand_in_few_stretches():
    for hours in (1, 6, 24, 168, 720, 24_000):
        period = Period(NOON - timedelta(hours=hours), NOON)
        assert hours * 3_600_000 / event_step_of(period) <= 150


def test_newest_minute_at_or_before_a_moment_is_found():
    minutes = MinuteRange(np.array([1_000, 2_000], np.int64), ["a", "b"])
    moments = [datetime.fromtimestamp(s, UTC) for s in (0.5, 1, 1.5, 3)]
    assert [minutes.row_at(moment) for moment in moments] == [None, 0, 0, 1]
