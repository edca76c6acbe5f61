"""What stands behind the shell's columns: recorded names, unknown parts, older snapshots."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from pegasus_snapshots import snapshot_of, whole
from places import FIXTURES

from connectors.pegasus.http.parse import parse_metrics
from core.pegasus.metrics import CAPACITY_UNITS, Entity, MetricsSample
from core.pegasus.stats import (
    COUNTERS,
    EVENT_RATES,
    LATENCY,
    LOOKUPS,
    NODE_LATENCIES,
    NODE_RATES,
    OPERATION_RATES,
    RARE_COUNTERS,
    RARE_GAUGES,
    SERVER_GAUGES,
    STORAGE,
    node_stats,
    operation_stats,
)
from core.schemas.pegasus import ADDED_LATER, NODES, OPERATIONS
from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import save_snapshot

RECORDED = FIXTURES / "pegasus" / "http" / "replica34801"
ONE: Entity = ("replica", "replica@2.0")
TWO: Entity = ("replica", "replica@2.1")
SERVER: Entity = ("server", "server")
MB = 1 << 20


def recorded(name: str) -> MetricsSample:
    return parse_metrics((RECORDED / f"{name}.json").read_bytes())


def sample(at_s: float, values: dict[Entity, dict[str, float]]) -> MetricsSample:
    attributes = {
        entity: {"table_id": "2", "partition_id": entity[1][-1]}
        if entity[0] == "replica"
        else {"task_name": entity[1].removeprefix("task@")}
        for entity in values
    }
    return MetricsSample("replica", "onebox", int(at_s * 1e9), values, attributes)


def test_every_metric_that_is_asked_for_is_in_the_recorded_answers_of_a_server():
    server = set(recorded("metrics__types-server").values[SERVER])
    replica = set(recorded("metrics__types-replica_attributes-table_id,2").values[ONE])
    assert set(COUNTERS) <= replica
    assert set(CAPACITY_UNITS) <= replica
    assert {*SERVER_GAUGES, *RARE_GAUGES} <= server | replica
    assert set(RARE_COUNTERS) <= replica
    assert {*STORAGE.values(), *LOOKUPS.values()} <= replica


def test_a_recorded_server_tells_its_own_memory_and_counts():
    told = recorded("metrics__types-server")
    stats = node_stats((told, told))
    assert stats["block_cache_mb"] == 2752 / MB
    assert stats["virtual_memory_mb"] == 2250
    assert stats["write_buffer_mb"] == 0
    assert (stats["total_replicas"], stats["primary_replicas"]) == (73, 25)
    assert (stats["secondary_replicas"], stats["splitting_replicas"]) == (22, 0)


def test_the_columns_of_the_schema_are_those_that_are_measured():
    told = sample(0, {ONE: {}})
    assert set(node_stats((told, told))) == set(ADDED_LATER["nodes"]) - {
        "started_at",
        "is_answering",
        "disk_min_available_ratio",
        "min_2pc_replica_count",
        "emptied_at",
    }
    assert set(operation_stats((told, told), ONE)) == set(OPERATIONS.names) - {"app_id", "index"}
    assert set(ADDED_LATER["nodes"]) <= set(NODES.names)


def test_a_servers_rates_are_of_all_its_replicas_and_one_unknown_part_makes_them_unknown():
    before = sample(0, {ONE: {"get_requests": 10}, TWO: {"get_requests": 5}})
    after = sample(
        2,
        {
            ONE: {"get_requests": 20, "rdb_memtable_mem_usage_bytes": MB},
            TWO: {"get_requests": 5, "rdb_memtable_mem_usage_bytes": 2 * MB},
        },
    )
    stats = node_stats((before, after))
    assert stats["get_rate"] == 5.0
    assert stats["memtable_mb"] == 3.0
    assert stats["put_rate"] is None
    restarted = replace(before, values={ONE: {"get_requests": 99}, TWO: {"get_requests": 5}})
    assert node_stats((restarted, after))["get_rate"] is None
    newly = sample(0, {ONE: {"get_requests": 10}})
    assert node_stats((newly, after))["get_rate"] is None


def test_the_profilers_p99_is_in_milliseconds_and_unknown_without_a_profiler():
    told = sample(
        1, {("profiler", f"task@{NODE_LATENCIES['get_p99_ms']}"): {f"{LATENCY}.p99": 3e6}}
    )
    stats = node_stats((told, told))
    assert stats["get_p99_ms"] == 3.0
    assert stats["put_p99_ms"] is None


def test_a_server_that_tells_nothing_leaves_everything_unknown():
    told = sample(1, {SERVER: {}, ONE: {}})
    assert set(node_stats((told, told)).values()) == {None}
    assert set(operation_stats((told, told), ONE).values()) == {None}


def test_a_replicas_operations_are_rates_and_its_lookups_are_as_told():
    before = sample(0, {ONE: dict.fromkeys((*COUNTERS, *RARE_COUNTERS), 100.0)})
    later = dict.fromkeys((*COUNTERS, *RARE_COUNTERS), 104.0) | {"rdb_block_cache_hit_count": 9.0}
    stats = operation_stats((before, sample(4, {ONE: later})), ONE)
    assert {stats[name] for name in (*OPERATION_RATES, *EVENT_RATES)} == {1.0}
    assert stats["cache_hits"] == 9.0
    assert stats["cache_lookups"] is None
    assert set(NODE_RATES) <= set(OPERATION_RATES)


def test_a_snapshot_from_before_these_columns_loads_and_keeps_its_id(tmp_path):
    snapshot = snapshot_of(whole())
    save_snapshot(snapshot, tmp_path)
    (tmp_path / "operations.parquet").unlink()
    later = ADDED_LATER["nodes"]
    nodes = pq.read_table(tmp_path / "nodes.parquet").drop_columns(list(later))
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["manifest"]["tables"]["operations"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    again = load_pegasus_snapshot(tmp_path)
    assert again.snapshot_id == snapshot.snapshot_id
    assert again.tables["operations"].num_rows == 0


@pytest.mark.parametrize("value", [None, 4.0])
def test_operations_count_in_a_snapshots_id_once_they_are_read(value):
    rows = [{"app_id": 2, "index": at, "get_rate": value} for at in range(4)]
    with_rows = snapshot_of({**whole(), "operations": rows})
    assert with_rows.snapshot_id != snapshot_of(whole()).snapshot_id
