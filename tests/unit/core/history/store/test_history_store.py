"""The history store: what was recorded is read back, once, and nothing else is."""

from __future__ import annotations

import os
import secrets
import threading
import time
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fleet_builder import NOON, make_history
from fleet_edit import edited, with_settings
from pegasus_snapshots import generated
from places import FIXTURES

from core.history.store import tables
from core.history.store.layout import (
    EVENTS,
    MINUTES,
    HistoryError,
    segment_begun_ms,
)
from core.history.store.lease import Lease
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.tables import ConflictingCommitError, Tables, booked
from core.history.store.writer import Recorder
from core.pulsar.snapshot.zkdump import import_zk_dump
from core.snapshot.record import SEGMENT, TAKEN_AT

NOW = NOON + timedelta(minutes=30)


def store_at(folder: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(folder / "history")))


def fleet(count: int, **options) -> list:
    return make_history(count, **({"brokers": 3, "bundles": 12, "now": NOW} | options))


def make_snapshot(**options):
    return fleet(1, **options)[0]


@pytest.mark.parametrize(
    "snapshot",
    [
        import_zk_dump(FIXTURES / "contracts" / "three-brokers.jsonl", "three", NOW),
        import_zk_dump(FIXTURES / "pulsar" / "zk-dump-idle.jsonl", "idle", NOW),
        make_snapshot(brokers=4, bundles=40, missing=("settings",)),
        generated(3, 8, 5, taken_at=NOW),
    ],
    ids=["three", "idle", "incomplete", "pegasus"],
)
def test_a_recorded_snapshot_comes_back_with_its_id_and_its_manifest(tmp_path, snapshot) -> None:
    store = store_at(tmp_path)
    name = snapshot.manifest.cluster
    assert Recorder(store, name).record(snapshot).is_new
    again = store.snapshot_at(name, NOW + timedelta(days=3))
    assert (again.snapshot_id, again.manifest) == (snapshot.snapshot_id, snapshot.manifest)


def test_a_store_without_anything_says_so(tmp_path) -> None:
    store = store_at(tmp_path)
    assert store.clusters() == []
    assert store.span("fleet") is None
    assert store.files("brokers") == []
    assert store.rows("events", "fleet").num_rows == 0
    with pytest.raises(HistoryError, match="No history of 'fleet' is recorded before 2026-11-21"):
        store.snapshot_at("fleet", NOW)


def test_a_moment_before_the_first_minute_has_no_snapshot(tmp_path) -> None:
    store = store_at(tmp_path)
    Recorder(store, "fleet").record(make_snapshot(brokers=3, bundles=6))
    with pytest.raises(HistoryError, match="No history of 'fleet'"):
        store.snapshot_at("fleet", NOW - timedelta(seconds=1))


def test_minutes_and_rows_are_those_of_the_asked_time_and_cluster(tmp_path) -> None:
    store = store_at(tmp_path)
    for name in ("a", "b'c"):
        recorder = Recorder(store, name)
        for snapshot in fleet(3, cluster=name):
            recorder.record(snapshot)
    assert store.clusters() == ["a", "b'c"]
    assert store.span("b'c") == (NOW - timedelta(minutes=2), NOW)
    listed = store.minutes("a", NOW - timedelta(minutes=1))
    assert listed.schema.names == ["taken_at", "snapshot_id", "segment", "system"]
    assert listed.num_rows == 2
    rows = store.rows("brokers", "b'c", end=NOW - timedelta(minutes=1), columns=["broker"])
    assert rows.schema.names == ["taken_at", "broker"]
    assert rows.num_rows == 6
    assert rows["taken_at"].to_pylist() == sorted(rows["taken_at"].to_pylist())


def test_rows_of_one_bundle_are_found_by_its_name(tmp_path) -> None:
    store = store_at(tmp_path)
    recorder = Recorder(store, "fleet")
    history = fleet(3)
    for snapshot in history:
        recorder.record(snapshot)
    bundle = history[0].bundles["bundle"][2].as_py()
    rows = store.rows("bundle_loads", "fleet", columns=["msg_rate_in"], matching={"bundle": bundle})
    assert rows["msg_rate_in"].to_pylist() == [
        one.bundles["msg_rate_in"][2].as_py() for one in history
    ]
    with pytest.raises(HistoryError, match="no column 'bandle'"):
        store.rows("bundle_loads", "fleet", matching={"bandle": bundle})


def test_an_unknown_kind_or_column_is_refused_with_the_known_ones(tmp_path) -> None:
    store = store_at(tmp_path)
    with pytest.raises(HistoryError, match=r"no rows of kind 'broker'.*Available: "):
        store.rows("broker", "fleet")
    with pytest.raises(HistoryError, match=r"no column 'cpu'.*Columns: "):
        store.rows("brokers", "fleet", columns=["cpu"])


