"""Read a Pegasus cluster into a snapshot.

Whatever part does not answer becomes a problem of the snapshot; only a cluster whose leader reports
neither nodes nor tables raises.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from time import monotonic
from typing import Any, Final, TypeVar

import pyarrow as pa

from connectors.config.model import ClusterConfig
from connectors.pegasus.http.client import HttpClient
from connectors.pegasus.rpc.client import MetaClient, ServerClient
from connectors.transport.deadline import Pool, is_given_up, pause, until
from core.errors import (
    GivenUpError,
    NotFoundError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    UnreachableError,
)
from core.pegasus.answers import (
    BackupPolicyEntry,
    ClusterInfo,
    DddEntry,
    DiskEntry,
    DuplicationEntry,
    NodeEntry,
    TableEntry,
    TableStatus,
)
from core.pegasus.ddd import ddd_text
from core.pegasus.emptied import with_emptied
from core.pegasus.ids import parse_node
from core.pegasus.metrics import (
    CAPACITY_UNITS,
    READ_REQUESTS,
    WRITE_REQUESTS,
    Entity,
    MetricsSample,
    joint_rate,
    seconds_between,
)
from core.pegasus.order_learning import OrderLearner
from core.pegasus.partition import PartitionConfig, ReplicaEntry
from core.pegasus.persistence import copies_text
from core.pegasus.snapshot import (
    DISK_MIN_AVAILABLE,
    EFFECTIVE_LEVEL,
    OPERATIONS,
    STORED_LEVEL,
)
from core.pegasus.stats import (
    ALL_COLUMNS,
    COUNTERS,
    FREQUENT_COLUMNS,
    LATENCY,
    NODE_COUNTS,
    NODE_LATENCIES,
    RARE_COLUMNS,
    RARE_COUNTERS,
    RARE_GAUGES,
    RARE_NODE_COLUMNS,
    SERVER_GAUGES,
    Row,
    Samples,
    node_stats,
    operation_stats,
)
from core.pegasus.summary import MIN_2PC
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot import Manifest, TableManifest
from core.snapshot.pegasus import KIND, PegasusSnapshot
from core.snapshot.problems import ProblemLog
from core.units import datetime_to_ms, is_whole

_SERVER: Entity = ("server", "server")
_Rows = list[dict[str, Any]]

SIZE: Final = "rdb_total_sst_size_mb"
MEMORY: Final = "resident_mem_usage_mb"
LEARNING: Final = "learning_replicas"
COPY_RATE: Final = "nfs.max_copy_rate_megabytes_per_disk"
SEND_RATE: Final = "nfs.max_send_rate_megabytes_per_disk"
_COUNTERS: Final = (*COUNTERS, *CAPACITY_UNITS)
_METRICS: Final = (*_COUNTERS, SIZE, MEMORY, LEARNING, *SERVER_GAUGES)
_RARE: Final = (*RARE_COUNTERS, *RARE_GAUGES)
RARELY_S: Final = 300.0
"""How old what changes slowly may be before it is read again."""
MAX_BETWEEN_S: Final = 600.0
"""A sample that is older is no beginning of a rate."""
_NODE_FLAGS: Final = (DISK_MIN_AVAILABLE, MIN_2PC)
_LB: Final = "meta.lb."
_SWITCHES: Final = (
    "meta.lb.only_move_primary",
    "meta.lb.only_primary_balancer",
    "meta.lb.balancer_in_turn",
    "meta.lb.assign_delay_ms",
    "meta.lb.assign_secondary_black_list",
    "meta.lb.add_secondary_enable_flow_control",
    "meta.lb.add_secondary_max_count_for_one_node",
    "meta.live_percentage",
)
_IGNORED: Final = "ignored_app_list"
_FLAGS: Final = (
    "balance_cluster",
    "balance_op_count_per_round",
    "min_live_node_count_for_unfreeze",
    "mutation_2pc_min_replica_count",
    "lb_interval_ms",
)
_NO_BACKUPS: Final = ("ERR_SERVICE_NOT_ACTIVE", "ERR_HANDLER_NOT_FOUND")
_WITHOUT: Final = "Its values are unknown."
ANSWER_WITHIN_S: Final = 3.0
"""How long a replica server may take for its first answer, and for every one but its metrics.

