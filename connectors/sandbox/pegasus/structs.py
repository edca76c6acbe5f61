"""Values of ours to structs of the wire: what the sandbox answers with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connectors.pegasus.rpc import idl
from connectors.pegasus.rpc.wire import ErrorCode, Gpid, HostPort, RpcAddress, Struct
from connectors.sandbox.pegasus.state import Node
from core.pegasus.answers import DiskEntry, TableEntry
from core.pegasus.ddd import DddNode
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


def info_struct(values: Mapping[str, str]) -> Struct:
    """Return what the leading meta server says of its cluster."""
    return idl.ClusterInfoResponse(err=ErrorCode(), keys=list(values), values=list(values.values()))
