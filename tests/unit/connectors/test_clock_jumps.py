"""A clock that jumps: what it wrote is never the newest, and nothing real is deleted for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_builder import NOON, make_history

from connectors.config.storage import History, Pipeline
from connectors.journal.engine import Database
from connectors.journal.lease import SqlLease
from connectors.recording.upkeep import keep_in_order
from connectors.worker.status import WorkerStatus
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import Retention, SnapshotStore
from core.units import format_age, format_ago
from dashboard.presenters import freshness, jobs, workers

AHEAD = timedelta(days=100)
MINUTE = timedelta(minutes=1)


def taken(moment: datetime) -> PulsarSnapshot:
    return PulsarSnapshot.build(Manifest(cluster="c", taken_at=moment, tables={}), {})


def jumped_store(root: Path) -> SnapshotStore:
    """Ten minutes of snapshots, then 22 s of a collector whose clock is 100 days ahead."""
    snapshot_store = SnapshotStore(root)
    for minute in range(10):
        snapshot_store.put(taken(NOON + minute * MINUTE), Retention())
    for second in (0, 11, 22):
        moment = NOON + 10 * MINUTE + AHEAD + timedelta(seconds=second)
        snapshot_store.put(taken(moment), Retention())
    return snapshot_store


def test_collector_on_a_jumped_clock_deletes_nothing(tmp_path: Path) -> None:
    snapshot_store = jumped_store(tmp_path)
    assert len(snapshot_store.entries("c")) == 13


def test_snapshot_from_the_future_is_never_the_newest(tmp_path: Path) -> None:
    snapshot_store = jumped_store(tmp_path)
    now = NOON + 11 * MINUTE
    latest = snapshot_store.latest("c", now)
    assert latest is not None
    assert latest.taken_at == NOON + 9 * MINUTE
    snapshot_store.put(taken(now), Retention())
    latest = snapshot_store.latest("c", now)
    assert latest is not None
    assert latest.taken_at == now
    # what is ahead goes first where there are too many
    snapshot_store.put(taken(now + MINUTE), Retention(max_count=11))
    left = [one.taken_at for one in snapshot_store.entries("c")]
    assert len(left) == 11
    assert max(left) == now + MINUTE


def test_snapshots_from_the_future_do_not_push_out_real_ones_by_count(tmp_path: Path) -> None:
    limit, snapshot_store = Retention(max_count=5), SnapshotStore(tmp_path)
    for minute in range(5):
        snapshot_store.put(taken(NOON + minute * MINUTE), limit)
    later = NOON + 5 * MINUTE + AHEAD
    for second in range(0, 80, 10):
        snapshot_store.put(taken(later + timedelta(seconds=second)), limit)
    kept = [one.taken_at for one in snapshot_store.entries("c")]
    assert kept[:5] == [NOON + minute * MINUTE for minute in range(5)]
    assert kept[5:] == [later + timedelta(seconds=second) for second in range(30, 80, 10)]
    # the clock is right again: what is ahead goes, what is real stays
    snapshot_store.put(taken(NOON + 5 * MINUTE), limit)
    kept = [one.taken_at for one in snapshot_store.entries("c")]
    assert kept == [NOON + minute * MINUTE for minute in range(1, 6)]


def test_by_bytes_they_push_out_half_of_the_real_ones_at_most(tmp_path: Path) -> None:
    snapshot_store = SnapshotStore(tmp_path)
    for minute in range(4):
        snapshot_store.put(taken(NOON + minute * MINUTE))
    size = sum(part.stat().st_size for part in snapshot_store.entries("c")[0].path.iterdir())
    limit = Retention(max_bytes=4 * size + size // 2)
    later = NOON + 4 * MINUTE + AHEAD
    for second in range(0, 80, 10):
        snapshot_store.put(taken(later + timedelta(seconds=second)), limit)
    kept = [one.taken_at for one in snapshot_store.entries("c")]
    assert kept[:2] == [NOON + 2 * MINUTE, NOON + 3 * MINUTE]
    assert kept[2:] == [later + timedelta(seconds=60), later + timedelta(seconds=70)]


def test_age_retention_waits_for_a_day_after_a_jump_and_says_so(tmp_path: Path) -> None:
    snapshot_store = jumped_store(tmp_path)
    later = NOON + 10 * MINUTE + AHEAD
    jump = snapshot_store.jump("c", later + MINUTE, Retention())
    assert jump is not None
    assert "2027-03-02 12:10 UTC" in str(jump)
    assert "recorded for 100" in str(jump)
    # no jump after all: a clock that has run on for a day is believed
    for hour in range(1, 26):
        snapshot_store.put(taken(later + timedelta(hours=hour)), Retention())
    assert snapshot_store.jump("c", later + timedelta(hours=25), Retention()) is None
    assert min(one.taken_at for one in snapshot_store.entries("c")) > NOON + AHEAD


def test_history_on_a_jumped_clock_keeps_its_days_and_says_so(tmp_path: Path) -> None:
    store = HistoryStore(HistoryLocation(str(tmp_path / "history")))
    recorder = Recorder(store, "fleet")
    for snapshot in make_history(3, brokers=2, bundles=4, now=NOON, cluster="fleet"):
        recorder.record(snapshot)
    limits = History(max_age_days=30)
    done = keep_in_order(store, "fleet", limits, NOON + AHEAD, Pipeline())
    assert done.days == ()
    assert store.minutes("fleet").num_rows == 3
    assert "may have jumped" in done.paused
    assert keep_in_order(store, "fleet", limits, NOON + MINUTE, Pipeline()).paused == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s ago"), (-8_640_000.0, "clock ahead by 100 d"), (-5.0, "clock ahead by 5 s")],
)
def test_negative_age_is_named(seconds: float, text: str) -> None:
    assert format_ago(seconds) == text
    assert not format_age(-5.0).startswith("0")


def test_header_does_not_call_the_future_live() -> None:
    manifest = Manifest(cluster="c", taken_at=NOON + AHEAD, tables={})
    assert freshness.is_stale(manifest, now=NOON, every_s=60.0)
    badge = freshness.freshness_badge(manifest, now=NOON, every_s=60.0, status={})
    assert badge.text == "clock ahead by 100 d"
    assert badge.tone == "orange"
    paused = freshness.freshness_badge(
        Manifest(cluster="c", taken_at=NOON, tables={}),
        now=NOON,
        every_s=60.0,
        status={"retention_paused": "Age retention is paused."},
    )
    assert "retention is paused" in paused.help


def test_what_reported_in_the_future_is_not_alive() -> None:
    seen = (NOON + AHEAD).isoformat()
    status = WorkerStatus(cluster="c", worker="w", pid=1, last_seen_at=seen)
    assert not status.is_alive(NOON)
    shown = {"last_seen_at": seen, "worker": "w"}
    worker = workers.worker_state(shown, cluster="c", now=NOON)
    assert not worker.is_alive
    assert "ahead by 100" in worker.sentence
    assert not jobs.server_state(shown, now=NOON).is_alive


def test_lease_from_the_future_ends_within_its_lifetime(tmp_path: Path) -> None:
    clock = [NOON.timestamp() + AHEAD.total_seconds()]
    database = Database(f"sqlite:///{tmp_path / 'journal.db'}")
    gone = SqlLease(database, "c", "gone", clock=lambda: clock[0])
    gone._renewer = object()  # type: ignore[assignment]  # killed: nothing renews it
    assert gone.acquire()
    clock[0] = NOON.timestamp()
    other = SqlLease(database, "c", "other", clock=lambda: clock[0])
    assert not other.acquire()
    clock[0] += 31.0
    assert other.acquire()
    other.release()
    assert datetime.now(UTC) > NOON - AHEAD