A process that is frozen still accepts connections. Its capture ends with the first timeout, so a
whole capture with such a node stays below 5 s.
"""
_T = TypeVar("_T")
Setting = tuple[str, str]
"""Value and origin."""


class PegasusCollector:
    """Takes snapshots of one cluster.

    Attributes:
        changed: Never set: Pegasus does not announce that a node came or went.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.changed = threading.Event()
        self._orders = OrderLearner()
        self._before: PegasusSnapshot | None = None
        self._samples: dict[str, NodeSamples] = {}
        self._client = MetaClient(
            config.meta_servers,
            timeout_s=config.timeouts.answer_s,
            max_bytes=config.read_limits.answer_bytes,
        )

    def collect(self) -> PegasusSnapshot:
        """Take one snapshot.

        Raises:
            RemoteError: The leading meta server was not found, or reports no nodes or tables.
        """
        began = monotonic()
        problems = ProblemLog()
        leader = LeaderReading(self.config, self._client, problems).read()
        nodes = NodesReading(self.config, problems, self._samples).read(leader.nodes)
        if is_given_up():  # whatever is missing was not waited for
            raise GivenUpError.at(self.config.name, "capture", "not_sent")
        rows: dict[str, _Rows] = {
            "nodes": [_node_row(one.name, leader, nodes) for one in _ordered(leader)],
            "tables": [_table_row(one) for one in sorted(leader.tables, key=lambda t: t.app_id)],
            "partitions": _partition_rows(leader, nodes),
            "replicas": _replica_rows(leader, nodes),
            "disks": _disk_rows(leader, nodes),
            "settings": _setting_rows(leader),
            "operations": _operation_rows(leader, nodes),
            "duplications": [_duplication_row(one) for one in leader.duplications],
            "backup_policies": [_policy_row(one) for one in leader.policies],
        }
        tables = {
            name: pa.Table.from_pylist(rows[name], schema=schema)
            for name, schema in PEGASUS_TABLES.items()
            if name in rows
        }
        manifest = Manifest(
            cluster=self.config.name,
            target_ratio=self.config.target_ratio,
            kind=KIND,
            taken_at=datetime.now(UTC),
            duration_s=monotonic() - began,
            tables=_entries(leader, nodes),
            leader=leader.info.leader if leader.info is not None else None,
            release=_release(nodes),
            problems=problems.named(),
        )
        built = with_emptied(PegasusSnapshot.build(manifest, tables), self._before)
        self._before = built
        return self._orders.observe(built, leader.since)

    def recall(self, snapshot: PegasusSnapshot) -> None:
        """Take over what an earlier snapshot of the cluster holds: node order, drained nodes."""
        self._before = snapshot
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
    stats = {} if facts.samples is None else node_stats(facts.samples)
    if facts.rare is not None:
        stats |= facts.rare.node
    ratio = _number(facts.flags.get(DISK_MIN_AVAILABLE))
    minimum = facts.flags.get(MIN_2PC, "")
    return _whole_counts(stats) | {
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
        "disk_min_available_ratio": None if ratio is None else ratio / 100,
        "min_2pc_replica_count": int(minimum) if is_whole(minimum) else None,
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


def _duplication_row(one: DuplicationEntry) -> dict[str, Any]:
    worst = max(one.lags, key=lambda index: one.lags[index], default=None)
    return {
        "app_id": one.app_id,
        "dup_id": one.dup_id,
        "status": one.status,
        "remote": one.remote,
        "remote_table": one.remote_table,
        "fail_mode": one.fail_mode,
        "created_at": one.create_ms or None,
        "reported_partitions": one.partitions,
        "lagging_partitions": sum(map(bool, one.lags.values())) if one.lags else None,
        "total_lag": sum(one.lags.values()) if one.lags else None,
        "max_lag": None if worst is None else one.lags[worst],
        "max_lag_index": worst,
    }


def _policy_row(one: BackupPolicyEntry) -> dict[str, Any]:
    return {
        "name": one.name,
        "provider": one.provider,
        "interval_s": one.interval_s,
        "app_ids": list(one.app_ids),
        "kept": one.kept,
        "start_time": one.start_time,
        "is_disabled": one.is_disabled,
        "last_started_at": one.last_start_ms or None,
        "last_ended_at": one.last_end_ms or None,
    }


def _copies(
    leader: LeaderFacts, nodes: Mapping[str, NodeFacts]
) -> dict[tuple[int, int], list[tuple[str, ReplicaEntry]]]:
    """Return the server copies of partitions without a primary, including closed replicas."""
    found: dict[tuple[int, int], list[tuple[str, ReplicaEntry]]] = {
        (config.app_id, config.index): []
        for config in _configs(leader)
        if config.primary is None and not config.is_child
    }
    for name, facts in nodes.items() if found else ():
        for one in facts.replicas or ():
            if (one.app_id, one.index) in found:
                found[one.app_id, one.index].append((name, one))
    return found


def _partition_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    ddds = {ddd.config.gpid: ddd for ddd in leader.ddds}
    copies = _copies(leader, nodes)
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
            "copies": None if held is None else copies_text(held),
        }
        for config in _configs(leader)
        for ddd in [ddds.get(config.gpid)]
        for held in [copies.get((config.app_id, config.index))]
    ]


