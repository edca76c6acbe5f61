"""Compaction and retention: small files put together, old days dropped, nobody disturbed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from fleet_builder import NOON, make_history

from core.history.store import retention
from core.history.store.layout import HistoryError
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.tables import booked
from core.history.store.writer import Recorder
from core.snapshot.record import Kind

DAY = timedelta(days=1)


def store_at(folder: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(folder / "history")))


def record(store: HistoryStore, cluster: str, count: int, now) -> list:
    recorder = Recorder(store, cluster)
    minutes = make_history(count, brokers=3, bundles=12, now=now, cluster=cluster)
    for snapshot in minutes:
        recorder.record(snapshot)
    return minutes


def test_closed_hours_are_put_together_and_everything_stays_readable(tmp_path) -> None:
    store = store_at(tmp_path)
    minutes = record(store, "fleet", 5, NOON + timedelta(minutes=2))
    other = record(store, "other", 2, NOON)
    before = {kind: store.rows(kind, "fleet").num_rows for kind in store.sizes("fleet")}
    done = store.compact("fleet", NOON + timedelta(minutes=30))
    assert (done.busy, done.hours) == (0, 4)  # minutes, brokers, loads, averages
    assert store.sizes("fleet")["brokers"].files == 4  # one of the closed hour, three of this one
    assert store.sizes("other")["brokers"].files == 2
    store.compact("fleet", NOON + timedelta(hours=2))
    assert store.sizes("fleet")["brokers"].files == 2
    assert store.compact("fleet", NOON + timedelta(hours=2)).hours == 0
    assert {kind: store.rows(kind, "fleet").num_rows for kind in before} == before
    for snapshot in (*minutes, *other):
        again = store.snapshot_at(snapshot.manifest.cluster, snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


def test_a_small_day_that_is_over_becomes_one_file(tmp_path) -> None:
    store = store_at(tmp_path)
    minutes = record(store, "fleet", 4, NOON + timedelta(minutes=1))
    store.compact("fleet", NOON + timedelta(hours=2))
    assert store.sizes("fleet")["brokers"].files == 2
    store.compact("fleet", NOON + timedelta(hours=13))
    assert {size.files for size in store.sizes("fleet").values()} == {1}
    for snapshot in minutes:
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


def test_an_hour_that_has_just_ended_is_left_alone(tmp_path) -> None:
    store = store_at(tmp_path)
    record(store, "fleet", 2, NOON - timedelta(minutes=1))
    assert store.compact("fleet", NOON + timedelta(minutes=4)).hours == 0
    assert store.compact("fleet", NOON + timedelta(minutes=6)).hours > 0


@pytest.mark.slow
def test_a_huge_hour_is_put_together_in_pieces(tmp_path) -> None:
    store = store_at(tmp_path)
    minutes = record(store, "fleet", 8, NOON + timedelta(minutes=58))
    late = NOON + timedelta(hours=2)
    retention.compact(store.tables, "fleet", round(late.timestamp() * 1000), most_rows=30)
    assert 1 < store.sizes("fleet")["bundle_loads"].files <= 4
    for snapshot in minutes:
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


@pytest.mark.slow
def test_recording_goes_on_while_files_are_put_together(tmp_path) -> None:
    store = store_at(tmp_path)
    old = record(store, "fleet", 6, NOON - timedelta(minutes=1))
    new = make_history(8, brokers=3, bundles=12, now=NOON + timedelta(minutes=30))
    wrong: list[Exception] = []

    def write() -> None:
        recorder = Recorder(HistoryStore(store.location), "fleet")
        try:
            for snapshot in new:
                recorder.record(snapshot)
        except HistoryError as exc:
            wrong.append(exc)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        store.compact("fleet", NOON + timedelta(minutes=30))
        writer.join(0.01)
    store.compact("fleet", NOON + timedelta(minutes=30))
    assert wrong == []
    assert store.minutes("fleet").num_rows == 14
    assert store.rows("brokers", "fleet").num_rows == 3 * 14
    for snapshot in (*old, *new):
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


def days(store: HistoryStore, count: int = 4) -> list:
    """Two minutes a day, the last day is NOON's."""
    return [
        one
        for back in range(count - 1, -1, -1)
        for one in record(store, "fleet", 2, NOON - back * DAY)
    ]


def test_days_that_are_too_old_go_whole_and_of_all_kinds(tmp_path) -> None:
    store = store_at(tmp_path)
    kept = days(store)[4:]
    record(store, "other", 1, NOON - 3 * DAY)
    assert store.retain("fleet", NOON, timedelta(days=1.2), 1 << 40) == ["2026-11-18", "2026-11-19"]
    assert store.minutes("fleet")["snapshot_id"].to_pylist() == [one.snapshot_id for one in kept]
    assert store.rows("brokers", "fleet").num_rows == 12
    assert all(
        "2026-11-18" not in uri
        for kind in store.sizes("fleet")
        for uri in store.files(kind, "fleet")
    )
    assert store.minutes("other").num_rows == 1
    assert store.retain("fleet", NOON, timedelta(days=1.2), 1 << 40) == []
    for snapshot in kept:
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


def test_the_oldest_days_go_until_the_rest_is_small_enough_but_never_today(tmp_path) -> None:
    store = store_at(tmp_path)
    days(store)
    total = sum(size.bytes for size in store.sizes("fleet").values())
    assert store.retain("fleet", NOON, 90 * DAY, total) == []
    assert store.retain("fleet", NOON, 90 * DAY, int(total * 0.6)) == ["2026-11-18", "2026-11-19"]
    assert store.retain("fleet", NOON, 90 * DAY, 1) == ["2026-11-20"]
    assert store.minutes("fleet").num_rows == 2


