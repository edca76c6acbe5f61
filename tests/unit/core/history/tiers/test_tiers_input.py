"""Minutes that are not as one collector of one cluster writes them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pytest
from history_rows import CLUSTER, recorded, store_in
from history_worlds import pegasus_minutes, pulsar_minutes
from tier_rows import after, check_hours, whole

from core.history.tiers import pipeline

SNAPSHOTS = pulsar_minutes(4, 8)  # from 11:50
FLOW = "msg_throughput"


@pytest.fixture
def store(tmp_path):
    return store_in(tmp_path)


def rolled_up(store, snapshots):
    pipeline.roll_up(store, CLUSTER, after(snapshots))
    return whole(store)["hours"]


def test_minutes_of_two_collectors_count_once(store) -> None:
    recorded(store, SNAPSHOTS)
    recorded(store, SNAPSHOTS[2:6])
    hours = rolled_up(store, SNAPSHOTS)
    check_hours(hours, SNAPSHOTS)
    (of_cluster,) = hours.filter(pc.field("kind") == "cluster").to_pylist()
    assert of_cluster["minutes_seen"] == len(SNAPSHOTS)


def test_a_minute_without_its_commit_is_not_seen(store) -> None:
    recorded(store, SNAPSHOTS)
    whole_hour = rolled_up(store, SNAPSHOTS)
    lost = f"cluster = '{CLUSTER}' AND taken_at = {whole_minute(SNAPSHOTS[3])}"
    store.tables.table("minutes").delete(lost)  # its rows are there, as after a kill before it
    pipeline.roll_up(store, CLUSTER, after(SNAPSHOTS), only=pipeline.TimeRange())
    hours = whole(store)["hours"]
    assert hours.num_rows <= whole_hour.num_rows
    for row in hours.filter(pc.field("kind") == "broker").to_pylist():
        assert row["minutes_seen"] <= len(SNAPSHOTS) - 1
        assert row["minutes_missing"] >= 1


def test_a_cluster_built_again_as_another_system_counts_as_what_it_is_at_the_end(store) -> None:
    nodes = pegasus_minutes(2, 3)
    later = [
        replace(one, manifest=replace(one.manifest, taken_at=taken_at))
        for one, taken_at in zip(nodes, minutes_after(SNAPSHOTS[:4], len(nodes)), strict=True)
    ]
    recorded(store, [*SNAPSHOTS[:4], *later])
    hours = rolled_up(store, [*SNAPSHOTS[:4], *later])
    kinds = set(hours["kind"].to_pylist())
    assert "node" in kinds
    assert not kinds & {"broker", "bundle"}
    (of_cluster,) = hours.filter(pc.field("kind") == "cluster").to_pylist()
    assert (of_cluster["system"], of_cluster["snapshots"]) == ("pegasus", len(later))
    assert of_cluster["minutes_seen"] == len(later)


def test_a_broker_with_a_new_address_is_another_broker(store) -> None:
    brokers = SNAPSHOTS[0].brokers["broker"].to_pylist()
    renamed = [moved_to(one, brokers[0], "b9:8080") for one in SNAPSHOTS[4:]]
    recorded(store, [*SNAPSHOTS[:4], *renamed])
    hours = rolled_up(store, SNAPSHOTS)
    seen = {
        row["subject"]: row["minutes_seen"] for row in hours.to_pylist() if row["kind"] == "broker"
    }
    assert seen["b9:8080"] == 4
    assert seen[brokers[0]] == 4


def whole_minute(snapshot) -> int:
    return round(snapshot.manifest.taken_at.timestamp() * 1000)


def minutes_after(snapshots, count: int):
    last = snapshots[-1].manifest.taken_at
    step = last - snapshots[-2].manifest.taken_at
    return [last + step * number for number in range(1, count + 1)]


def moved_to(snapshot, old: str, new: str):
    tables = {name: _renamed(table, old, new) for name, table in snapshot.tables.items()}
    return type(snapshot).build(snapshot.manifest, tables)


def _renamed(table, old: str, new: str):
    for column in {"broker", "owner"} & set(table.column_names):
        values = table[column]
        renamed = pc.if_else(pc.equal(values, old), new, values)
        place = table.schema.get_field_index(column)
        table = table.set_column(place, table.field(place), renamed)
    return table