def test_what_does_not_change_is_written_once_a_segment(tmp_path) -> None:
    store = store_at(tmp_path)
    recorder = Recorder(store, "fleet")
    first = make_snapshot(now=NOW - timedelta(minutes=3))
    done = [recorder.record(first)]
    for minutes in (1, 2):
        moment = first.manifest.taken_at + timedelta(minutes=minutes)
        same = first.build(make_snapshot(now=moment).manifest, first.tables)
        done.append(recorder.record(same))
    assert [one.is_keyframe for one in done] == [True, False, False]
    assert done[0].rows["bundle_facts"] == 15
    assert done[2].rows["bundle_facts"] == done[2].rows["settings"] == 0
    assert done[2].rows["bundle_loads"] == 15  # busy ones each minute: sums over time are true
    assert done[2].rows["brokers"] == 3


def test_idle_bundles_are_silent_until_they_change(tmp_path) -> None:
    store = store_at(tmp_path)
    recorder = Recorder(store, "fleet")
    rates = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
    history = fleet(3)
    bundle = history[0].bundles["bundle"][0].as_py()
    idle = [edited(one, "bundles", {bundle: dict.fromkeys(rates, 0.0)}) for one in history]
    for snapshot in idle:
        recorder.record(snapshot)
    rows = store.rows("bundle_loads", "fleet")
    assert pc.sum(pc.equal(rows["bundle"], bundle)).as_py() == 1
    assert store.snapshot_at("fleet", NOW).snapshot_id == idle[-1].snapshot_id


def test_a_new_hour_begins_with_all_rows(tmp_path) -> None:
    recorder = Recorder(store_at(tmp_path), "fleet")
    done = [recorder.record(one).is_keyframe for one in fleet(3, now=NOON + timedelta(minutes=1))]
    assert done == [True, True, False]


@pytest.mark.parametrize("is_new_writer", [False, True])
def test_the_same_minute_is_recorded_once(tmp_path, is_new_writer) -> None:
    store = store_at(tmp_path)
    recorder = Recorder(store, "fleet")
    for snapshot in fleet(2):
        recorder.record(snapshot)
    again = Recorder(store, "fleet") if is_new_writer else recorder
    assert not any(again.record(snapshot).is_new for snapshot in fleet(2))
    assert store.minutes("fleet").num_rows == 2
    assert store.rows("brokers", "fleet").num_rows == 6


def test_two_writers_of_one_cluster_never_record_a_minute_twice(tmp_path) -> None:
    store = store_at(tmp_path)
    history = fleet(4)
    new: list[bool] = []

    def write() -> None:
        recorder = Recorder(HistoryStore(store.location), "fleet")
        new.extend(recorder.record(one).is_new for one in history)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.minutes("fleet")["snapshot_id"].to_pylist() == [one.snapshot_id for one in history]
    for snapshot in history:
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id
    assert store.rows("brokers", "fleet").num_rows == 12
    assert new.count(True) == 4


def test_writers_that_begin_in_the_same_millisecond_do_not_share_a_segment(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_464_000_000_000_000)
    drawn = iter((7, 8))
    monkeypatch.setattr(secrets, "randbits", lambda _: next(drawn))
    store = store_at(tmp_path)
    snapshot = make_snapshot()
    first, second = (Recorder(HistoryStore(store.location), "fleet") for _ in range(2))
    assert first.record(snapshot).is_new
    looks = iter((False, True))  # before the first one committed, and after
    monkeypatch.setattr(second, "has", lambda _: next(looks))
    assert not second.record(snapshot).is_new
    assert store.rows("brokers", "fleet").num_rows == 3


def test_a_table_that_two_make_at_once_is_a_conflict_that_is_tried_again(tmp_path) -> None:
    store, snapshot = store_at(tmp_path), make_snapshot()
    Recorder(store, "fleet").record(snapshot)
    stale = store.tables.fresh(MINUTES)
    # what a second writer's creation of the same table leaves: the table's own entry, once more
    store.tables.fresh(MINUTES).alter.set_table_properties({"delta.checkpointInterval": "61"})
    rows = store.rows(MINUTES.name, "fleet")
    again = booked(MINUTES, "fleet", rows, segment=7)
    with pytest.raises(ConflictingCommitError):
        store.tables.append(MINUTES, again, only_one="fleet", basis=stale)
    store.tables.append(MINUTES, again)
    assert store.tables.scan(MINUTES, [SEGMENT], "cluster = 'fleet'").num_rows == 2


