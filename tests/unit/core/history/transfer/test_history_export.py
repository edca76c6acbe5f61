"""Exports: one file that opens again elsewhere, and files that are refused."""

from __future__ import annotations

import hashlib
import io
import json
import weakref
import zipfile
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleet_builder import NOON, make_history
from pegasus_snapshots import generated

from core.errors import SnapshotError
from core.history.store.encoding import ROW_GROUP
from core.history.store.layout import HistoryError
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.history.transfer.export import export, write_member
from core.history.transfer.importing import export_snapshots, import_file, import_snapshots
from core.snapshot.store import SnapshotStore, save_snapshot

NOW = NOON + timedelta(minutes=2)


def store_at(folder: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(folder)))


def fleet(count: int = 5) -> list:
    """Minutes on both sides of an hour."""
    return make_history(count, brokers=3, bundles=12, now=NOW)


def filled(folder: Path, minutes: list) -> HistoryStore:
    store = store_at(folder)
    recorder = Recorder(store, "fleet")
    for snapshot in minutes:
        recorder.record(snapshot)
    store.append(
        "events", "fleet", pa.table({"taken_at": [round(NOW.timestamp() * 1000)], "kind": ["run"]})
    )
    return store


def test_an_export_opens_elsewhere_with_every_minute_and_event(tmp_path) -> None:
    here = filled(tmp_path / "a", fleet())
    assert export(here, "fleet", None, None, tmp_path / "x.zip") == 5
    there = store_at(tmp_path / "b")
    assert import_file(there, tmp_path / "x.zip") == 5
    for snapshot in fleet():
        again = there.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert (again.snapshot_id, again.manifest) == (snapshot.snapshot_id, snapshot.manifest)
    for kind in ("events", "brokers", "bundle_loads", "settings"):
        assert there.rows(kind, "fleet").num_rows == here.rows(kind, "fleet").num_rows
    assert import_file(there, tmp_path / "x.zip") == 0
    assert there.rows("events", "fleet").num_rows == here.rows("events", "fleet").num_rows


def test_an_export_opens_under_another_name(tmp_path) -> None:
    export(filled(tmp_path / "a", fleet(2)), "fleet", None, None, tmp_path / "x.zip")
    there = store_at(tmp_path / "b")
    assert import_file(there, tmp_path / "x.zip", as_cluster="support case 7") == 2
    assert there.clusters() == ["support case 7"]
    again = there.snapshot_at("support case 7", NOW)
    assert again.manifest.cluster == "support case 7"
    assert again.bundles.equals(fleet(1)[0].bundles)


def test_a_range_begins_with_its_hour(tmp_path) -> None:
    here = filled(tmp_path / "a", fleet())
    assert export(here, "fleet", NOW, NOW, tmp_path / "x.zip") == 3
    assert export(here, "fleet", None, NOON - timedelta(minutes=1), tmp_path / "y.zip") == 2


def test_minutes_between_others_are_taken_in_one_by_one(tmp_path) -> None:
    minutes = fleet()
    export(filled(tmp_path / "a", minutes), "fleet", None, None, tmp_path / "x.zip")
    there = store_at(tmp_path / "b")
    Recorder(there, "fleet").record(minutes[3])
    assert import_file(there, tmp_path / "x.zip") == 4
    for snapshot in minutes:
        again = there.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id
    assert there.rows("brokers", "fleet").num_rows == 15


def test_a_file_that_is_there_is_not_overwritten_and_nothing_is_nothing(tmp_path) -> None:
    here = filled(tmp_path / "a", fleet(1))
    (tmp_path / "x.zip").write_text("mine")
    with pytest.raises(HistoryError, match="already exists"):
        export(here, "fleet", None, None, tmp_path / "x.zip")
    with pytest.raises(HistoryError, match="No history of 'other' is recorded"):
        export(here, "other", None, None, tmp_path / "y.zip")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "x.zip"]


