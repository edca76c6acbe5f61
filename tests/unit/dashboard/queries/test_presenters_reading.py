from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fleet_builder import make_history

from core.ids import SnapshotId
from core.snapshot.store import CachedSnapshot, SnapshotStore
from dashboard.presenters.moves import moves_between
from dashboard.queries.pulsar.snapshots import bundle_history, moves_seen
from dashboard.queries.snapshots import saved_snapshots, span_minutes, thinned, within

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def entries(count, every_s):
    return [
        CachedSnapshot(
            START + timedelta(seconds=step * every_s), SnapshotId(f"{step:016x}"), Path("none")
        )
        for step in range(count)
    ]


def test_few_entries_are_all_kept():
    some = entries(5, 60)
    assert thinned(some, 10) == some


@pytest.mark.parametrize(("count", "every_s"), [(360, 10), (1_440, 60), (91, 7), (400, 1)])
def test_many_entries_are_thinned_and_the_newest_is_kept(count, every_s):
    picked = thinned(entries(count, every_s), 90)
    assert 20 <= len(picked) <= 92
    assert picked[-1] == entries(count, every_s)[-1]
    assert picked == sorted(picked, key=lambda one: one.taken_at)


def test_choice_among_older_entries_stays_when_a_newer_one_comes():
    all_of_them = entries(361, 10)
    before, after = thinned(all_of_them[:-1], 90), thinned(all_of_them, 90)
    assert len(set(before[:-1]) - set(after)) <= 1


def test_window_ends_with_the_chosen_moment():
    some = entries(10, 60)
    picked = within(some, some[6].taken_at, timedelta(minutes=2))
    assert picked == some[4:7]
    assert span_minutes(picked) == pytest.approx(2.0)
    assert span_minutes(picked[:1]) == 0.0


def test_moves_of_kept_snapshots_are_those_of_their_tables(tmp_path):
    history = make_history(6, every_minutes=8, brokers=5, bundles=80)
    snapshot_store = SnapshotStore(tmp_path)
    for snapshot in history:
        snapshot_store.put(snapshot)
    kept = saved_snapshots(snapshot_store, "fleet").entries
    tables = [
        (entry.taken_at, snapshot.bundles.select(["bundle", "owner"]))
        for entry, snapshot in zip(kept, history, strict=True)
    ]
    assert moves_seen(kept) == moves_between(tables)
    assert moves_seen(kept)


def test_history_of_one_bundle_is_read_from_every_kept_snapshot(tmp_path):
    snapshot_store = SnapshotStore(tmp_path)
    history = make_history(4, brokers=5, bundles=80)
    for snapshot in history:
        snapshot_store.put(snapshot)
    kept = saved_snapshots(snapshot_store, "fleet").entries
    row = history[0].bundles.slice(7, 1).to_pylist()[0]
    found = bundle_history(kept, row["namespace"], row["lower"])
    assert found.num_rows == 4
    assert set(found["bundle"].to_pylist()) == {row["bundle"]}
    gone = [CachedSnapshot(START, SnapshotId("x"), tmp_path / "gone"), *kept]
    assert bundle_history(gone, row["namespace"], row["lower"]).num_rows == 4