def _replica_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    tags = {name: _disk_tags(facts) for name, facts in nodes.items()}
    entities = {
        name: {} if facts.samples is None else facts.samples[1].gpids
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
    before, after = samples
    span_s = seconds_between(before, after)
    was, now = before.values.get(entity, {}), after.values.get(entity, {})
    return {
        "size_mb": now.get(SIZE),
        "read_rate": joint_rate(was, now, span_s, READ_REQUESTS),
        "write_rate": joint_rate(was, now, span_s, WRITE_REQUESTS),
        "read_units": joint_rate(was, now, span_s, CAPACITY_UNITS[:1]),
        "write_units": joint_rate(was, now, span_s, CAPACITY_UNITS[1:]),
    }


def _operation_rows(leader: LeaderFacts, nodes: Mapping[str, NodeFacts]) -> _Rows:
    """Return the metrics of every primary; nulls where none are reported."""
    entities = {
        name: facts.samples[1].gpids for name, facts in nodes.items() if facts.samples is not None
    }
    rows = []
    for config in _configs(leader):
        gpid, node = (config.app_id, config.index), config.primary or ""
        entity = entities.get(node, {}).get(gpid)
        samples = nodes[node].samples if node in nodes else None
        rare = nodes[node].rare if node in nodes else None
        stats: Mapping[str, float | None] = {}
        if samples is not None and entity is not None:
            stats = operation_stats(
                samples, entity, ALL_COLUMNS if rare is None else FREQUENT_COLUMNS
            )
        if rare is not None and entity is not None:
            stats = {**stats, **rare.operations(entity)}
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
        moments = [facts.rare_at_ms for facts in nodes.values() if facts.rare_at_ms is not None]
        oldest_at = min(moments, default=None)
        entries["operations"] = TableManifest(source="http", rows=0, oldest_at=oldest_at)
    return entries


def _release(nodes: Mapping[str, NodeFacts]) -> str | None:
    """Return the version that most nodes run."""
    versions = [facts.version for facts in nodes.values() if facts.version is not None]
    return max(sorted(set(versions)), key=versions.count, default=None)


@dataclass
class LeaderFacts:
    """Report of the leading meta server.

    Attributes:
        nodes: Dead ones included.
        tables: In any status.
        partitions: By table id; a table that did not answer is not there.
        info: Of the cluster; ``None`` if not reported.
        ddds: Partitions that lost every replica.
        settings: By name.
        since: When the leading process started, in its own words; ``None`` if not reported.
        duplications: Of tables that are duplicated.
        policies: Of periodic backups; none where these are disabled.
    """

    nodes: list[NodeEntry]
    tables: list[TableEntry]
    partitions: dict[int, list[PartitionConfig]] = field(default_factory=dict)
    info: ClusterInfo | None = None
    ddds: list[DddEntry] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)
    since: str | None = None
    duplications: list[DuplicationEntry] = field(default_factory=list)
    policies: list[BackupPolicyEntry] = field(default_factory=list)

    @property
    def available(self) -> list[TableEntry]:
        """The tables that serve."""
        return [table for table in self.tables if table.status is TableStatus.AVAILABLE]