def test_writers_of_several_clusters_do_not_disturb_each_other(tmp_path) -> None:
    store = store_at(tmp_path)
    names = ("a", "b", "c")
    wrong: list[Exception] = []

    def write(name: str) -> None:
        recorder = Recorder(HistoryStore(store.location), name)
        try:
            for snapshot in fleet(4, cluster=name):
                recorder.record(snapshot)
        except HistoryError as exc:
            wrong.append(exc)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [store.minutes(name).num_rows for name in names] == [4, 4, 4]


def orphan(store: HistoryStore, snapshot, segment: int) -> None:
    """Rows of a minute that was never committed."""
    kind = KINDS.of("brokers")
    rows = snapshot.brokers.select(kind.columns.names).append_column(
        TAKEN_AT, pa.array([round(snapshot.manifest.taken_at.timestamp() * 1000)] * 3)
    )
    store.tables.append(kind, booked(kind, "fleet", rows, segment=segment))


def test_what_a_killed_writer_left_is_never_seen(tmp_path) -> None:
    store = store_at(tmp_path)
    history = fleet(3)
    recorder = Recorder(store, "fleet")
    recorder.record(history[0])
    orphan(store, history[1], 5)
    assert store.rows("brokers", "fleet").num_rows == 3
    assert store.snapshot_at("fleet", NOW).snapshot_id == history[0].snapshot_id
    Recorder(store, "fleet").record(history[1])
    assert store.rows("brokers", "fleet").num_rows == 6
    store.compact("fleet", NOW + timedelta(hours=3))
    assert store.rows("brokers", "fleet").num_rows == 6
    assert store.sizes("fleet")["brokers"].rows == 6  # and compaction has cleared it away


def test_duckdb_reads_the_files_and_leaves_out_what_is_not_committed(tmp_path) -> None:
    store = store_at(tmp_path)
    history = fleet(2)
    recorder = Recorder(store, "fleet")
    for snapshot in history:
        recorder.record(snapshot)
    orphan(store, history[1], 5)
    minutes, brokers = store.files("minutes", "fleet"), store.files("brokers", "fleet")
    found = duckdb.sql(
        f"""select cluster, count(*) from read_parquet({brokers}, hive_partitioning = true)
        join (select cluster, taken_at, segment
              from read_parquet({minutes}, hive_partitioning = true))
        using (cluster, taken_at, segment) group by cluster"""
    ).fetchall()
    assert found == [("fleet", 6)]


def test_files_are_those_that_may_hold_the_asked_time(tmp_path) -> None:
    store = store_at(tmp_path)
    recorder = Recorder(store, "fleet")
    for snapshot in fleet(4):
        recorder.record(snapshot)
    assert len(store.files("brokers", "fleet")) == 4
    assert len(store.files("brokers", "fleet", NOW - timedelta(seconds=61))) == 2
    assert store.files("brokers", "other") == []


def test_a_write_that_fails_is_told_and_the_next_minute_begins_a_segment(tmp_path) -> None:
    store = store_at(tmp_path)
    history = fleet(3)
    recorder = Recorder(store, "fleet")
    recorder.record(history[0])
    log = tmp_path / "history" / "bundle_averages" / "_delta_log"
    aside = log.rename(log.with_name("_aside"))
    log.write_text("in the way")
    with pytest.raises(HistoryError, match="cannot be used"):
        recorder.record(history[1])
    log.unlink()
    aside.rename(log)
    assert recorder.record(history[2]).is_keyframe
    assert store.minutes("fleet").num_rows == 2
    assert store.rows("brokers", "fleet").num_rows == 6
    assert store.snapshot_at("fleet", NOW).snapshot_id == history[2].snapshot_id


def test_appended_rows_count_by_themselves(tmp_path) -> None:
    store = store_at(tmp_path)
    at = round(NOW.timestamp() * 1000)
    store.append(
        "events", "fleet", pa.table({"taken_at": [at], "kind": ["step"], "by": ["trimtab"]})
    )
    assert store.rows("events", "fleet", columns=["kind", "by", "run_id"]).to_pylist() == [
        {"taken_at": at, "kind": "step", "by": "trimtab", "run_id": None}
    ]
    assert store.clusters() == []  # clusters are those with a minute


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (pa.table({"kind": ["step"]}), "they have no time"),
        (pa.table({"taken_at": [1], "wrong": ["x"]}), "unknown: wrong"),
    ],
)
def test_appended_rows_that_do_not_fit_are_refused(tmp_path, rows, says) -> None:
    with pytest.raises(HistoryError, match=says):
        store_at(tmp_path).append("events", "fleet", rows)


