"""Read a Pegasus cluster into a snapshot.

Whatever part does not answer becomes a problem of the snapshot; only a cluster whose leader reports
neither nodes nor tables raises.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pyarrow as pa

from connectors.config.model import ClusterConfig
from connectors.pegasus.capture import (
    COPY_RATE,
    LEARNING,
    MEMORY,
    SEND_RATE,
    SIZE,
    LeaderFacts,
    LeaderReading,
    NodeFacts,
    NodesReading,
    envs_text,
)
from connectors.pegasus.rpc.client import MetaClient
from core.pegasus.answers import TableEntry
from core.pegasus.ddd import ddd_text
from core.pegasus.ids import parse_node
from core.pegasus.metrics import (
    CAPACITY_UNITS,
    READ_REQUESTS,
    WRITE_REQUESTS,
    Entity,
    MetricsSample,
    rate_per_s,
)
from core.pegasus.order_learning import OrderLearner
from core.pegasus.partition import PartitionConfig
from core.pegasus.stats import NODE_COUNTS, node_stats, operation_stats
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot import Manifest, TableManifest
from core.snapshot.pegasus import KIND, PegasusSnapshot
from core.snapshot.znodes import ProblemLog

_SERVER: Entity = ("server", "server")
_Rows = list[dict[str, Any]]


class PegasusCollector:
    """Takes snapshots of one cluster.

    Args:
        config: The cluster.
    Attributes:
        changed: Never set: Pegasus does not announce that a node came or went.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.changed = threading.Event()
        self._orders = OrderLearner()
        self._client = MetaClient(config.meta_servers, timeout_s=config.timeouts.answer_s)

    def collect(self) -> PegasusSnapshot:
        """Take one snapshot.

        Raises:
            RemoteError: The leading meta server was not found, or reports no nodes or tables.
        """
        began = monotonic()
        problems = ProblemLog()
        leader = LeaderReading(self.config, self._client, problems).read()
        nodes = NodesReading(self.config, problems).read(leader.nodes)
        rows: dict[str, _Rows] = {
            "nodes": [_node_row(one.name, leader, nodes) for one in _ordered(leader)],
            "tables": [_table_row(one) for one in sorted(leader.tables, key=lambda t: t.app_id)],
            "partitions": _partition_rows(leader),
            "replicas": _replica_rows(leader, nodes),
            "disks": _disk_rows(leader, nodes),
            "settings": _setting_rows(leader),
            "operations": _operation_rows(leader, nodes),
        }
        tables = {
            name: pa.Table.from_pylist(rows[name], schema=schema)
            for name, schema in PEGASUS_TABLES.items()
            if name in rows
        }
        manifest = Manifest(
            cluster=self.config.name,
            kind=KIND,
            taken_at=datetime.now(UTC),
            duration_s=monotonic() - began,
            tables=_entries(leader, nodes),
            leader=leader.info.leader if leader.info is not None else None,
            release=_release(nodes),
            problems=problems.named(),
        )
        return self._orders.observe(PegasusSnapshot.build(manifest, tables), leader.since)

    def recall(self, snapshot: PegasusSnapshot) -> None:
        """Take over the node order that an earlier snapshot of the cluster holds."""
        self._orders.recall(snapshot)

    def close(self) -> None:
        """End the connections; twice is harmless."""
        self._client.close()


def _ordered(leader: LeaderFacts) -> list[Any]:
    return sorted(leader.nodes, key=lambda node: parse_node(node.name))