@dataclass(frozen=True)
class RareStats:
    """Columns that change slowly, of one server; each is computed once, not for every capture.

    Attributes:
        samples: What they come of.
    """

    samples: Samples
    _by_replica: dict[Entity, Row] = field(default_factory=dict)

    @cached_property
    def node(self) -> Row:
        """Those of ``nodes``."""
        stats = node_stats(self.samples)
        return {column: stats[column] for column in RARE_NODE_COLUMNS}

    def operations(self, entity: Entity) -> Row:
        """Return those of ``operations``, of one replica."""
        if entity not in self._by_replica:
            self._by_replica[entity] = operation_stats(self.samples, entity, RARE_COLUMNS)
        return self._by_replica[entity]


@dataclass
class NodeFacts:
    """Report of one replica server, or ``None``.

    Attributes:
        is_answering: ``False`` if it could not be reached, or a request timed out: it was sent
            nothing more.
        disks: With what they held when the server counted last, which it does every ten minutes.
        replicas: Every replica as it is now, with its disk; ``None`` if not reported.
        version: Of the server.
        started_at: Its process, in its own words.
        rates: Limits of copying by command, MB/s a disk.
        samples: Metrics at two moments.
        rare: Columns that change slowly, of two moments perhaps minutes ago.
        rare_at_ms: When the later of these was read, milliseconds since the epoch.
        flags: By name.
    """

    is_answering: bool | None = None
    disks: list[DiskEntry] | None = None
    replicas: list[ReplicaEntry] | None = None
    version: str | None = None
    started_at: str | None = None
    rates: dict[str, float] = field(default_factory=dict)
    samples: Samples | None = None
    rare: RareStats | None = None
    rare_at_ms: int | None = None
    flags: dict[str, str] = field(default_factory=dict)


@dataclass
class NodeSamples:
    """Samples of one replica server between captures.

    Attributes:
        since: Start of its process, in its own words: counters count from then.
        last: The sample of the last capture.
        at_s: Monotonic seconds of it.
        rare: Of the last two samples of what changes slowly.
        rare_at_s: Monotonic seconds of the later one.
        rare_at_ms: The same, milliseconds since the epoch.
        flags: As read then.
    """

    since: str | None
    last: MetricsSample
    at_s: float
    rare: RareStats
    rare_at_s: float
    rare_at_ms: int
    flags: dict[str, str]

    def begins_rates_of(self, now: MetricsSample, since: str | None, now_s: float) -> bool:
        """Return whether the last sample is recent, of the same process, and complete.

        Args:
            now: The sample after it.
            since: Start of the process that gave it.
            now_s: Monotonic seconds of it.
        """
        is_same = since is not None and since == self.since
        return is_same and now_s - self.at_s <= MAX_BETWEEN_S and _continues(self.last, now)


