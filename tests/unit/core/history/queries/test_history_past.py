"""Past minutes as snapshot directories: written once, few of them kept."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from fleet_builder import NOON, make_history
from history_rows import CLUSTER, recorded, store_in

from core.errors import SnapshotError
from core.history.queries.point_in_time import PastMinutes
from core.snapshot.store import load_snapshot


@pytest.fixture(scope="module")
def history():
    return make_history(4, brokers=4, bundles=40, now=NOON)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def store(place, history):
    opened = store_in(place)
    recorded(opened, history)
    return opened


def test_past_minute_is_the_recorded_snapshot(tmp_path, store, history):
    past = PastMinutes(store, tmp_path / "past")
    found = past.at(CLUSTER, history[0].manifest.taken_at)
    assert found.snapshot_id == history[0].snapshot_id
    assert load_snapshot(found.path).snapshot_id == history[0].snapshot_id


def test_between_two_minutes_the_earlier_one_is_meant(tmp_path, store, history):
    past = PastMinutes(store, tmp_path / "past")
    found = past.at(CLUSTER, history[1].manifest.taken_at + timedelta(seconds=20))
    assert found.snapshot_id == history[1].snapshot_id


def test_written_minute_is_found_without_the_history(tmp_path, store, history):
    moment = history[2].manifest.taken_at
    first = PastMinutes(store, tmp_path / "past").at(CLUSTER, moment)
    nothing = store_in(tmp_path / "nothing was recorded here")
    assert PastMinutes(nothing, tmp_path / "past").at(CLUSTER, moment) == first


def test_those_not_looked_at_for_longest_are_dropped(tmp_path, store, history):
    past = PastMinutes(store, tmp_path / "past", max_count=2)
    first, second, third = [past.at(CLUSTER, one.manifest.taken_at) for one in history[:2]] + [None]
    os.utime(first.path, (1, 1))
    os.utime(second.path, (2, 2))
    third = past.at(CLUSTER, history[2].manifest.taken_at)
    assert not first.path.exists()
    assert second.path.exists()
    assert third.path.exists()


def test_the_wanted_one_is_kept_however_large(tmp_path, store, history):
    past = PastMinutes(store, tmp_path / "past", max_bytes=1)
    assert past.at(CLUSTER, history[0].manifest.taken_at).path.exists()
    second = past.at(CLUSTER, history[1].manifest.taken_at)
    assert [one.name for one in (tmp_path / "past" / CLUSTER).iterdir()] == [second.path.name]


def test_nothing_recorded_until_then_is_an_error(tmp_path, store, history):
    past = PastMinutes(store, tmp_path / "past")
    with pytest.raises(SnapshotError):
        past.at(CLUSTER, history[0].manifest.taken_at - timedelta(days=1))
