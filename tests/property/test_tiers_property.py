"""Whatever a cluster does, its hours are those of its minutes, and killing the pipeline loses none.

The rival computes hours from the snapshots themselves, minute by minute in plain Python.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pegasus_minutes, pulsar_minutes
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled import examples
from tier_rows import after, at, check_hours, content, whole

from core.history.store.tables import Tables
from core.history.store.writer import Recorder
from core.history.tiers import pipeline
from core.history.tiers.registry import HOURS, tier_tables

HOUR_MS = 3_600_000
EVENTS = ("moves", "splits", "merges", "server_losses", "leader_changes")


class KilledError(Exception):
    """The process ended here."""


def scattered(snapshots, seed: int):
    """The same with gaps."""
    rng = np.random.default_rng(seed)
    return [one for one in snapshots if rng.random() < 0.8] or snapshots[:1]


@settings(max_examples=examples(2), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from((20.0, 60.0, 600.0)), st.integers(0, 20))
def test_hours_are_those_of_the_snapshots(seed, every_s, restart_at) -> None:
    snapshots = scattered(pulsar_minutes(seed, 18, every_s=every_s), seed)
    with tempfile.TemporaryDirectory() as root:
        store = store_in(Path(root))
        recorded(store, snapshots[:restart_at])
        recorded(store, snapshots[restart_at:])
        pipeline.roll_up(store, CLUSTER, after(snapshots))
        check_hours(whole(store)["hours"], snapshots)
        assert pipeline.roll_up(store, CLUSTER, after(snapshots)) == pipeline.PipelineResult()
        assert pipeline.verify(store, CLUSTER, 50, seed=1)[1] == []
        before = whole(store)
        store.compact(CLUSTER, snapshots[-1].manifest.taken_at + timedelta(hours=3))
        assert pipeline.roll_up(store, CLUSTER, after(snapshots)) == pipeline.PipelineResult()
        pipeline.roll_up(store, CLUSTER, after(snapshots), only=pipeline.TimeRange())
        assert whole(store) == before


@pytest.mark.slow
@settings(max_examples=examples(2), deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_late_minutes_recompute_exactly_their_hours(seed, data) -> None:
    snapshots = pulsar_minutes(seed, 8, every_s=900.0)
    late = data.draw(st.sets(st.integers(0, 7), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as other:
        store, at_once = store_in(Path(root)), store_in(Path(other))
        recorded(store, [one for place, one in enumerate(snapshots) if place not in late])
        now = after(snapshots)
        pipeline.roll_up(store, CLUSTER, now)
        touched = {at(snapshots[place]) // HOUR_MS for place in late}
        for place in sorted(late):
            Recorder(store, CLUSTER).record(snapshots[place])
        result = pipeline.roll_up(store, CLUSTER, now)
        assert result.hours == len(touched)
        check_hours(whole(store)["hours"], snapshots)
        recorded(at_once, snapshots)
        pipeline.roll_up(at_once, CLUSTER, now)
        # an event is seen only where the minutes before and after it were recorded in order
        events = [one for one in HOURS.columns.names if one.startswith(EVENTS)]
        assert content(store, *events) == content(at_once, *events)


@settings(max_examples=examples(2), deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_killed_at_any_write_it_loses_and_counts_nothing_twice(seed, data) -> None:
    snapshots = pulsar_minutes(seed, 4, every_s=13 * 3600.0)
    kills = data.draw(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=3))
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as other:
        store, at_once = store_in(Path(root)), store_in(Path(other))
        recorded(store, snapshots)
        recorded(at_once, snapshots)
        now = after(snapshots)
        for number, is_written in kills:
            with pytest.MonkeyPatch.context() as patch:
                killed_at(patch, number, is_written=is_written)
                with suppress(KilledError):
                    pipeline.roll_up(store, CLUSTER, now)
        pipeline.roll_up(store, CLUSTER, now)
        pipeline.roll_up(at_once, CLUSTER, now)
        assert content(store) == content(at_once)
        check_hours(whole(store)["hours"], snapshots)


def killed_at(patch, number: int, *, is_written: bool) -> None:
    """Raise before or after a write, counted from 0."""
    replace, writes = Tables.replace, iter(range(100))

    def ending(self, *arguments, **options) -> None:
        is_last = next(writes) == number
        if is_last and not is_written:
            raise KilledError
        replace(self, *arguments, **options)
        if is_last:
            raise KilledError

    patch.setattr(Tables, "replace", ending)


def test_of_two_pipelines_the_second_one_reads_again(tmp_path, monkeypatch) -> None:
    snapshots = pulsar_minutes(5, 3, every_s=13 * 3600.0)
    store = store_in(tmp_path)
    recorded(store, snapshots)
    now = after(snapshots)
    replace, is_first = Tables.replace, [True]

    def overtaken(self, *arguments, **options) -> None:
        if is_first:
            is_first.clear()
            pipeline.roll_up(store_in(tmp_path), CLUSTER, now)
        replace(self, *arguments, **options)

    monkeypatch.setattr(Tables, "replace", overtaken)
    assert pipeline.roll_up(store, CLUSTER, now) == pipeline.PipelineResult()
    check_hours(whole(store)["hours"], snapshots)


def test_minutes_that_are_lost_stay_in_the_tier_until_it_is_told(tmp_path) -> None:
    snapshots = pulsar_minutes(9, 6)
    store = store_in(tmp_path)
    recorded(store, snapshots)
    now = after(snapshots)
    pipeline.roll_up(store, CLUSTER, now)
    before = whole(store)
    lost = f"cluster = '{CLUSTER}' AND taken_at = {at(snapshots[2])}"
    store.tables.table("minutes").delete(lost)
    assert pipeline.roll_up(store, CLUSTER, now) == pipeline.PipelineResult()
    assert whole(store) == before
    pipeline.roll_up(store, CLUSTER, now, only=pipeline.TimeRange())
    rows = whole(store)["hours"].to_pylist()
    assert [row["snapshots"] for row in rows if row["kind"] == "cluster"] == [5]


def test_the_open_hour_and_the_future_wait(tmp_path) -> None:
    snapshots = pulsar_minutes(9, 12)  # 11:50 to 12:01
    store = store_in(tmp_path)
    recorded(store, snapshots)
    first_end = at(snapshots[0]) // HOUR_MS * HOUR_MS + HOUR_MS
    assert pipeline.roll_up(store, CLUSTER, first_end + 299_000).hours == 0
    assert pipeline.roll_up(store, CLUSTER, first_end + 300_000).hours == 1
    state = pipeline.status(store, CLUSTER, first_end + 300_000)
    assert (state.hours, state.days, state.due, state.position) == (1, 1, 0, 12)


def test_verify_finds_a_changed_number(tmp_path) -> None:
    snapshots = pulsar_minutes(9, 6)
    store = store_in(tmp_path)
    recorded(store, snapshots)
    pipeline.roll_up(store, CLUSTER, after(snapshots))
    table = tier_tables(store).table("hours")
    table.update(predicate="kind = 'broker'", updates={"topics_max": "1234.5"})
    start = at(snapshots[0]) // HOUR_MS * HOUR_MS
    day = start // (24 * HOUR_MS) * 24 * HOUR_MS
    compared, wrong = pipeline.verify(store, CLUSTER, 5, seed=1)
    assert len(compared) == 1
    assert wrong == [("hours", start), ("days", day)]


def test_tables_and_partitions_of_pegasus(tmp_path) -> None:
    snapshots = pegasus_minutes(4, 20)
    store = store_in(tmp_path)
    recorded(store, snapshots)
    pipeline.roll_up(store, CLUSTER, after(snapshots))
    rows = whole(store)["hours"].to_pylist()
    assert {row["kind"] for row in rows} == {"cluster", "node", "partition", "table"}
    expected = defaultdict(int)
    for snapshot in snapshots:
        hour = at(snapshot) // HOUR_MS * HOUR_MS
        for row in snapshot.tables["operations"].to_pylist():
            expected[hour, f"{row['app_id']}.{row['index']}"] += 1
    found = {
        (row["taken_at"], row["subject"]): row["minutes_seen"]
        for row in rows
        if row["kind"] == "partition"
    }
    assert found == expected
