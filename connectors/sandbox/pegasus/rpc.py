"""Remote procedure calls as the sandbox's servers answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.errors import FORWARD
from connectors.pegasus.rpc.frame import ACK, Reply, Request
from connectors.pegasus.rpc.wire import ErrorCode, Gpid, HostPort, RpcAddress, Struct, WireError
from connectors.sandbox.pegasus import commands
from connectors.sandbox.pegasus.cluster import Cluster
from connectors.sandbox.pegasus.state import Node
from core.pegasus.answers import (
    DUPLICATION_STATES,
    FAIL_MODES,
    DiskEntry,
    DuplicationEntry,
    TableEntry,
)
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.ddd import DddNode
from core.pegasus.levels import LEVEL_QUERY, FunctionLevel
from core.pegasus.partition import PartitionConfig, ReplicaEntry

_LOOPBACK = "127.0.0.1"


def address_of(name: str | None) -> RpcAddress:
    """Return the number form of a name of the sandbox, all of which are on loopback."""
    if name is None:
        return RpcAddress()
    return RpcAddress.of(f"{_LOOPBACK}:{name.rpartition(':')[2]}")


def name_of(name: str | None) -> HostPort:
    """Return the name form."""
    return HostPort() if name is None else HostPort.of(name)


def table_struct(table: TableEntry) -> Struct:
    """Return a table."""
    return idl.AppInfo(
        status=int(table.status),
        app_type="pegasus",
        app_name=table.name,
        app_id=table.app_id,
        partition_count=table.partition_count,
        envs=dict(table.envs),
        is_stateful=True,
        max_replica_count=table.max_replica_count,
        expire_second=table.expire_s,
        create_second=table.create_s,
        drop_second=table.drop_s,
        duplicating=table.is_duplicating,
        init_partition_count=-1,
        is_bulk_loading=table.is_bulk_loading,
        atomic_idempotent=False,
    )


def partition_struct(config: PartitionConfig) -> Struct:
    """Return the configuration of a partition."""
    return idl.PartitionConfiguration(
        pid=Gpid(config.app_id, config.index),
        ballot=config.ballot,
        max_replica_count=config.max_replica_count,
        primary=address_of(config.primary),
        secondaries=[address_of(name) for name in config.secondaries],
        last_drops=[address_of(name) for name in config.last_drops],
        last_committed_decree=config.last_committed_decree,
        partition_flags=0,
        hp_primary=name_of(config.primary),
        hp_secondaries=[name_of(name) for name in config.secondaries],
        hp_last_drops=[name_of(name) for name in config.last_drops],
    )


def node_struct(node: Node) -> Struct:
    """Return a node of the list."""
    return idl.NodeInfo(
        status=1 if node.is_alive else 2,
        node=RpcAddress.of(node.address),
        hp_node=HostPort.of(node.name),
    )


def disks_struct(disks: Iterable[DiskEntry]) -> Struct:
    """Return the disks of a server."""
    listed = list(disks)
    return idl.QueryDiskInfoResponse(
        err=ErrorCode(),
        total_capacity_mb=sum(disk.capacity_mb for disk in listed),
        total_available_mb=sum(disk.available_mb for disk in listed),
        disk_infos=[
            idl.DiskInfo(
                tag=disk.tag,
                full_dir=disk.directory,
                disk_capacity_mb=disk.capacity_mb,
                disk_available_mb=disk.available_mb,
                holding_primary_replicas=_by_table(disk.primaries),
                holding_secondary_replicas=_by_table(disk.secondaries),
            )
            for disk in listed
        ],
    )


def _by_table(gpids: Iterable[tuple[int, int]]) -> dict[int, list[Gpid]]:
    found: dict[int, list[Gpid]] = {}
    for app_id, index in sorted(gpids):
        found.setdefault(app_id, []).append(Gpid(app_id, index))
    return found


def replicas_struct(replicas: Iterable[ReplicaEntry]) -> Struct:
    """Return the replicas of a server."""
    return idl.QueryReplicaInfoResponse(
        err=ErrorCode(),
        replicas=[
            idl.ReplicaInfo(
                pid=Gpid(one.app_id, one.index),
                ballot=one.ballot,
                status=int(one.status),
                last_committed_decree=one.last_committed_decree,
                last_prepared_decree=one.last_prepared_decree,
                last_durable_decree=one.last_committed_decree,
                app_type="pegasus",
                disk_tag=one.disk,
                manual_compact_status=0,
            )
            for one in replicas
        ],
    )


def ddd_struct(config: PartitionConfig, dropped: Iterable[DddNode], reason: str) -> Struct:
    """Return a partition that lost every replica."""
    return idl.DddPartitionInfo(
        config=partition_struct(config),
        dropped=[
            idl.DddNodeInfo(
                node=address_of(one.node),
                drop_time_ms=one.drop_time_ms,
                is_alive=one.is_alive,
                is_collected=one.is_collected,
                ballot=one.ballot,
                last_committed_decree=one.last_committed_decree,
                last_prepared_decree=one.last_prepared_decree,
                hp_node=name_of(one.node),
            )
            for one in dropped
        ],
        reason=reason,
    )


def duplication_struct(one: DuplicationEntry) -> Struct:
    """Return a duplication, with what each partition has committed and confirmed."""
    return idl.Duplication(
        dupid=one.dup_id,
        status=DUPLICATION_STATES.index(one.status),
        remote=one.remote,
        create_ts=one.create_ms,
        fail_mode=FAIL_MODES.index(one.fail_mode or FAIL_MODES[0]),
        remote_app_name=one.remote_table,
        partition_states={
            index: idl.PartitionLag(confirmed_decree=0, last_committed_decree=lag)
            for index, lag in one.lags.items()
        },
    )


def info_struct(values: Mapping[str, str]) -> Struct:
    """Return the leading meta server's report on its cluster."""
    return idl.ClusterInfoResponse(err=ErrorCode(), keys=list(values), values=list(values.values()))


