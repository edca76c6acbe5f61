"""What happened between two snapshots."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, owned_by, with_manifest, with_settings, without

from core.errors import InputError
from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot
from core.snapshot.diff import MOVES, SETTING_CHANGES, SPLITS, diff_snapshots

HOT, COOL = "10.1.0.11:8080", "10.1.0.5:8080"


@pytest.fixture(scope="module")
def before() -> PulsarSnapshot:
    return make_snapshot()


def later(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    return with_manifest(snapshot, taken_at=snapshot.manifest.taken_at + timedelta(minutes=1))


def split_in_two(snapshot: PulsarSnapshot, bundle: str) -> tuple[PulsarSnapshot, list[str]]:
    rows = snapshot.bundles.to_pylist()
    old = next(row for row in rows if row["bundle"] == bundle)
    rows.remove(old)
    middle = (old["lower"] + old["upper"]) // 2
    parts = []
    for low, up in ((old["lower"], middle), (middle, old["upper"])):
        part = {**old, "lower": low, "upper": up}
        part["bundle"] = f"{old['namespace']}/0x{low:08x}_0x{up:08x}"
        parts.append(part["bundle"])
        rows.append(part)
    table = pa.Table.from_pylist(rows, schema=PULSAR_TABLES["bundles"])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "bundles": table}), parts


def test_nothing_happened(before) -> None:
    diff = diff_snapshots(before, later(before))
    assert diff.is_empty
    assert diff.moved.schema == MOVES
    assert diff.splits.schema == SPLITS
    assert diff.settings.schema == SETTING_CHANGES


def test_a_move_names_both_brokers(before) -> None:
    bundle = owned_by(before, HOT)[0]
    diff = diff_snapshots(before, later(edited(before, "bundles", {bundle: {"owner": COOL}})))
    assert diff.moved.to_pylist() == [{"bundle": bundle, "from_broker": HOT, "to_broker": COOL}]
    assert not diff.is_empty


def test_losing_and_finding_an_owner_are_moves(before) -> None:
    bundle = owned_by(before, HOT)[0]
    nobody = edited(before, "bundles", {bundle: {"owner": None}})
    lost = diff_snapshots(before, later(nobody)).moved.to_pylist()
    assert lost == [{"bundle": bundle, "from_broker": HOT, "to_broker": None}]
    back = diff_snapshots(nobody, later(before)).moved.to_pylist()
    assert back == [{"bundle": bundle, "from_broker": None, "to_broker": HOT}]


def test_an_owner_that_could_not_be_read_did_not_move(before) -> None:
    bundle = owned_by(before, HOT)[0]
    unread = edited(before, "bundles", {bundle: {"owner": None, "owner_source": None}})
    assert diff_snapshots(before, later(unread)).is_empty


def test_a_split_names_parent_and_parts_and_is_no_move(before) -> None:
    bundle = owned_by(before, HOT)[0]
    after, parts = split_in_two(before, bundle)
    diff = diff_snapshots(before, later(after))
    assert diff.splits.to_pylist() == [{"parent": bundle, "children": parts}]
    assert diff.appeared == ()
    assert diff.gone == ()
    assert diff.moved.num_rows == 0


def test_bundles_come_and_go(before) -> None:
    bundle = owned_by(before, HOT)[0]
    fewer = without(before, "bundles", bundle)
    assert diff_snapshots(before, later(fewer)).gone == (bundle,)
    assert diff_snapshots(fewer, later(before)).appeared == (bundle,)


def test_brokers_join_leave_and_restart(before) -> None:
    fewer = without(before, "brokers", COOL)
    assert diff_snapshots(before, later(fewer)).brokers_left == (COOL,)
    assert diff_snapshots(fewer, later(before)).brokers_joined == (COOL,)
    started = next(row for row in before.brokers.to_pylist() if row["broker"] == COOL)["started_at"]
    again = edited(before, "brokers", {COOL: {"started_at": started + 60_000}})
    assert diff_snapshots(before, later(again)).brokers_restarted == (COOL,)


def test_a_change_of_leader_names_both(before) -> None:
    diff = diff_snapshots(before, later(with_manifest(before, leader=COOL)))
    assert diff.leader == (before.manifest.leader, COOL)


def test_settings_change_per_broker_and_for_all(before) -> None:
    one = with_settings(before, (None, "a", "1", "default"), (HOT, "b", "1", "file"))
    other = with_settings(before, (None, "a", "2", "dynamic"), (None, "c", "3", "dynamic"))
    rows = diff_snapshots(one, later(other)).settings.to_pylist()
    assert rows == [
        {"broker": None, "name": "a", "before": "1", "after": "2"},
        {"broker": HOT, "name": "b", "before": "1", "after": None},
        {"broker": None, "name": "c", "before": None, "after": "3"},
    ]


def test_two_clusters_are_not_compared(before) -> None:
    with pytest.raises(InputError, match="different clusters"):
        diff_snapshots(before, with_manifest(before, cluster="other"))


def test_the_later_one_comes_second(before) -> None:
    with pytest.raises(InputError, match="newer than the second"):
        diff_snapshots(later(before), before)
