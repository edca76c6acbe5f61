"""What ``/metrics`` of the sandbox tells: counters that grow with the traffic of the books."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.sandbox.pegasus.mind import MIN_2PC
from connectors.sandbox.pegasus.state import DISK_MB, Node, Partition
from core.pegasus.health import HealthState, Membership, health_states

if TYPE_CHECKING:
    from connectors.sandbox.pegasus.cluster import Cluster

_GET_SHARE: Final = 0.8
_PUT_SHARE: Final = 0.9
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
    return [_server(cluster, node, held), *_disks(cluster, node), *replicas]


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
    memory_mb = 900 + 6 * len(held)
    values = {
        "total_replicas": len(held) + learning,
        "primary_replicas": led,
        "secondary_replicas": len(held) - led,
        "learning_replicas": learning,
        "resident_mem_usage_mb": memory_mb,
        "virtual_mem_usage_mb": 3 * memory_mb,
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
        "get_requests": int(reads * _GET_SHARE),
        "multi_get_requests": int(reads * (1 - _GET_SHARE)),
        "put_requests": int(writes * _PUT_SHARE),
        "multi_put_requests": int(writes * (1 - _PUT_SHARE)),
        "read_capacity_units": int(reads * -(-_READ_BYTES // _UNIT_BYTES)),
        "write_capacity_units": int(writes * -(-_WRITE_BYTES // _UNIT_BYTES)),
        "get_bytes": int(reads * _READ_BYTES),
        "put_bytes": int(writes * _WRITE_BYTES),
        "rdb_total_sst_size_mb": int(partition.size_mb),
        "rdb_total_sst_files": int(partition.size_mb // 64) + 1,
        "learn_count": int(partition.learner is not None),
    }
    attributes = {"table_id": str(app_id), "partition_id": str(index)}
    return _entity("replica", f"replica@{app_id}.{index}", attributes, values)


def _entity(
    kind: str, name: str, attributes: Mapping[str, str], values: Mapping[str, float]
) -> Entity:
    metrics = [{"name": name, "value": value} for name, value in values.items()]
    return {"type": kind, "id": name, "attributes": dict(attributes), "metrics": metrics}