def _node_row(name: str, leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> dict[str, Any]:
    entry = next(node for node in leader.nodes if node.name == name)
    facts = nodes.get(name, NodeFacts())
    last = None if facts.samples is None else facts.samples[1]
    learning = None if last is None else last.value(_SERVER, LEARNING)
    return _whole_counts({} if facts.samples is None else node_stats(facts.samples)) | {
        "node": name,
        "address": entry.address,
        "is_alive": entry.is_alive,
        "is_answering": facts.is_answering,
        "version": facts.version,
        "started_at": facts.started_at,
        "resident_memory_mb": None if last is None else last.value(_SERVER, MEMORY),
        "learning_replicas": None if learning is None else int(learning),
        "copy_rate_mb_per_s": facts.rates.get(COPY_RATE),
        "send_rate_mb_per_s": facts.rates.get(SEND_RATE),
    }


def _whole_counts(stats: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        name: int(value) if value is not None and name in NODE_COUNTS else value
        for name, value in stats.items()
    }


def _table_row(table: TableEntry) -> dict[str, Any]:
    return {
        "app_id": table.app_id,
        "name": table.name,
        "status": table.status.name.lower(),
        "partition_count": table.partition_count,
        "max_replica_count": table.max_replica_count,
        "envs": envs_text(table.envs),
        "created_at": _ms(table.create_s),
        "dropped_at": _ms(table.drop_s),
        "expires_at": _ms(table.expire_s),
        "is_bulk_loading": table.is_bulk_loading,
        "is_duplicating": table.is_duplicating,
    }


def _ms(seconds: int) -> int | None:
    return seconds * 1000 if seconds > 0 else None


def _configs(leader: LeaderFacts) -> list[PartitionConfig]:
    every = [config for configs in leader.partitions.values() for config in configs]
    return sorted(every, key=lambda config: (config.app_id, config.index))


def _partition_rows(leader: LeaderFacts) -> _Rows:
    ddds = {ddd.config.gpid: ddd for ddd in leader.ddds}
    return [
        {
            "app_id": config.app_id,
            "index": config.index,
            "ballot": config.ballot,
            "max_replica_count": config.max_replica_count,
            "primary": config.primary,
            "secondaries": list(config.secondaries),
            "last_drops": list(config.last_drops),
            "last_committed_decree": config.last_committed_decree,
            "ddd_reason": None if ddd is None else ddd.reason,
            "ddd_dropped": None if ddd is None else ddd_text(ddd.dropped),
        }
        for config in _configs(leader)
        for ddd in [ddds.get(config.gpid)]
    ]


def _replica_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    tags = {name: _disk_tags(facts) for name, facts in nodes.items()}
    entities = {
        name: {} if facts.samples is None else facts.samples[1].gpids()
        for name, facts in nodes.items()
    }
    rows = []
    for config in _configs(leader):
        gpid = config.app_id, config.index
        for node in config.members:
            entity = entities.get(node, {}).get(gpid)
            samples = nodes[node].samples if node in nodes else None
            rows.append(
                {
                    "app_id": config.app_id,
                    "index": config.index,
                    "node": node,
                    "is_primary": node == config.primary,
                    "disk": _disk_of(nodes.get(node), tags.get(node, {}), gpid),
                    **_measured(samples, entity),
                }
            )
    return rows


def _disk_tags(facts: NodeFacts) -> dict[tuple[int, int], str]:
    """Return the disk of every replica on a node.

    A server counts what its disks hold only every ten minutes, for the first time ten minutes
    after its start; the list of its replicas has their disks as they are now.

    Source:
        Pegasus ``replica_stub::on_disk_stat``, ``on_query_replica_info``.
    """
    if facts.replicas is not None:
        return {(one.app_id, one.index): one.disk for one in facts.replicas}
    return {
        gpid: disk.tag for disk in facts.disks or () for gpid in disk.primaries | disk.secondaries
    }


def _disk_of(
    facts: NodeFacts | None, tags: Mapping[tuple[int, int], str], gpid: tuple[int, int]
) -> str | None:
    """Return the disk of a member's replica: on a node with one disk it is certain."""
    disks = (facts.disks if facts is not None else None) or ()
    return tags.get(gpid, disks[0].tag if len(disks) == 1 else None)


def _measured(
    samples: tuple[MetricsSample, MetricsSample] | None, entity: Entity | None
) -> dict[str, float | None]:
    if samples is None or entity is None:
        return {}
    return {
        "size_mb": samples[1].value(entity, SIZE),
        "read_rate": rate_per_s(*samples, entity, READ_REQUESTS),
        "write_rate": rate_per_s(*samples, entity, WRITE_REQUESTS),
        "read_units": rate_per_s(*samples, entity, CAPACITY_UNITS[:1]),
        "write_units": rate_per_s(*samples, entity, CAPACITY_UNITS[1:]),
    }


def _operation_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    """Return the metrics of every primary; nulls where none are reported."""
    entities = {
        name: facts.samples[1].gpids() for name, facts in nodes.items() if facts.samples is not None
    }
    rows = []
    for config in _configs(leader):
        gpid, node = (config.app_id, config.index), config.primary or ""
        entity = entities.get(node, {}).get(gpid)
        samples = nodes[node].samples if node in nodes else None
        stats = {} if entity is None or samples is None else operation_stats(samples, entity)
        rows.append({"app_id": config.app_id, "index": config.index, **stats})
    return rows


def _disk_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    return [
        {
            "node": node.name,
            "disk": disk.tag,
            "directory": disk.directory,
            "capacity_mb": disk.capacity_mb,
            "available_mb": disk.available_mb,
        }
        for node in _ordered(leader)
        for disk in (nodes[node.name].disks if node.name in nodes else None) or ()
    ]


def _setting_rows(leader: LeaderFacts) -> _Rows:
    return [
        {"name": name, "value": value, "origin": origin}
        for name, (value, origin) in sorted(leader.settings.items())
    ]


def _entries(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> dict[str, TableManifest]:
    """Return the source of each table, and the number of partitions, and of disks where known."""
    expected = sum(table.partition_count for table in leader.available)
    entries = {name: TableManifest(source="rpc", rows=0) for name in PEGASUS_TABLES}
    entries["partitions"] = TableManifest(source="rpc", rows=0, expected=expected)
    has_samples = any(facts.samples is not None for facts in nodes.values())
    if has_samples:
        entries["replicas"] = TableManifest(source="rpc+http", rows=0)
        entries["nodes"] = TableManifest(source="rpc+http", rows=0)
        entries["operations"] = TableManifest(source="http", rows=0)
    return entries


def _release(nodes: Mapping[str, NodeFacts]) -> str | None:
    """Return the version that most nodes run."""
    versions = [facts.version for facts in nodes.values() if facts.version is not None]
    return max(sorted(set(versions)), key=versions.count, default=None)
