"""What ``/metrics`` of the sandbox serves: counters that grow with the traffic of the books."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from connectors.sandbox.pegasus.cluster import Cluster
from connectors.sandbox.pegasus.state import DISK_MB, MIN_2PC, Node, Partition
from core.pegasus.health import HealthState, Membership, health_states

_READ_SHARES: Final = {
    "get_requests": 0.75,
    "multi_get_requests": 0.15,
    "batch_get_requests": 0.05,
    "scan_requests": 0.05,
}
_WRITE_SHARES: Final = {
    "put_requests": 0.8,
    "multi_put_requests": 0.1,
    "remove_requests": 0.04,
    "multi_remove_requests": 0.01,
    "incr_requests": 0.03,
    "check_and_set_requests": 0.01,
    "check_and_mutate_requests": 0.01,
}
_EXPIRED_SHARE: Final = 0.01
_FILTERED_SHARE: Final = 0.002
_ABNORMAL_SHARE: Final = 0.0001
_DELAYED_SHARE: Final = 0.001
_LOOKUPS_A_READ: Final = 3
_HIT_SHARE: Final = 0.9
_NEGATIVE_SHARE: Final = 0.6
_FALSE_POSITIVE_SHARE: Final = 0.01
_INDEX_SHARE: Final = 0.004
"""Memory of index and filter blocks, of the files' size."""
_LATENCIES_NS: Final = {
    "RPC_RRDB_RRDB_GET": 400_000,
    "RPC_RRDB_RRDB_MULTI_GET": 1_600_000,
    "RPC_RRDB_RRDB_BATCH_GET": 1_200_000,
    "RPC_RRDB_RRDB_PUT": 900_000,
    "RPC_RRDB_RRDB_MULTI_PUT": 1_500_000,
}
"""The median of a server without load; it grows with what the server carries."""
_TAIL: Final = {"p50": 1.0, "p90": 2.0, "p95": 2.8, "p99": 6.0, "p999": 15.0}
_MB: Final = 1 << 20
_UNIT_BYTES: Final = 4096
_READ_BYTES: Final = 6000
_WRITE_BYTES: Final = 3000
_STATE_METRICS: Final = {
    HealthState.DEAD: "dead_partitions",
    HealthState.UNREADABLE: "unreadable_partitions",
    HealthState.UNWRITABLE: "unwritable_partitions",
    HealthState.WRITABLE_ILL: "writable_ill_partitions",
    HealthState.HEALTHY: "healthy_partitions",
}
Entity = dict[str, Any]


def metrics_of(cluster: Cluster, name: str, *, is_meta: bool) -> list[Entity]:
    """Return the entities of one server."""
    if is_meta:
        return _meta(cluster)
    node = cluster.state.nodes[name]
    held = [
        partition
        for partition in cluster.state.partitions.values()
        if name in partition.config.members
    ]
    mean_s = {app_id: cluster.traffic_s(node, app_id) for app_id in cluster.state.tables}
    replicas = [_replica(node, one, mean_s[one.config.app_id]) for one in held]
    return [
        _server(cluster, node, held),
        *_disks(cluster, node),
        *_profilers(node, held),
        *replicas,
    ]


def _meta(cluster: Cluster) -> list[Entity]:
    alive = sum(node.is_alive for node in cluster.state.nodes.values())
    counts = {
        "alive_replica_servers": alive,
        "unalive_replica_servers": len(cluster.state.nodes) - alive,
    }
    tables = [
        _entity("table", f"table@{app_id}", {"table_id": str(app_id)}, _states(cluster, app_id))
        for app_id in cluster.state.tables
    ]
    return [_entity("server", "server", {}, counts), *tables]


def _states(cluster: Cluster, app_id: int) -> dict[str, float]:
    configs = [partition.config for partition in cluster.state.of_table(app_id)]
    membership = Membership(
        has_primary=np.array([config.primary is not None for config in configs]),
        secondary_counts=np.array([len(config.secondaries) for config in configs], np.int32),
        max_replica_counts=np.array([one.max_replica_count for one in configs], np.int32),
        tables=np.zeros(len(configs), np.int32),
    )
    states = health_states(membership, MIN_2PC)
    return {name: int((states == state).sum()) for state, name in _STATE_METRICS.items()}


def _server(cluster: Cluster, node: Node, held: list[Partition]) -> Entity:
    led = sum(partition.config.primary == node.name for partition in held)
    learning = sum(one.learner == node.name for one in cluster.state.partitions.values())
    others = [
        one.leftovers[node.name]
        for one in cluster.state.partitions.values()
        if node.name in one.leftovers and one.learner != node.name
    ]
    memory_mb = 900 + 6 * len(held)
    values = {
        "total_replicas": len(held) + learning + sum(left.is_open for left in others),
        "opening_replicas": 0,
        "closing_replicas": sum(left.is_closing for left in others),
        "inactive_replicas": 0,
        "error_replicas": 0,
        "splitting_replicas": 0,
        "primary_replicas": led,
        "secondary_replicas": len(held) - led,
        "learning_replicas": learning,
        "resident_mem_usage_mb": memory_mb,
        "virtual_mem_usage_mb": 3 * memory_mb,
        "rdb_block_cache_mem_usage_bytes": 4 * len(held) * _MB,
        "rdb_wbm_total_mem_usage_bytes": 2 * _memtables_bytes(held),
        "rdb_wbm_mutable_mem_usage_bytes": _memtables_bytes(held),
    }
    return _entity("server", "server", {}, values)