def test_a_place_that_cannot_be_written_is_one_clean_error(tmp_path) -> None:
    (tmp_path / "history").write_text("a file")
    with pytest.raises(HistoryError, match="cannot be used"):
        Recorder(store_at(tmp_path), "fleet").record(make_snapshot(brokers=2, bundles=2))


def test_a_history_of_another_form_is_refused(tmp_path, monkeypatch) -> None:
    store = store_at(tmp_path)
    store.append("events", "fleet", pa.table({"taken_at": [1]}))
    log = next((tmp_path / "history" / "events" / "_delta_log").glob("*0.json"))
    log.write_text(
        log.read_text().replace('"trimtab.schemaVersion":"1"', '"trimtab.schemaVersion":"9"')
    )
    with pytest.raises(HistoryError, match="has format version 9; this version of Trimtab reads 1"):
        store_at(tmp_path).rows("events", "fleet")


def test_a_minute_whose_rows_were_changed_is_refused(tmp_path) -> None:
    store = store_at(tmp_path)
    Recorder(store, "fleet").record(make_snapshot(brokers=2, bundles=4))
    store.tables.table("settings").delete("name = 'loadBalancerEnabled'")
    with pytest.raises(HistoryError, match="is altered at 2026-11-21 12:30:00Z"):
        store.snapshot_at("fleet", NOW)


def test_a_file_address_serves_as_well_as_a_path(tmp_path) -> None:
    store = HistoryStore(HistoryLocation((tmp_path / "by address").as_uri()))
    snapshot = with_settings(make_snapshot(brokers=2, bundles=4), (None, "a", "b", "file"))
    Recorder(store, "fleet").record(snapshot)
    assert store.snapshot_at("fleet", NOW).snapshot_id == snapshot.snapshot_id
    assert (tmp_path / "by address" / "minutes").is_dir()


def test_minutes_carry_the_form_they_were_written_in(tmp_path) -> None:
    store = store_at(tmp_path)
    Recorder(store, "fleet").record(make_snapshot(brokers=2, bundles=4))
    found = store.rows(MINUTES.name, "fleet", columns=["schema_version", SEGMENT])
    assert found["schema_version"].to_pylist() == [1]
    assert EVENTS.stored.names[:4] == ["cluster", "day", "taken_at", "segment"]
    begun_ms = segment_begun_ms(found[SEGMENT].to_numpy())[0]
    assert abs(time.time() * 1000 - begun_ms) < 60_000


@pytest.mark.skipif("TRIMTAB_TEST_S3" not in os.environ, reason="names an S3 endpoint, if any")
def test_an_object_store_serves_several_writers(tmp_path) -> None:
    """``TRIMTAB_TEST_S3=http://127.0.0.1:5000``: any S3 API with a bucket named ``trimtab``."""
    options = {
        "AWS_ENDPOINT_URL": os.environ["TRIMTAB_TEST_S3"],
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
    }
    store = HistoryStore(HistoryLocation(f"s3://trimtab/{tmp_path.name}-{os.getpid()}", options))

    def write(name: str) -> None:
        recorder = Recorder(HistoryStore(store.location), name)
        for snapshot in fleet(3, cluster=name):
            recorder.record(snapshot)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.compact("a", NOW + timedelta(hours=3))
    for name in ("a", "b"):
        for snapshot in fleet(3, cluster=name):
            again = store.snapshot_at(name, snapshot.manifest.taken_at)
            assert again.snapshot_id == snapshot.snapshot_id


def test_a_recorder_that_goes_on_does_not_read_its_minutes_again(tmp_path, monkeypatch) -> None:
    store = store_at(tmp_path)
    first, *later = fleet(4)
    recorder = Recorder(store, "fleet", lease=Lease(60.0))
    assert recorder.record(first).is_new
    scanned: list[str] = []
    scan = Tables.scan
    monkeypatch.setattr(
        Tables,
        "scan",
        lambda self, kind, *rest: scanned.append(kind.name) or scan(self, kind, *rest),
    )
    assert all(recorder.record(one).is_new for one in later)
    assert scanned == []
    assert not recorder.record(later[-1]).is_new
    assert store.minutes("fleet").num_rows == 4


def test_a_followed_table_is_opened_again_after_many_commits(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "_FOLLOWED_FOR", 2)
    store, snapshots = store_at(tmp_path), fleet(7)
    recorder = Recorder(store, "fleet")
    found = [store.tables.table("minutes") for one in snapshots if recorder.record(one).is_new]
    assert len({id(one) for one in found}) > 1
    assert store.minutes("fleet").num_rows == 7
    assert store.snapshot_at("fleet", NOW).snapshot_id == snapshots[-1].snapshot_id