class LeaderReading:
    """Reads the leading meta server.

    Args:
        client: Of its meta servers.
        problems: Where to note what could not be read.
    """

    def __init__(self, config: ClusterConfig, client: MetaClient, problems: ProblemLog) -> None:
        self._config = config
        self._client = client
        self._problems = problems

    def read(self) -> LeaderFacts:
        """Request everything.

        Raises:
            RemoteError: Nodes or tables cannot be read: there is no cluster without them.
        """
        facts = LeaderFacts(self._client.fetch_nodes(), self._client.fetch_tables(TableStatus(0)))
        facts.partitions = self._partitions(facts.available)
        self._read_levels(facts)
        facts.ddds = self._tried("DDD diagnosis", self._client.fetch_ddd) or []
        for command in _SWITCHES:
            self._read_switch(facts, command)
        self._read_ignored(facts)
        self._read_flags(facts)
        self._read_copying(facts)
        info = self._tried("server-info", lambda: self._client.query_command("server-info"))
        if isinstance(info, Mapping) and isinstance(info.get("start_time"), str):
            facts.since = info["start_time"]
        return facts

    def _partitions(self, tables: Sequence[TableEntry]) -> dict[int, list[PartitionConfig]]:
        try:
            read = self._client.fetch_all_partitions([table.name for table in tables])
            return {table.app_id: read[table.name] for table in tables}
        except (UnreachableError, RemoteTimeoutError) as exc:
            note(self._problems, exc, "partitions of all tables")
            return {}
        except RemoteError:  # perhaps of one table only, which may just have been dropped
            found = {}
            for table in tables:
                envs = self._tried(
                    f"table {table.name}",
                    partial(self._client.fetch_partitions, table.name),
                )
                if envs is not None:
                    found[table.app_id] = envs
            return found

    def _read_levels(self, facts: LeaderFacts) -> None:
        """Read the level; with one outside the five nothing more is requested that could kill."""
        stored = self._tried("function level", self._client.fetch_stored_level)
        if stored is None:
            return
        facts.settings[STORED_LEVEL] = (str(int(stored)), "cluster")
        info = facts.info = self._tried("cluster info", self._client.fetch_cluster_info)
        if info is None:
            return
        facts.settings |= {name: (value, "cluster") for name, value in info.values.items()}
        facts.settings[EFFECTIVE_LEVEL] = (info.level_word, "cluster")
        if info.operations is None or info.operations.total < 0:
            self._problems.add(
                "missing",
                OPERATIONS,
                "The meta server has not counted its pending changes.",
                done="Whether the cluster is balanced is unknown; a later capture may report it.",
            )

    def _read_switch(self, facts: LeaderFacts, command: str) -> None:
        answer = self._tried(command, lambda: self._client.query_command(command))
        name = command.removeprefix(_LB)
        if not isinstance(answer, Mapping):
            return
        value = answer.get(command, answer.get(name))
        if value is not None:
            facts.settings[name] = (str(value), "command")

    def _read_ignored(self, facts: LeaderFacts) -> None:
        command = _LB + _IGNORED
        answer = self._tried(command, lambda: self._client.query_command(command, "get"))
        if isinstance(answer, Mapping) and "ignored_app_id_list" in answer:
            facts.settings[_IGNORED] = (str(answer["ignored_app_id_list"]), "command")

    def _read_flags(self, facts: LeaderFacts) -> None:
        """Read flags from the leader itself: every server reports its own."""
        leader = facts.info.leader if facts.info is not None else ""
        if not leader:
            return
        client = HttpClient(
            leader,
            timeout_s=self._config.timeouts.answer_s,
            max_bytes=self._config.read_limits.answer_bytes,
        )
        try:
            flags = self._tried(f"flags of {leader}", client.fetch_flags) or {}
        finally:
            client.close()
        facts.settings |= {name: (flags[name].value, "flag") for name in _FLAGS if name in flags}

    def _read_copying(self, facts: LeaderFacts) -> None:
        """Read duplications, and policies of backups: without a backup service there are none."""
        duplicated = [table.name for table in facts.available if table.is_duplicating]
        if duplicated:
            facts.duplications = (
                self._tried("duplications", lambda: self._client.fetch_duplications(duplicated))
                or []
            )
        try:
            facts.policies = self._client.fetch_backup_policies()
        except RemoteError as exc:
            if exc.context.get("pegasus_error") not in _NO_BACKUPS:
                note(self._problems, exc, "backup policies")

    def _tried(self, what: str, request: Callable[[], _T]) -> _T | None:
        return tried(self._problems, what, request)