def _disks(cluster: Cluster, node: Node) -> list[Entity]:
    return [
        _entity(
            "disk",
            f"disk@{disk.tag}",
            {"tag": disk.tag, "data_dir": disk.directory},
            {"disk_capacity_total_mb": DISK_MB, "disk_capacity_avail_mb": disk.available_mb},
        )
        for disk in cluster.state.disks_of(node.name)
    ]


def _memtables_bytes(held: list[Partition]) -> int:
    return sum(_memtable_bytes(partition) for partition in held)


def _memtable_bytes(partition: Partition) -> int:
    """Return the memtable size: larger for partitions with more writes."""
    return _MB + int(partition.writes_per_s * _WRITE_BYTES)


def _profilers(node: Node, held: list[Partition]) -> list[Entity]:
    """Return the latencies of requests by kind; percentiles, unlike every other metric here."""
    led = [partition for partition in held if partition.config.primary == node.name]
    load = sum(partition.reads_per_s + partition.writes_per_s for partition in led)
    factor = 1 + load / 50_000
    return [
        {
            "type": "profiler",
            "id": f"task@{task}",
            "attributes": {"task_name": task},
            "metrics": [
                {
                    "name": "profiler_server_rpc_latency_ns",
                    **{name: int(median_ns * tail * factor) for name, tail in _TAIL.items()},
                }
            ],
        }
        for task, median_ns in _LATENCIES_NS.items()
    ]


def _replica(node: Node, partition: Partition, mean_s: float) -> Entity:
    """Only a primary is read and written by clients; its counters count from the process's start.

    They grow with the traffic of now: after a change of roles a rate is right from the second
    sample on, as with a real server, whose counters go on where they were.
    """
    is_primary = partition.config.primary == node.name
    reads = partition.reads_per_s * mean_s if is_primary else 0.0
    writes = partition.writes_per_s * mean_s if is_primary else 0.0
    app_id, index = partition.gpid
    values = {
        **{name: int(reads * share) for name, share in _READ_SHARES.items()},
        **{name: int(writes * share) for name, share in _WRITE_SHARES.items()},
        "read_capacity_units": int(reads * -(-_READ_BYTES // _UNIT_BYTES)),
        "write_capacity_units": int(writes * -(-_WRITE_BYTES // _UNIT_BYTES)),
        "get_bytes": int(reads * _READ_BYTES),
        "put_bytes": int(writes * _WRITE_BYTES),
        "rdb_total_sst_size_mb": int(partition.size_mb),
        "rdb_total_sst_files": int(partition.size_mb // 64) + 1,
        "rdb_memtable_mem_usage_bytes": _memtable_bytes(partition),
        "rdb_index_and_filter_blocks_mem_usage_bytes": int(partition.size_mb * _MB * _INDEX_SHARE),
        "learn_count": int(partition.learner is not None),
        **_events(reads, writes),
        **_lookups(reads),
    }
    attributes = {"table_id": str(app_id), "partition_id": str(index)}
    return _entity("replica", f"replica@{app_id}.{index}", attributes, values)


def _events(reads: float, writes: float) -> dict[str, int]:
    return {
        "read_expired_values": int(reads * _EXPIRED_SHARE),
        "read_filtered_values": int(reads * _FILTERED_SHARE),
        "abnormal_read_requests": int(reads * _ABNORMAL_SHARE),
        "throttling_delayed_write_requests": int(writes * _DELAYED_SHARE),
        "throttling_rejected_write_requests": 0,
    }


def _lookups(reads: float) -> dict[str, int]:
    points = reads * _LOOKUPS_A_READ
    positives = points * (1 - _NEGATIVE_SHARE)
    return {
        "rdb_block_cache_total_count": int(points),
        "rdb_block_cache_hit_count": int(points * _HIT_SHARE),
        "rdb_bloom_filter_seek_total": int(reads),
        "rdb_bloom_filter_seek_negatives": int(reads * _NEGATIVE_SHARE),
        "rdb_bloom_filter_point_lookup_negatives": int(points * _NEGATIVE_SHARE),
        "rdb_bloom_filter_point_lookup_positives": int(positives),
        "rdb_bloom_filter_point_lookup_true_positives": int(
            positives * (1 - _FALSE_POSITIVE_SHARE)
        ),
    }


def _entity(
    kind: str, name: str, attributes: Mapping[str, str], values: Mapping[str, float]
) -> Entity:
    metrics = [{"name": name, "value": value} for name, value in values.items()]
    return {"type": kind, "id": name, "attributes": dict(attributes), "metrics": metrics}