def test_a_history_of_nothing_is_kept_small_without_a_word(tmp_path) -> None:
    store = store_at(tmp_path)
    assert store.compact("fleet", NOON).hours == 0
    assert store.retain("fleet", NOON, DAY, 1) == []
    assert store.sizes("fleet") == {}


@pytest.mark.parametrize(("age_s", "left"), [(7_200, True), (90_000, False)])
def test_what_a_killed_writer_left_goes_when_it_is_old_enough(tmp_path, age_s, left) -> None:
    store = store_at(tmp_path)
    record(store, "fleet", 1, NOON)
    orphan = tmp_path / "history/brokers/cluster=fleet/day=2026-11-21/part-0-left.parquet"
    orphan.write_bytes(b"half")
    then = time.time() - age_s
    os.utime(orphan, (then, then))
    store.compact("fleet", NOON + timedelta(hours=2))
    assert orphan.exists() is left
    assert store.rows("brokers", "fleet").num_rows == 3


@pytest.mark.parametrize("bits", [12, 0], ids=["segment of today", "segment of before"])
@pytest.mark.parametrize(("age_h", "kept"), [(1, True), (3, False)])
def test_rows_that_somebody_may_still_commit_are_kept(tmp_path, age_h, kept, bits) -> None:
    store = store_at(tmp_path)
    minutes = record(store, "fleet", 3, NOON + timedelta(minutes=30))
    kind = KINDS.of("brokers")
    late = pa.array([round(minutes[1].manifest.taken_at.timestamp() * 1000) + 1] * 3)
    rows = minutes[1].brokers.select(kind.columns.names).append_column("taken_at", late)
    segment = (time.time_ns() // 1_000_000 - age_h * 3_600_000) << bits
    store.tables.append(kind, booked(kind, "fleet", rows, segment=segment))
    store.compact("fleet", NOON + timedelta(hours=2))
    assert store.sizes("fleet")["brokers"].rows == (12 if kept else 9)
    assert store.rows("brokers", "fleet").num_rows == 9


def test_sizes_count_files_rows_and_bytes_of_one_cluster(tmp_path) -> None:
    store = store_at(tmp_path)
    record(store, "fleet", 2, NOON + timedelta(minutes=30))
    record(store, "other", 1, NOON)
    store.append("events", "fleet", pa.table({"taken_at": [1]}))
    found = store.sizes("fleet")["brokers"]
    assert (found.files, found.rows) == (2, 6)
    on_disk = (tmp_path / "history" / "brokers" / "cluster=fleet").rglob("*.parquet")
    assert found.bytes == sum(file.stat().st_size for file in on_disk)


@pytest.mark.slow
def test_logs_are_summed_up_so_that_opening_stays_quick(tmp_path) -> None:
    store = store_at(tmp_path)
    for at in range(65):
        store.append("shadow", "fleet", pa.table({"taken_at": [at]}))
    assert list((tmp_path / "history" / "shadow" / "_delta_log").glob("*.checkpoint.parquet"))
    assert store_at(tmp_path).rows("shadow", "fleet").num_rows == 65


class Interrupted:
    """Lets somebody write right after compaction has read the rows of one kind."""

    def __init__(self, store: HistoryStore, kind: str, write: Callable[[], object]) -> None:
        self._scan, self._kind, self._write = store.tables.scan, kind, write
        self.is_done = False

    def __call__(self, kind: Kind, columns: Sequence[str], predicate: str, *more) -> pa.Table:
        found = self._scan(kind, columns, predicate, *more)
        if kind.name == self._kind and "cluster" in columns and not self.is_done:
            self.is_done = True
            self._write()
        return found


def test_an_event_that_comes_while_its_hour_is_put_together_stays(tmp_path, monkeypatch) -> None:
    store, other = store_at(tmp_path), store_at(tmp_path)
    at = round(NOON.timestamp() * 1000)

    def write(second: int, subject: str) -> None:
        row = {"taken_at": [at + second * 1000], "kind": ["run"], "subject": [subject]}
        other.append("events", "fleet", pa.table(row))

    write(1, "first")
    write(3, "third")
    monkeypatch.setattr(
        store.tables, "scan", Interrupted(store, "events", lambda: write(2, "second"))
    )
    late = NOON + timedelta(hours=2)
    assert store.compact("fleet", late).busy == 1
    subjects = other.rows("events", "fleet")["subject"].to_pylist()
    assert subjects == ["first", "second", "third"]
    assert store.compact("fleet", late).busy == 0
    assert other.sizes("fleet")["events"].files == 1
    assert other.rows("events", "fleet")["subject"].to_pylist() == subjects


def test_a_minute_that_comes_while_its_hour_is_put_together_stays(tmp_path, monkeypatch) -> None:
    store, other = store_at(tmp_path), store_at(tmp_path)
    first, late, second = make_history(3, brokers=3, bundles=12, now=NOON + timedelta(minutes=30))
    recorder = Recorder(other, "fleet")
    recorder.record(first)
    recorder.record(second)
    told: list[bool] = []
    monkeypatch.setattr(
        store.tables,
        "scan",
        Interrupted(store, "minutes", lambda: told.append(recorder.record(late).is_new)),
    )
    assert store.compact("fleet", NOON + timedelta(hours=2)).busy == 1
    assert told == [True]
    assert other.minutes("fleet").num_rows == 3
    for snapshot in (first, second, late):
        again = other.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id