class NodesReading:
    """Reads the replica servers, several at a time.

    Args:
        problems: Where to note what could not be read.
        remembered: Samples of the capture before, by node; replaced by those of this one.
    """

    def __init__(
        self, config: ClusterConfig, problems: ProblemLog, remembered: dict[str, NodeSamples]
    ) -> None:
        self._config = config
        self._problems = problems
        self._remembered = remembered
        self._until = monotonic() + config.timeouts.capture_s

    def read(self, nodes: Sequence[NodeEntry]) -> dict[str, NodeFacts]:
        """Return the answers of each living node."""
        for node in nodes:
            if not node.is_alive:
                self._problems.add(
                    "unreachable",
                    node.name,
                    "The meta server reports this node as down.",
                    done="It was not read; its disks and sizes are unknown.",
                    severity="error",
                )
        alive = [node for node in nodes if node.is_alive]
        with until(self._until), Pool(self._config.rest_fan_out) as pool:
            found = list(pool.map(self._read_node, alive))
        for _, problems in found:
            self._problems.extend(problems)
        return {node.name: facts for node, (facts, _) in zip(alive, found, strict=True)}

    def _read_node(self, node: NodeEntry) -> tuple[NodeFacts, ProblemLog]:
        problems, facts = ProblemLog(), NodeFacts()
        if monotonic() > self._until:
            problems.add("timeout", node.name, "The capture timed out.", done=_WITHOUT)
            return facts, problems
        within_s = self._within_s
        try:
            server = self._reached(node, facts, problems)
            if server is None:
                facts.is_answering = False
                return facts, problems
            try:
                facts.replicas = tried_in_time(
                    problems, f"replicas of {node.name}", partial(server.fetch_replicas, node)
                )
                self._run_commands(server, node, facts, problems)
            finally:
                server.close()
            within_s = self._config.timeouts.answer_s
            tried_in_time(
                problems,
                f"metrics of {node.name}",
                lambda: self._sample(node.name, server.address, facts),
            )
        except RemoteTimeoutError:
            # one timeout per node and capture: what did not answer once is not read again
            facts.is_answering = False
            problems.add(
                "timeout",
                node.name,
                f"{node.name} did not answer within {within_s:g} s.",
                done="It was not read again in this capture; missing values are unknown.",
                severity="error",
            )
        else:
            facts.is_answering = True
        return facts, problems

    @property
    def _within_s(self) -> float:
        return min(self._config.timeouts.answer_s, ANSWER_WITHIN_S)

    def _reached(
        self, node: NodeEntry, facts: NodeFacts, problems: ProblemLog
    ) -> ServerClient | None:
        """Request the disks by name, else by address; return the client that got an answer.

        Raises:
            RemoteTimeoutError: It accepted a connection and did not answer in time.
        """
        addresses = [node.name, *([node.address] if node.address else [])]
        connect_s = self._within_s / len(addresses)
        for address in addresses:
            server = ServerClient(
                address,
                timeout_s=self._within_s,
                connect_s=connect_s,
                max_bytes=self._config.read_limits.answer_bytes,
            )
            try:
                facts.disks = server.fetch_disks(node)
            except RemoteTimeoutError:
                server.close()
                raise
            except UnreachableError as exc:
                server.close()
                if address == addresses[-1]:
                    note(problems, exc, f"disks of {node.name}")
            except RemoteError as exc:
                note(problems, exc, f"disks of {node.name}")
                return server
            else:
                return server
        return None

    @staticmethod
    def _run_commands(
        server: ServerClient, node: NodeEntry, facts: NodeFacts, problems: ProblemLog
    ) -> None:
        info = tried_in_time(
            problems, f"server-info of {node.name}", lambda: server.send_command("server-info")
        )
        reported = info if isinstance(info, Mapping) else {}
        if isinstance(reported.get("version"), str):
            facts.version = reported["version"]
        if isinstance(reported.get("start_time"), str):
            facts.started_at = reported["start_time"]
        for command in (COPY_RATE, SEND_RATE):
            answer: Any = tried_in_time(
                problems,
                f"{command} of {node.name}",
                partial(server.send_command, command),
            )
            rate = _number(answer.get(command)) if isinstance(answer, Mapping) else None
            if rate is not None:
                facts.rates[command] = rate

    def _sample(self, name: str, address: str, facts: NodeFacts) -> None:
        """Read metrics; what the capture before has read is the beginning of the rates.

        A second sample is taken only where there is none such: after a restart, and when a replica
        was opened meanwhile. What changes slowly is read every few minutes.
        """
        known, now_s = self._remembered.get(name), monotonic()
        client = HttpClient(
            address,
            timeout_s=self._config.timeouts.answer_s,
            max_bytes=self._config.read_limits.answer_bytes,
        )
        try:
            after = _read(client, _METRICS) if known is not None else None
            if (
                known is None
                or after is None
                or not known.begins_rates_of(after, facts.started_at, now_s)
            ):
                before = _read(client, (*_METRICS, *_RARE))
                pause(self._config.rate_sample_s)
                after = _read(client, (*_METRICS, *_RARE))
                rare = RareStats((before, _with_latencies(client, after)))
                known = NodeSamples(facts.started_at, before, now_s, rare, now_s, 0, {})
                is_read = True
            else:
                is_read = now_s - known.rare_at_s >= RARELY_S
                if is_read:
                    later = _with_latencies(client, _read(client, _RARE))
                    known.rare = RareStats((known.rare.samples[1], later))
                    known.rare_at_s = now_s
            if is_read:
                known.flags, known.rare_at_ms = _flags(client), datetime_to_ms(datetime.now(UTC))
        finally:
            client.close()
        facts.samples, facts.rare = (known.last, after), known.rare
        facts.rare_at_ms, facts.flags = known.rare_at_ms, known.flags
        known.last, known.at_s = after, now_s
        self._remembered[name] = known