NO_HANDLER: Final = "ERR_HANDLER_NOT_FOUND"
_UNKNOWN_TABLE: Final = "ERR_OBJECT_NOT_FOUND"


def _any_name(_name: str, _pattern: str) -> bool:
    return True


_PATTERN_KINDS: Final[dict[int, Callable[[str, str], bool]]] = {
    2: lambda name, pattern: name == pattern,
    3: lambda name, pattern: pattern in name,
    4: lambda name, pattern: name.startswith(pattern),
    5: lambda name, pattern: name.endswith(pattern),
}


class MetaCalls:
    """Handlers of a meta server; one that does not lead returns an error.

    Args:
        cluster: The whole sandbox.
        name: Of this meta server.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._calls: dict[str, Callable[[Any], Struct]] = {
            idl.QUERY_CFG.name: self._query_cfg,
            idl.LIST_APPS.name: self._list_apps,
            idl.LIST_NODES.name: self._list_nodes,
            idl.CLUSTER_INFO.name: self._cluster_info,
            idl.CONTROL_META.name: self._control_meta,
            idl.PROPOSE_BALANCER.name: self._propose,
            idl.DDD_DIAGNOSE.name: self._ddd,
            idl.LIST_DUPLICATION.name: self._list_duplications,
            idl.QUERY_DUPLICATION.name: self._query_duplications,
            idl.QUERY_BACKUP_POLICY.name: self._policies,
            idl.GET_MAX_REPLICA_COUNT.name: self._max_replica_count,
        }

    def answer(self, request: Request) -> Reply:
        """Answer one call.

        Raises:
            WireError: The body lacks what the call needs, or the reply is to get lost: the
                connection is closed.
        """
        faults = self._cluster.state.faults
        faults.hear(request.name)
        reply = self._reply_to(request)
        faults.check_reply(request.name)
        return reply

    def _reply_to(self, request: Request) -> Reply:
        if request.name == idl.REMOTE_COMMAND.name and request.body is not None:
            leads = self._cluster.leader == self._name
            text = commands.answer_meta(self._cluster, request.body, leads=leads)
            return _reply(request, text)
        call = self._calls.get(request.name)
        if call is None or request.body is None:
            return Reply(request.name + ACK, request.seqid, NO_HANDLER, None)
        if self._cluster.leader != self._name:
            return _reply(request, self._forward(request))
        try:
            return _reply(request, call(request.body))
        except (AttributeError, TypeError, ValueError) as exc:
            raise WireError(f"a body of {request.name} that does not fit: {exc}") from exc

    def _forward(self, request: Request) -> Struct:
        """Answer that another server leads; only the query for partitions names it."""
        error = ErrorCode(FORWARD)
        if request.name == idl.CONTROL_META.name:
            return idl.ControlMetaResponse(err=error, old_level=0)
        if request.name == idl.QUERY_CFG.name and self._cluster.leader is not None:
            leader = PartitionConfig(0, 0, 0, 0, self._cluster.leader)
            partitions = [partition_struct(leader)]
            counts = {"app_id": 0, "partition_count": 0, "is_stateful": False}
            return idl.QueryCfgResponse(err=error, partitions=partitions, **counts)
        response = idl.CALL_BY_NAME[request.name].response or idl.ErrResponse
        return response(err=error)

    # -- questions ------------------------------------------------------------------------------

    def _query_cfg(self, body: Struct) -> Struct:
        state = self._cluster.state
        table = state.table_named(body.app_name or "")
        if table is None:
            return idl.QueryCfgResponse(
                err=ErrorCode(_UNKNOWN_TABLE),
                app_id=0,
                partition_count=0,
                is_stateful=False,
                partitions=[],
            )
        wanted = body.partition_indices or []
        if not wanted or any(not 0 <= one < table.partition_count for one in wanted):
            wanted = range(table.partition_count)
        partitions = state.of_table(table.app_id)
        return idl.QueryCfgResponse(
            err=ErrorCode(),
            app_id=table.app_id,
            partition_count=table.partition_count,
            is_stateful=True,
            partitions=[partition_struct(partitions[one].config) for one in wanted],
        )

    def _list_apps(self, body: Struct) -> Struct:
        status = body.status or 0
        fits = _PATTERN_KINDS.get(body.match_type or 0, _any_name)
        pattern = body.app_name_pattern or ""
        infos = [
            table_struct(table)
            for table in self._cluster.state.tables.values()
            if status in {0, int(table.status)} and fits(table.name, pattern)
        ]
        return idl.ListAppsResponse(err=ErrorCode(), infos=infos)

    def _list_nodes(self, body: Struct) -> Struct:
        status = body.status or 0
        infos = [
            node_struct(node)
            for node in self._cluster.state.nodes.values()
            if status == 0 or (status == 1) == node.is_alive
        ]
        return idl.ListNodesResponse(err=ErrorCode(), infos=infos)

    def _cluster_info(self, _body: Struct) -> Struct:
        return info_struct(self._cluster.info(with_name=True))

    def _ddd(self, body: Struct) -> Struct:
        meta, wanted = self._cluster.meta, body.pid
        infos = []
        for gpid, reason in meta.ddd.items():
            if wanted.app_id not in {-1, gpid[0]} or wanted.index not in {-1, gpid[1]}:
                continue
            partition = self._cluster.state.partitions[gpid]
            dropped = meta.ddd_nodes(partition)
            infos.append(ddd_struct(partition.config, dropped, reason))
        return idl.DddDiagnoseResponse(err=ErrorCode(), partitions=infos)

    def _list_duplications(self, _body: Struct) -> Struct:
        state = self._cluster.state
        states = {}
        for table in state.tables.values():
            own = [one for one in state.duplications if one.app_id == table.app_id]
            states[table.name] = idl.TableDuplications(
                appid=table.app_id,
                duplications={one.dup_id: duplication_struct(one) for one in own},
                app_name=table.name,
                partition_count=table.partition_count,
            )
        return idl.ListDuplicationResponse(err=ErrorCode(), hint_message="", app_states=states)

    def _query_duplications(self, body: Struct) -> Struct:
        state = self._cluster.state
        table = state.table_named(body.app_name or "")
        if table is None:
            return idl.QueryDuplicationResponse(err=ErrorCode("ERR_APP_NOT_EXIST"))
        own = [one for one in state.duplications if one.app_id == table.app_id]
        return idl.QueryDuplicationResponse(
            err=ErrorCode(),
            appid=table.app_id,
            entry_list=[duplication_struct(one) for one in own],
        )

    def _policies(self, _body: Struct) -> Struct:
        state = self._cluster.state
        if not state.has_backups:
            return idl.QueryBackupPolicyResponse(err=ErrorCode("ERR_SERVICE_NOT_ACTIVE"))
        return idl.QueryBackupPolicyResponse(
            err=ErrorCode(),
            policys=[
                idl.BackupPolicy(
                    policy_name=one.name,
                    backup_provider_type=one.provider,
                    backup_interval_seconds=str(one.interval_s or ""),
                    app_ids=set(one.app_ids),
                    backup_history_count_to_keep=one.kept,
                    start_time=one.start_time,
                    is_disable=one.is_disabled,
                )
                for one in state.policies
            ],
            backup_infos=[
                [
                    idl.Backup(
                        backup_id=one.last_start_ms,
                        start_time_ms=one.last_start_ms,
                        end_time_ms=one.last_end_ms,
                        app_ids=set(one.app_ids),
                    )
                ]
                if one.last_start_ms
                else []
                for one in state.policies
            ],
        )

    def _max_replica_count(self, body: Struct) -> Struct:
        table = self._cluster.state.table_named(body.app_name or "")
        error = _UNKNOWN_TABLE if table is None else "ERR_OK"
        count = 0 if table is None else table.max_replica_count
        return idl.GetMaxReplicaCountResponse(
            err=ErrorCode(error), max_replica_count=count, hint_message=""
        )

    # -- changes --------------------------------------------------------------------------------

    def _control_meta(self, body: Struct) -> Struct:
        state = self._cluster.state
        old = state.stored_level
        if body.level != LEVEL_QUERY:
            state.stored_level = int(body.level)
            if body.level <= FunctionLevel.STEADY:
                self._cluster.meta.clear_proposals()
        return idl.ControlMetaResponse(err=ErrorCode(), old_level=old)

    def _propose(self, body: Struct) -> Struct:
        """Queue a proposal; names that are not registered are taken, and nothing happens."""
        state = self._cluster.state
        partition = state.partitions.get((body.gpid.app_id, body.gpid.index))
        if partition is None:
            return idl.ErrResponse(err=ErrorCode("ERR_APP_NOT_EXIST"))
        actions = tuple(
            ProposalAction(
                ConfigType(one.type),
                (one.hp_target.text if one.hp_target is not None else None) or "",
                (one.hp_node.text if one.hp_node is not None else None) or "",
            )
            for one in body.action_list or ()
        )
        is_queued = self._cluster.meta.propose(partition, actions)
        return idl.ErrResponse(err=ErrorCode("ERR_OK" if is_queued else "ERR_INVALID_PARAMETERS"))


class ReplicaCalls:
    """Handlers of a replica server.

    Args:
        cluster: The whole sandbox.
        name: Of this node.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def answer(self, request: Request) -> Reply:
        """Answer one call; calls of meta servers are not known here."""
        if request.body is None:
            return Reply(request.name + ACK, request.seqid, NO_HANDLER, None)
        if request.name == idl.QUERY_DISK_INFO.name:
            return _reply(request, self._disks(request.body))
        if request.name == idl.QUERY_REPLICA_INFO.name:
            replicas = self._cluster.state.replicas_of(self._name)
            return _reply(request, replicas_struct(replicas))
        if request.name == idl.REMOTE_COMMAND.name:
            node = self._cluster.state.nodes[self._name]
            return _reply(request, commands.answer_replica(self._cluster, node, request.body))
        if request.name == idl.QUERY_APP_INFO.name:
            return _reply(request, self._app_info())
        return Reply(request.name + ACK, request.seqid, NO_HANDLER, None)

    def _disks(self, body: Struct) -> Struct:
        state = self._cluster.state
        node = state.nodes[self._name]
        if not body.app_name:
            return disks_struct(state.reported_disks(node))
        table = state.table_named(body.app_name)
        if table is None:
            return idl.QueryDiskInfoResponse(
                err=ErrorCode(_UNKNOWN_TABLE),
                total_capacity_mb=0,
                total_available_mb=0,
                disk_infos=[],
            )
        return disks_struct(state.reported_disks(node, table.app_id))

    def _app_info(self) -> Struct:
        state = self._cluster.state
        held = {
            gpid[0]
            for gpid, partition in state.partitions.items()
            if self._name in partition.config.members
        }
        apps = [table_struct(state.tables[app_id]) for app_id in sorted(held)]
        return idl.QueryAppInfoResponse(err=ErrorCode(), apps=apps)


def _reply(request: Request, result: Struct | str) -> Reply:
    return Reply(request.name + ACK, request.seqid, "ERR_OK", result)
