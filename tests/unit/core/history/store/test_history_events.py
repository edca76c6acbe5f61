"""Events: what is found by comparing a minute with the last one, and what is no event."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from fleet_builder import NOON, make_snapshot
from fleet_edit import edited, with_manifest, with_policies, with_settings, without
from pegasus_snapshots import NODES, part_row, snapshot_of, whole

from core.history.store.events import events_between
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.writer import Recorder

SETTING = (None, "loadBalancerEnabled", "true", "default")


def between(before, after):
    return events_between(KINDS.system(after.manifest.kind), before, after)


def fleet(minute: int = 0, **changes):
    """The same fleet at another minute: only the time differs."""
    base = make_snapshot(brokers=3, bundles=12)
    at = NOON + timedelta(minutes=30 + minute)
    return with_manifest(base, taken_at=at, **changes)


def told(before, after) -> list[tuple]:
    columns = ("kind", "subject", "before", "after")
    rows = between(before, after).to_pylist()
    return [tuple(row[name] for name in columns) for row in rows]


def bundle_of(snapshot, row: int) -> str:
    return snapshot.bundles["bundle"][row].as_py()


def test_nothing_happened_is_no_event() -> None:
    assert told(fleet(), fleet(1)) == []


def test_a_bundle_with_another_owner_has_moved() -> None:
    name = bundle_of(fleet(), 0)
    before = edited(fleet(), "bundles", {name: {"owner": "a:1"}})
    after = edited(fleet(1), "bundles", {name: {"owner": "b:1"}})
    assert told(before, after) == [("move", name, "a:1", "b:1")]


def test_an_owner_that_is_unknown_has_not_moved() -> None:
    name = bundle_of(fleet(), 0)
    unknown = edited(fleet(1), "bundles", {name: {"owner": None, "owner_source": None}})
    assert told(fleet(), unknown) == []
    assert told(fleet(-1), fleet()) == []


def test_a_bundle_in_parts_was_split_and_parts_in_one_were_merged() -> None:
    whole_ = fleet(1)
    old = whole_.bundles.to_pylist()[0]
    middle = (old["lower"] + old["upper"]) // 2
    parts = [
        old | {"bundle": f"{old['namespace']}/0x{a:08x}_0x{b:08x}", "lower": a, "upper": b}
        for a, b in ((old["lower"], middle), (middle, old["upper"]))
    ]
    rows = [*parts, *whole_.bundles.to_pylist()[1:]]
    in_parts = whole_.build(
        whole_.manifest,
        {**whole_.tables, "bundles": pa.Table.from_pylist(rows, whole_.bundles.schema)},
    )
    ranges = ",".join(part["bundle"].rpartition("/")[2] for part in parts)
    assert told(fleet(), in_parts) == [("split", old["bundle"], old["bundle"], ranges)]
    assert told(in_parts, fleet(2)) == [("merge", old["bundle"], ranges, old["bundle"])]


def test_brokers_come_go_restart_and_take_the_lead() -> None:
    names = fleet().brokers["broker"].to_pylist()
    fewer = without(fleet(1), "brokers", names[0])
    assert told(fleet(), fewer) == [("broker_down", names[0], None, None)]
    assert told(fewer, fleet(2)) == [("broker_up", names[0], None, None)]
    later = fleet().brokers["started_at"][1].as_py() + 5
    restarted = edited(fleet(1), "brokers", {names[1]: {"started_at": later}})
    found = between(fleet(), restarted).to_pylist()
    assert [(row["kind"], row["details"]) for row in found] == [
        ("broker_up", '{"restarted": true}')
    ]
    assert told(fleet(leader="a"), fleet(1, leader="b")) == [("leader", "leader", "a", "b")]


@pytest.mark.parametrize("table", ["brokers", "bundles", "settings", "policies"])
def test_a_table_that_was_not_read_once_says_nothing(table) -> None:
    base = make_snapshot(brokers=3, bundles=12, missing=(table,))
    unread = with_manifest(base, taken_at=NOON + timedelta(minutes=31))
    assert told(fleet(), unread) == []
    assert told(unread, fleet(2)) == []


def test_settings_that_change_are_told_with_both_values() -> None:
    before = with_settings(fleet(), SETTING)
    after = with_settings(fleet(1), (None, "loadBalancerEnabled", "false", "dynamic"))
    assert told(before, after) == [("setting", "loadBalancerEnabled", "true", "false")]


@pytest.mark.parametrize(("origin", "events"), [("dynamic", 1), ("file", 0)])
def test_a_setting_that_comes_is_a_change_where_somebody_overrode_it(origin, events) -> None:
    before = with_settings(fleet(), SETTING)
    after = with_settings(fleet(1), SETTING, ("b:1", "other", "5", origin))
    found = between(before, after).to_pylist()
    assert len(found) == events
    assert all(row["details"] == '{"broker": "b:1"}' for row in found)


def test_policies_that_change_come_or_go_are_told() -> None:
    before = with_policies(fleet(), ("isolation", "a", "1"), ("isolation", "b", "1"))
    after = with_policies(fleet(1), ("isolation", "b", "2"), ("failure_domain", "z", "3"))
    assert told(before, after) == [
        ("policy", "failure_domain z", None, "3"),
        ("policy", "isolation a", "1", None),
        ("policy", "isolation b", "1", "2"),
    ]


def pegasus(minute: int = 0, parts=None, **options):
    at = NOON + timedelta(minutes=30 + minute)
    return snapshot_of(whole(parts, **options), taken_at=at)


def test_primaries_replicas_nodes_and_levels_of_a_pegasus_cluster() -> None:
    a, b, c, d = NODES
    before = pegasus(0, [part_row(2, 0, a, [b, c]), part_row(2, 1, a, [b, c])])
    after = pegasus(
        1,
        [part_row(2, 0, b, [a, c]), part_row(2, 1, a, [b, d])],
        settings={"level.effective": "lively", "only_move_primary": "true"},
        dead=(c,),
    )
    assert told(before, after) == [
        ("node_down", c, None, None),
        ("level", "level.effective", "steady", "lively"),
        ("setting", "only_move_primary", "false", "true"),
        ("primary", "2.0", a, b),
        ("replica", "2.1", c, None),
        ("replica", "2.1", None, d),
    ]
    assert told(after, pegasus(2, dead=(c,), settings={"level.effective": None}))[0][0] != "level"


def test_counts_that_change_by_themselves_are_no_event() -> None:
    assert told(pegasus(), pegasus(1, settings={"balance_operation_count": "{}"})) == []
    assert told(pegasus(), pegasus(1, settings={"assign_delay_ms": None})) == []
    before, after = (
        pegasus(at, settings={"total_replica_count_stddev": f"{at}.40", "cluster_name": "peg"})
        for at in (0, 1)
    )
    assert told(before, after) == []  # computed by the meta server: nobody set it
    renamed = pegasus(1, settings={"cluster_name": "other"})
    assert [event[0] for event in told(before, renamed)] == ["setting"]


def recorded(folder, *snapshots, cut=()) -> list[tuple]:
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorder = Recorder(store, "fleet")
    for at, snapshot in enumerate(snapshots):
        if at in cut:
            recorder = Recorder(store, "fleet")
        recorder.record(snapshot)
    rows = store.rows("events", "fleet").to_pylist()
    return [(row["kind"], row["subject"], row["after"]) for row in rows]


@pytest.mark.parametrize("cut", [(), (1,), (1, 2)])
def test_a_restart_of_the_writer_loses_and_doubles_no_move(tmp_path, cut) -> None:
    name = bundle_of(fleet(), 0)
    moved = [edited(fleet(at), "bundles", {name: {"owner": f"b{at}:1"}}) for at in range(3)]
    assert recorded(tmp_path, *moved, cut=cut) == [("move", name, "b1:1"), ("move", name, "b2:1")]


def test_after_a_long_time_nothing_is_said_to_have_happened_now(tmp_path) -> None:
    late = fleet(120, leader="x")
    assert recorded(tmp_path, fleet(), late, cut=(1,)) == []
    assert between(fleet(), late).num_rows == 1  # a writer that was there all the time knows


def test_events_are_completed_before_they_are_written(tmp_path) -> None:
    store = HistoryStore(HistoryLocation(str(tmp_path)))

    def by_run(events: pa.Table) -> pa.Table:
        at = events.schema.get_field_index("by")
        return events.set_column(at, "by", pa.array(["trimtab"] * events.num_rows))

    recorder = Recorder(store, "fleet", complete_events=by_run)
    recorder.record(fleet(leader="a"))
    done = recorder.record(fleet(1, leader="b"))
    assert done.events["by"].to_pylist() == ["trimtab"]
    assert store.rows("events", "fleet")["by"].to_pylist() == ["trimtab"]


def test_an_older_minute_recorded_afterwards_tells_no_event(tmp_path) -> None:
    assert recorded(tmp_path, fleet(5, leader="a"), fleet(2, leader="b")) == []


def test_the_cluster_may_have_another_name_in_the_history() -> None:
    other = replace(fleet(1, leader="b").manifest, cluster="other")
    renamed = fleet().build(other, fleet().tables)
    assert told(fleet(leader="a"), renamed) == [("leader", "leader", "a", "b")]