def _read(client: HttpClient, names: Sequence[str]) -> MetricsSample:
    return client.fetch_metrics(types=("server", "replica"), metrics=names)


def _with_latencies(client: HttpClient, sample: MetricsSample) -> MetricsSample:
    """Return a sample with the latencies of the five kinds of requests that are shown."""
    tasks = {"task_name": tuple(NODE_LATENCIES.values())}
    found = client.fetch_metrics(types=("profiler",), metrics=(LATENCY,), attributes=tasks)
    return replace(
        sample,
        values={**sample.values, **found.values},
        attributes={**sample.attributes, **found.attributes},
    )


def _flags(client: HttpClient) -> dict[str, str]:
    """Read the flags of a server that decide what it takes; an unknown one stays unknown."""
    found = {}
    for name in _NODE_FLAGS:
        with suppress(ProtocolError, NotFoundError):
            found[name] = client.fetch_flag(name).value
    return found


def _continues(before: MetricsSample, after: MetricsSample) -> bool:
    """Return whether every replica was there before, and no counter decreased."""
    for entity, values in after.values.items():
        if entity == _SERVER:
            continue
        old = before.values.get(entity)
        if old is None:
            return False
        for name in _COUNTERS:
            was, now = old.get(name), values.get(name)
            if was is not None and now is not None and now < was:
                return False
    return True


def tried(problems: ProblemLog, what: str, request: Callable[[], _T]) -> _T | None:
    """Return an answer; ``None`` when there is none, which is noted."""
    try:
        return request()
    except RemoteError as exc:
        note(problems, exc, what)
        return None


def tried_in_time(problems: ProblemLog, what: str, request: Callable[[], _T]) -> _T | None:
    """Return an answer; ``None`` if there is none, which is noted.

    Raises:
        RemoteTimeoutError: It did not come in time.
    """
    try:
        return request()
    except RemoteTimeoutError:
        raise
    except RemoteError as exc:
        note(problems, exc, what)
        return None


def note(problems: ProblemLog, exc: RemoteError, what: str) -> None:
    """Note a question that was not answered; a command that is not known is no failure."""
    is_unknown = isinstance(exc, NotFoundError)
    problems.add(
        "unsupported" if is_unknown else exc.code,
        what,
        exc.message,
        done=_WITHOUT,
        severity="warning" if is_unknown else "error",
    )


def _number(text: object) -> float | None:
    try:
        return None if text is None else float(str(text))
    except ValueError:
        return None


def envs_text(envs: Mapping[str, str]) -> str:
    """Return a table's environment as JSON."""
    return json.dumps(dict(envs), sort_keys=True)