def repacked(source: Path, target: Path, change) -> None:
    """Write an archive again, its members changed: ``change(name, bytes)``, ``None`` drops one."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)


def contents_with(**changes):
    def change(name: str, raw: bytes) -> bytes:
        if name != "history.json":
            return raw
        return json.dumps(json.loads(raw) | changes).encode()

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda n, raw: None if n == "history.json" else raw, "history.json is missing"),
        (lambda n, raw: b"{" if n == "history.json" else raw, "history.json cannot be read"),
        (lambda n, raw: None if n.startswith("brokers/") else raw, "is missing"),
        (lambda n, raw: raw[:-1] + b"x" if n.startswith("brokers/") else raw, "was altered"),
        (
            contents_with(format="else"),
            "has format else 1; this version of Trimtab reads trimtab-history 1",
        ),
        (contents_with(schema_version=9), "has format trimtab-history 9"),
        (
            contents_with(
                members=[{"name": "../x", "kind": "odd", "hour": 1, "rows": 1, "sha256": ""}]
            ),
            "rows of unknown kind 'odd'",
        ),
    ],
)
def test_a_damaged_or_foreign_archive_is_refused_whole(tmp_path, change, says) -> None:
    export(filled(tmp_path / "a", fleet(2)), "fleet", None, None, tmp_path / "x.zip")
    repacked(tmp_path / "x.zip", tmp_path / "y.zip", change)
    with pytest.raises(HistoryError, match=says):
        import_file(store_at(tmp_path / "b"), tmp_path / "y.zip")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(tmp_path, cut) -> None:
    export(filled(tmp_path / "a", fleet(1)), "fleet", None, None, tmp_path / "x.zip")
    raw = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "y.zip").write_bytes(raw[: cut if cut > 1 else int(len(raw) * cut)])
    with pytest.raises(HistoryError, match=r"y\.zip"):
        import_file(store_at(tmp_path / "b"), tmp_path / "y.zip")
    with pytest.raises(HistoryError, match="cannot be opened: No such file"):
        import_file(store_at(tmp_path / "b"), tmp_path / "z.zip")


def test_nothing_is_written_where_an_archive_says_so(tmp_path) -> None:
    export(filled(tmp_path / "a", fleet(1)), "fleet", None, None, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip", "a") as archive:
        archive.writestr("../../evil", b"x")
    assert import_file(store_at(tmp_path / "in" / "b"), tmp_path / "x.zip") == 1
    assert not list(tmp_path.rglob("evil"))


def test_a_shelf_is_recorded_afterwards_minute_by_minute(tmp_path) -> None:
    snapshot_store = SnapshotStore(tmp_path / "shelf")
    for snapshot in [*fleet(3), generated(2, 4, 4, taken_at=NOW)]:
        snapshot_store.put(snapshot)
    store = store_at(tmp_path / "b")
    assert import_snapshots(store, tmp_path / "shelf") == 4
    assert store.clusters() == ["fleet", "peg"]
    assert import_snapshots(store, tmp_path / "shelf", "fleet") == 0
    for snapshot in fleet(3):
        again = store.snapshot_at("fleet", snapshot.manifest.taken_at)
        assert again.snapshot_id == snapshot.snapshot_id


def test_a_snapshot_directory_becomes_one_file_and_opens_again(tmp_path) -> None:
    save_snapshot(fleet(1)[0], tmp_path / "s")
    assert export_snapshots(tmp_path / "s", None, tmp_path / "x.zip") == 1
    store = store_at(tmp_path / "b")
    assert import_file(store, tmp_path / "x.zip") == 1
    assert store.snapshot_at("fleet", NOW).snapshot_id == fleet(1)[0].snapshot_id


def test_a_place_without_snapshots_is_named(tmp_path) -> None:
    with pytest.raises(HistoryError, match="No snapshot in"):
        import_snapshots(store_at(tmp_path / "b"), tmp_path)
    with pytest.raises(SnapshotError, match="cannot be read"):
        import_snapshots(store_at(tmp_path / "b"), tmp_path / "nowhere")


class Counting(io.BytesIO):
    """A file that counts what reaches it."""

    total = 0

    def write(self, content) -> int:
        self.total += len(memoryview(content))
        return super().write(content)


def test_rows_reach_the_file_as_they_are_read_and_are_let_go() -> None:
    """Of 40 groups of rows, never more than two are held: a long range needs no more memory."""
    groups, drawn, alive = 40, [], []
    raw = Counting()
    chance = np.random.default_rng(7)

    def rows():
        for at in range(groups * 4):
            batch = pa.table({"taken_at": chance.integers(0, 3_600_000, ROW_GROUP // 4)})
            alive.append(weakref.ref(batch))
            drawn.append(raw.total)
            assert sum(one() is not None for one in alive) <= 9, at
            yield batch
            del batch

    with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        member = write_member(archive, KINDS.of("brokers"), 0, rows())
        assert write_member(archive, KINDS.of("nodes"), 0, iter(())) is None
        assert archive.namelist() == ["brokers/0.parquet"]
    held_back = [later - earlier for earlier, later in pairwise(drawn[::4])]
    assert min(held_back[2:]) > 0.5 * raw.total / groups
    with zipfile.ZipFile(raw) as archive:
        content = archive.read(member.name)
    assert hashlib.sha256(content).hexdigest() == member.sha256
    assert pq.read_metadata(io.BytesIO(content)).num_rows == member.rows == groups * ROW_GROUP
