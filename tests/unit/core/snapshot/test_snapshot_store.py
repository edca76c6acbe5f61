"""The shelf: what it keeps, what it drops, and what a killed process left on it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.errors import SnapshotError
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import (
    Retention,
    SnapshotStore,
    load_manifest,
    load_snapshot,
    save_snapshot,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE_S = 60.0


def snapshot_at(minutes: int) -> PulsarSnapshot:
    moment = NOON + timedelta(minutes=minutes)
    return PulsarSnapshot.build(Manifest(cluster="c", taken_at=moment, tables={}), {})


def filled(root: Path, count: int, retention: Retention | None = None) -> SnapshotStore:
    snapshot_store = SnapshotStore(root)
    for minutes in range(count):
        snapshot_store.put(snapshot_at(minutes), retention)
    return snapshot_store


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(max_count=3), [3, 4, 5]),
        (Retention(max_age_s=2 * MINUTE_S), [3, 4, 5]),
        (Retention(max_bytes=1), [5]),
        (Retention(max_count=0, max_age_s=0), [5]),
        (Retention(), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_is_over_any_limit_is_dropped_but_never_the_newest(
    tmp_path: Path, retention: Retention, kept: list[int]
) -> None:
    snapshot_store = filled(tmp_path, 6, retention)
    minutes = [
        (entry.taken_at - NOON).total_seconds() / MINUTE_S for entry in snapshot_store.entries("c")
    ]
    assert minutes == kept
    latest = snapshot_store.latest("c", datetime.now(UTC))
    assert latest is not None
    assert load_snapshot(latest.path).manifest.taken_at == NOON + timedelta(minutes=5)
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        entry.path.name for entry in snapshot_store.entries("c")
    }


def test_leavings_of_a_killed_process_are_no_snapshots_and_go_when_they_are_old(
    tmp_path: Path,
) -> None:
    snapshot_store = filled(tmp_path, 1)
    old = NOON.timestamp() - 2 * 3_600
    for name, moment in ((".partial-a", old), (".dropped-b", old), (".partial-new", None)):
        left = tmp_path / "c" / name
        left.mkdir()
        (left / "brokers.parquet").write_bytes(b"PAR1")
        if moment is not None:
            os.utime(left, (moment, moment))
        else:
            os.utime(left, (NOON.timestamp(), NOON.timestamp()))
    assert len(snapshot_store.entries("c")) == 1
    snapshot_store.put(snapshot_at(1), Retention())
    hidden = {path.name for path in (tmp_path / "c").glob(".*")}
    assert hidden == {".partial-new"}


def test_clusters_without_a_snapshot_are_not_listed(tmp_path: Path) -> None:
    assert SnapshotStore(tmp_path / "absent").clusters() == []
    snapshot_store = filled(tmp_path, 1)
    (tmp_path / "empty").mkdir()
    assert snapshot_store.clusters() == ["c"]
    assert snapshot_store.latest("empty", NOON) is None


def test_place_that_cannot_hold_a_snapshot_is_one_clean_error(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("mine")
    for directory in (taken, taken / "below", tmp_path):
        with pytest.raises(SnapshotError, match=str(directory)):
            save_snapshot(snapshot_at(0), directory)
    assert taken.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"snapshot_id":"\xff"}', b"{}"])
def test_damaged_manifest_is_one_clean_error(tmp_path: Path, raw: bytes) -> None:
    save_snapshot(snapshot_at(0), tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_bytes(raw)
    with pytest.raises(SnapshotError, match="damaged"):
        load_manifest(tmp_path / "s")


def test_what_is_named_otherwise_is_no_snapshot(tmp_path: Path) -> None:
    snapshot_store = filled(tmp_path, 2)
    for name in ("notes", "20261121T120000000-a", "20261121T120000000Z"):
        (tmp_path / "c" / name).mkdir()
    assert [one.taken_at for one in snapshot_store.entries("c")] == [
        NOON,
        NOON + timedelta(minutes=1),
    ]
