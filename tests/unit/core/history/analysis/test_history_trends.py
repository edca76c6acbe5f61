"""Trends and flaps of what was recorded: numbers against plain loops, and what is put together."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import NOON, make_history
from pegasus_snapshots import generated

from core.errors import UnknownNameError
from core.history.analysis.flaps import flaps
from core.history.analysis.flaps.flaps import flap_answer, flaps_of
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import Trends
from core.history.analysis.trends.job import trends_here
from core.history.analysis.trends.pulsar import broker_minutes
from core.history.analysis.trends.trends import trends_of
from core.history.store.layout import DAY_MS
from core.history.store.store import HistoryError, HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.progress import JobStoppedError, NoProgress
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot.pegasus import PegasusSnapshot
from core.units import ms_to_datetime

MINUTE = 60_000
START = 1_795_219_200_000  # midnight, UTC
"""A day begins here."""


def rows_of(trends: pa.Table) -> dict[tuple[str, int], tuple[float, float, float, int]]:
    return {
        (row["subject"], row["starts_at"]): (row["mean"], row["max"], row["p95"], row["minutes"])
        for row in trends.to_pylist()
    }


def plain(values: list[float]) -> tuple[float, float, float, int]:
    return fmean(values), max(values), float(np.percentile(values, 95)), len(values)


@pytest.mark.parametrize("period", ["minute", "hour", "day"])
def test_mean_maximum_and_percentile_are_those_of_a_plain_loop(period):
    rng = np.random.default_rng(5)
    subjects = rng.choice(["a", "b", "c"], 500)
    times = START + rng.integers(0, 600, 500) * MINUTE
    values = np.where(rng.random(500) < 0.1, np.nan, rng.pareto(1.2, 500))
    size = {"minute": MINUTE, "hour": 60 * MINUTE, "day": DAY_MS}[period]
    expected: dict[tuple[str, int], list[float]] = {}
    for subject, time, value in zip(
        subjects.tolist(), times.tolist(), values.tolist(), strict=True
    ):
        if np.isfinite(value):
            expected.setdefault((subject, time // size * size), []).append(value)
    found = trends_of("broker", pa.array(subjects.tolist()), times, {"x": values}, period)
    assert rows_of(found) == {key: pytest.approx(plain(one)) for key, one in expected.items()}


def test_minutes_without_a_row_count_as_zero_where_the_record_leaves_idle_rows_out():
    times = np.array([START, START + MINUTE], np.int64)
    values = {"x": np.array([8.0, 4.0])}
    found = trends_of("bundle", pa.array(["a", "a"]), times, values, "hour", {START: 10})
    assert rows_of(found) == {("a", START): pytest.approx(plain([8.0, 4.0] + [0.0] * 8))}


def test_the_order_of_rows_changes_no_bit():
    rng = np.random.default_rng(6)
    subjects = np.array([f"b{at}" for at in rng.integers(0, 9, 2_000)])
    times, values = START + rng.integers(0, 90, 2_000) * MINUTE, rng.pareto(1.0, 2_000)
    there = trends_of("broker", pa.array(subjects.tolist()), times, {"x": values}, "hour")
    order = rng.permutation(2_000)
    again = trends_of(
        "broker", pa.array(subjects[order].tolist()), times[order], {"x": values[order]}, "hour"
    )
    assert again.equals(there)


def flow(*rows: tuple[str, int, float]) -> pa.Table:
    return pa.table(
        {
            "broker": [name for name, _, _ in rows],
            "taken_at": pa.array([START + at * MINUTE for _, at, _ in rows], pa.int64()),
            "msg_throughput_in": [value for _, _, value in rows],
            "msg_throughput_out": [0.0 for _ in rows],
        }
    )


def test_deviation_and_gap_of_a_minute():
    found = broker_minutes(flow(("a", 0, 30.0), ("b", 0, 10.0), ("c", 0, 20.0), ("a", 1, 0.0)))
    assert found.to_pylist() == [
        {"taken_at": START, "deviation": 0.5, "gap": 20.0},
        {"taken_at": START + MINUTE, "deviation": None, "gap": 0.0},
    ]


def moves(*rows: tuple[int, str, str, str, str]) -> pa.Table:
    """Minute, bundle, from, to, by."""
    return pa.table(
        {
            "taken_at": pa.array([START + row[0] * MINUTE for row in rows], pa.int64()),
            "kind": pa.array(["move"] * len(rows), pa.string()),
            "subject": pa.array([row[1] for row in rows], pa.string()),
            "before": pa.array([row[2] or None for row in rows], pa.string()),
            "after": pa.array([row[3] or None for row in rows], pa.string()),
            "by": pa.array([row[4] for row in rows], pa.string()),
            "run_id": pa.nulls(len(rows), pa.string()),
        }
    )


STEADY = flow(*((name, at, value) for at in range(60) for name, value in (("a", 3.0), ("b", 1.0))))


def test_a_bundle_that_comes_back_is_a_flap_with_the_time_that_it_was_away():
    found = flaps_of(
        moves(
            (5, "x", "a", "b", "cluster"),
            (9, "y", "a", "b", "trimtab"),
            (12, "x", "b", "c", ""),
            (20, "x", "c", "a", "trimtab"),
            (25, "x", "a", "b", "cluster"),
            (30, "x", "", "a", "cluster"),  # a lookup of a bundle that nobody had: no move
        ),
        broker_minutes(STEADY),
        FlapsRequest(),
    )
    flaps = [
        (row["subject"], row["home"], row["away"], row["dwell_ms"] // MINUTE)
        for row in found["flaps"].to_pylist()
    ]
    assert flaps == [("x", "a", "c", 15), ("x", "b", "a", 13)]
    assert found["flaps"]["left_by"].to_pylist() == ["cluster", ""]
    first = found["movers"].to_pylist()[0]
    assert (first["subject"], first["moves"], first["flaps"]) == ("x", 4, 2)
    assert (first["by_cluster"], first["by_trimtab"], first["by_unknown"]) == (2, 1, 1)
    assert first["shortest_dwell_ms"] == 13 * MINUTE


def test_moves_off_a_broker_that_was_lost_that_minute_are_nobodys():
    rows = moves((5, "x", "a", "b", "cluster"), (5, "y", "c", "b", "cluster"))
    down = moves((5, "a", "", "", "cluster")).set_column(1, "kind", pa.array(["broker_down"]))
    found = flaps_of(pa.concat_tables([rows, down]), broker_minutes(STEADY), FlapsRequest())
    assert found["movers"]["subject"].to_pylist() == ["y"]
    assert found["rounds"]["moves"].to_pylist() == [1]


def plain_returns(rows: list[tuple[int, str, str, str, str]]) -> list[tuple[str, str, int]]:
    left: dict[tuple[str, str], int] = {}
    found = []
    for at, bundle, source, target, _ in rows:
        gone = left.pop((bundle, target), None)
        if gone is not None:
            found.append((bundle, target, at - gone))
        left[bundle, source] = at
    return found


def test_returns_are_those_of_a_plain_loop():
    rng = np.random.default_rng(8)
    at = dict.fromkeys("wxyz", "a")
    rows = []
    for minute in range(200):
        name = str(rng.choice(list("wxyz")))
        target = str(rng.choice([one for one in "abc" if one != at[name]]))
        rows.append((minute, name, at[name], target, "cluster"))
        at[name] = target
    found = flaps_of(moves(*rows), broker_minutes(STEADY), FlapsRequest())["flaps"].to_pylist()
    assert [
        (row["subject"], row["home"], row["dwell_ms"] // MINUTE) for row in found
    ] == plain_returns(rows)


def test_whether_moves_helped_is_told_by_both_sides_of_them():
    """a and b: 3 to 1 until minute 30, 2 to 2 afterwards."""
    shift = flow(
        *(
            (name, at, 2.0 if at >= 30 else value)
            for at in range(60)
            for name, value in (("a", 3.0), ("b", 1.0))
        )
    )
    rows = moves(
        (15, "x", "a", "b", "trimtab"), (30, "y", "a", "b", "cluster"), (58, "z", "a", "b", "")
    )
    rounds = flaps_of(rows, broker_minutes(shift), FlapsRequest(side_minutes=10, settle_minutes=3))[
        "rounds"
    ].to_pylist()
    assert [row["helped"] for row in rounds] == [False, True, None]
    assert (rounds[1]["deviation_before"], rounds[1]["deviation_after"]) == (0.5, 0.0)
    assert [row["by"] for row in rounds] == ["trimtab", "cluster", ""]
    assert [row["other_moves"] for row in rounds] == [0, 0, 0]
    near = flaps_of(rows, broker_minutes(shift), FlapsRequest(side_minutes=20, settle_minutes=3))[
        "rounds"
    ].to_pylist()
    assert [row["other_moves"] for row in near] == [1, 1, 0]
    assert [row["helped"] for row in near] == [None, None, None]


def test_moves_that_other_moves_came_too_close_to_are_not_said_to_have_helped():
    rows = moves((30, "x", "a", "b", "cluster"), (32, "y", "b", "a", "cluster"))
    found = flap_answer(
        [
            (
                "c",
                flaps_of(
                    rows, broker_minutes(STEADY), FlapsRequest(side_minutes=10, settle_minutes=3)
                ),
            )
        ]
    )
    assert found.rounds["helped"].to_pylist() == [None, None]
    assert "Effect: 2 unknown (other moves at the same time)." in found.sentence


def test_every_move_of_the_sentence_has_an_outcome_or_the_reason_why_not():
    rows = moves((30, "x", "a", "b", "cluster"), (59, "y", "b", "a", "cluster"))
    request = FlapsRequest(side_minutes=10, settle_minutes=3)
    found = flap_answer([("c", flaps_of(rows, broker_minutes(STEADY), request))])
    assert found.rounds["helped"].to_pylist() == [False, None]
    assert "Effect: 1 none, 1 not measured (no snapshots before or after)." in found.sentence


def test_a_move_seen_in_two_halves_is_one_and_lands_where_the_second_did():
    found = flaps_of(
        moves(
            (5, "x", "a", "b", "cluster"),
            (9, "x", "b", "", "cluster"),
            (10, "x", "", "a", "cluster"),  # the other half
            (12, "y", "a", "", "cluster"),  # nobody has it since
            (15, "z", "", "a", "cluster"),  # its first owner
            (20, "w", "a", "", "cluster"),
            (21, "w", "", "a", "cluster"),  # it came back to the very same: off, no other owner
        ),
        broker_minutes(STEADY),
        FlapsRequest(),
    )
    assert dict(
        zip(
            found["movers"]["subject"].to_pylist(),
            found["movers"]["moves"].to_pylist(),
            strict=True,
        )
    ) == {"x": 2, "y": 1, "w": 1}
    flaps = [(row["home"], row["away"]) for row in found["flaps"].to_pylist()]
    assert flaps == [("a", "b")]


def test_minutes_of_compressed_time_are_as_short_as_they_are_said_to_be():
    """Moves ten minutes apart run into each other; sixty of six seconds apart do not."""
    rows = moves((20, "x", "a", "b", "cluster"), (30, "y", "a", "b", "cluster"))
    plain = flaps_of(rows, broker_minutes(STEADY), FlapsRequest(side_minutes=10, settle_minutes=5))[
        "rounds"
    ]
    short = flaps_of(
        rows, broker_minutes(STEADY), FlapsRequest(side_minutes=20, settle_minutes=5), 6.0
    )["rounds"]
    assert plain["other_moves"].to_pylist() == [1, 1]
    assert short["other_moves"].to_pylist() == [0, 0]


def test_nothing_moved_is_an_answer():
    found = flaps_of(moves(), broker_minutes(STEADY), FlapsRequest())
    assert [table.num_rows for table in found.values()] == [0, 0, 0]


# -- a recorded history ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> HistoryStore:
    """A Pulsar cluster over midnight, and a Pegasus one."""
    root: Path = tmp_path_factory.mktemp("history")
    store = HistoryStore(HistoryLocation(str(root)))
    midnight = NOON - timedelta(hours=12)
    recorder = Recorder(store, "fleet")
    for snapshot in make_history(
        12, cluster="fleet", now=midnight + timedelta(minutes=6), brokers=4, bundles=20
    ):
        recorder.record(snapshot)
    other = Recorder(store, "peg")
    for minute in range(3):
        taken_at = NOON + timedelta(minutes=minute)
        bare = generated(2, 4, 4, cluster="peg", taken_at=taken_at)
        asked = [
            {"app_id": app_id, "index": index, "get_rate": 2.0, "put_rate": 1.0}
            for app_id in (1, 2)
            for index in range(4)
        ]
        operations = pa.Table.from_pylist(asked, schema=PEGASUS_TABLES["operations"])
        tables = {**bare.tables, "operations": operations}
        other.record(PegasusSnapshot.build(bare.manifest, tables))
    return store


@pytest.fixture(scope="module")
def hourly(past: HistoryStore) -> Trends:
    return trends_here(past, TrendsRequest(period="hour"), RecordScope(), NoProgress())


def test_periods_do_not_cross_midnight(past, hourly):
    starts = {row["starts_at"] for row in hourly.trends.to_pylist() if row["cluster"] == "fleet"}
    assert len(starts) == 2
    minutes = {
        row["starts_at"]: row["minutes"]
        for row in hourly.trends.to_pylist()
        if row["cluster"] == "fleet" and row["kind"] == "cluster" and row["measure"] == "gap"
    }
    assert sum(minutes.values()) == 12


def test_a_bundles_trend_adds_up_to_what_the_snapshots_hold(past, hourly):
    row = next(one for one in hourly.hot.to_pylist() if one["cluster"] == "fleet")
    times = past.minutes("fleet")["taken_at"].to_pylist()
    total = 0.0
    for taken_at in times:
        snapshot = past.snapshot_at("fleet", ms_to_datetime(taken_at))
        bundle = next(
            one for one in snapshot.tables["bundles"].to_pylist() if one["bundle"] == row["subject"]
        )
        total += bundle["msg_throughput_in"] + bundle["msg_throughput_out"]
    assert row["mean"] == pytest.approx(total / len(times))


def test_the_gap_names_the_busiest_and_the_idlest(past, hourly):
    gap = next(row for row in hourly.gaps.to_pylist() if row["cluster"] == "fleet")
    assert gap["busiest_flow"] - gap["idlest_flow"] == pytest.approx(gap["gap"])
    assert gap["idlest"] != gap["busiest"]
    assert 0 <= gap["uneven_share"] <= 1


def test_pegasus_tables_are_called_by_their_names(past, hourly):
    subjects = {row["subject"] for row in hourly.trends.to_pylist() if row["kind"] == "table"}
    assert subjects == {"table0", "table1"}
    served = [
        row["mean"]
        for row in hourly.trends.to_pylist()
        if row["kind"] == "table" and row["measure"] == "request_rate"
    ]
    assert served == [12.0, 12.0]
    assert any(row["kind"] == "node" for row in hourly.trends.to_pylist())


def test_a_minute_is_a_period_too_and_a_part_of_the_subjects_can_be_asked(past):
    found = trends_here(
        past,
        TrendsRequest(period="minute", subjects=("brokers",)),
        RecordScope(clusters=("fleet",)),
        NoProgress(),
    )
    assert set(found.trends["kind"].to_pylist()) == {"broker", "cluster"}
    assert set(found.trends["minutes"].to_pylist()) == {1}
    assert found.movers.num_rows > 0


def test_flaps_of_a_recorded_cluster(past):
    found = flaps_here(past, FlapsRequest(), RecordScope(clusters=("fleet",)), NoProgress())
    events = past.rows("events", "fleet")
    moved = [row for row in events.to_pylist() if row["kind"] == "move"]
    assert sum(found.movers["moves"].to_pylist()) == len(moved)


def test_what_was_not_recorded_cannot_be_asked(past, tmp_path):
    with pytest.raises(UnknownNameError):
        trends_here(past, TrendsRequest(), RecordScope(clusters=("flett",)), NoProgress())
    with pytest.raises(HistoryError):
        trends_here(
            past, TrendsRequest(), RecordScope(start=NOON + timedelta(days=9)), NoProgress()
        )
    with pytest.raises(HistoryError):
        flaps_here(
            HistoryStore(HistoryLocation(str(tmp_path))),
            FlapsRequest(),
            RecordScope(),
            NoProgress(),
        )


def test_it_stops_when_somebody_says_so(past):
    class Stopped:
        def step(self, done: int, total: int, words: str) -> None:
            raise JobStoppedError("Stopped.")

    with pytest.raises(JobStoppedError):
        trends_here(past, TrendsRequest(), RecordScope(), Stopped())
    with pytest.raises(JobStoppedError):
        flaps_here(past, FlapsRequest(), RecordScope(), Stopped())


def test_flaps_are_summed_up_in_short_sentences_whose_numbers_add_up():
    movers = {"moves": [6, 4], "returned": [5, 0], "subject": ["a/b/0x0_0x1", "a/b/0x1_0x2"]}
    movers |= {"cluster": ["prod"] * 2, "day": ["2026-11-28"] * 2}
    rounds = {
        "moves": [4, 2, 3, 1],
        "helped": [False, True, None, None],
        "other_moves": [0, 0, 2, 0],
    }
    sentence = flaps._sentence(
        {
            "flaps": pa.table({"dwell_ms": [1_080_000]}),
            "movers": pa.table(movers),
            "rounds": pa.table(rounds),
        }
    )
    assert sentence == (
        "10 moves, 1 returned (median time away 18 min). "
        "Most often: a/b/0x0_0x1 of prod, 6 times on 2026-11-28. "
        "Effect: 2 improved, 4 none, 3 unknown (other moves at the same time), "
        "1 not measured (no snapshots before or after)."
    )
