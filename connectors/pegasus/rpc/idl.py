"""Our own description of the calls: structs with field numbers, and which call takes which.

Names are the upstream ones. ``node`` and ``hp_node`` are the two forms of one address: numbers for
older clients, and the registered host name, which alone counts for the servers of today.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connectors.pegasus.rpc.wire import (
    ErrorCode,
    Gpid,
    HostPort,
    RpcAddress,
    Struct,
    boolean,
    i32,
    i64,
    lists,
    many,
    number_map,
    number_set,
    numbers,
    one,
    sets_by_number,
    struct,
    structs_by_number,
    structs_by_text,
    text,
    text_map,
    texts,
)

Empty = struct("Empty")

PartitionConfiguration = struct(
    "PartitionConfiguration",
    one(1, "pid", Gpid),
    i64(2, "ballot"),
    i32(3, "max_replica_count"),
    one(4, "primary", RpcAddress),
    many(5, "secondaries", RpcAddress),
    many(6, "last_drops", RpcAddress),
    i64(7, "last_committed_decree"),
    i32(8, "partition_flags"),
    one(9, "hp_primary", HostPort),
    many(10, "hp_secondaries", HostPort),
    many(11, "hp_last_drops", HostPort),
)
QueryCfgRequest = struct("QueryCfgRequest", text(1, "app_name"), numbers(2, "partition_indices"))
QueryCfgResponse = struct(
    "QueryCfgResponse",
    one(1, "err", ErrorCode),
    i32(2, "app_id"),
    i32(3, "partition_count"),
    boolean(4, "is_stateful"),
    many(5, "partitions", PartitionConfiguration),
)

AppInfo = struct(
    "AppInfo",
    i32(1, "status"),
    text(2, "app_type"),
    text(3, "app_name"),
    i32(4, "app_id"),
    i32(5, "partition_count"),
    text_map(6, "envs"),
    boolean(7, "is_stateful"),
    i32(8, "max_replica_count"),
    i64(9, "expire_second"),
    i64(10, "create_second"),
    i64(11, "drop_second"),
    boolean(12, "duplicating"),
    i32(13, "init_partition_count"),
    boolean(14, "is_bulk_loading"),
    boolean(15, "atomic_idempotent"),
)
ListAppsRequest = struct(
    "ListAppsRequest", i32(1, "status"), text(2, "app_name_pattern"), i32(3, "match_type")
)
ListAppsResponse = struct(
    "ListAppsResponse", one(1, "err", ErrorCode), many(2, "infos", AppInfo), text(3, "hint_message")
)

NodeInfo = struct(
    "NodeInfo", i32(1, "status"), one(2, "node", RpcAddress), one(3, "hp_node", HostPort)
)
ListNodesRequest = struct("ListNodesRequest", i32(1, "status"))
ListNodesResponse = struct(
    "ListNodesResponse", one(1, "err", ErrorCode), many(2, "infos", NodeInfo)
)

ClusterInfoResponse = struct(
    "ClusterInfoResponse", one(1, "err", ErrorCode), texts(2, "keys"), texts(3, "values")
)
ControlMetaRequest = struct("ControlMetaRequest", i32(1, "level"))
ControlMetaResponse = struct("ControlMetaResponse", one(1, "err", ErrorCode), i32(2, "old_level"))

# field 4 is retired
ProposalAction = struct(
    "ProposalAction",
    one(1, "target", RpcAddress),
    one(2, "node", RpcAddress),
    i32(3, "type"),
    one(5, "hp_target", HostPort),
    one(6, "hp_node", HostPort),
)
BalancerRequest = struct(
    "BalancerRequest",
    one(1, "gpid", Gpid),
    many(2, "action_list", ProposalAction),
    boolean(3, "force"),
    i32(4, "balance_type"),
)
ErrResponse = struct("ErrResponse", one(1, "err", ErrorCode))

DddNodeInfo = struct(
    "DddNodeInfo",
    one(1, "node", RpcAddress),
    i64(2, "drop_time_ms"),
    boolean(3, "is_alive"),
    boolean(4, "is_collected"),
    i64(5, "ballot"),
    i64(6, "last_committed_decree"),
    i64(7, "last_prepared_decree"),
    one(8, "hp_node", HostPort),
)
DddPartitionInfo = struct(
    "DddPartitionInfo",
    one(1, "config", PartitionConfiguration),
    many(2, "dropped", DddNodeInfo),
    text(3, "reason"),
)
DddDiagnoseRequest = struct("DddDiagnoseRequest", one(1, "pid", Gpid))
DddDiagnoseResponse = struct(
    "DddDiagnoseResponse", one(1, "err", ErrorCode), many(2, "partitions", DddPartitionInfo)
)

DiskInfo = struct(
    "DiskInfo",
    text(1, "tag"),
    text(2, "full_dir"),
    i64(3, "disk_capacity_mb"),
    i64(4, "disk_available_mb"),
    sets_by_number(5, "holding_primary_replicas", Gpid),
    sets_by_number(6, "holding_secondary_replicas", Gpid),
)
QueryDiskInfoRequest = struct(
    "QueryDiskInfoRequest",
    one(1, "node", RpcAddress),
    text(2, "app_name"),
    one(3, "hp_node", HostPort),
)
QueryDiskInfoResponse = struct(
    "QueryDiskInfoResponse",
    one(1, "err", ErrorCode),
    i64(2, "total_capacity_mb"),
    i64(3, "total_available_mb"),
    many(4, "disk_infos", DiskInfo),
)

ReplicaInfo = struct(
    "ReplicaInfo",
    one(1, "pid", Gpid),
    i64(2, "ballot"),
    i32(3, "status"),
    i64(4, "last_committed_decree"),
    i64(5, "last_prepared_decree"),
    i64(6, "last_durable_decree"),
    text(7, "app_type"),
    text(8, "disk_tag"),
    i32(9, "manual_compact_status"),
)
QueryReplicaInfoRequest = struct(
    "QueryReplicaInfoRequest", one(1, "node1", RpcAddress), one(2, "hp_node1", HostPort)
)
QueryReplicaInfoResponse = struct(
    "QueryReplicaInfoResponse", one(1, "err", ErrorCode), many(2, "replicas", ReplicaInfo)
)

# field 6 is retired
PartitionLag = struct("PartitionLag", i64(1, "confirmed_decree"), i64(2, "last_committed_decree"))
Duplication = struct(
    "Duplication",
    i32(1, "dupid"),
    i32(2, "status"),
    text(3, "remote"),
    i64(4, "create_ts"),
    number_map(5, "progress"),
    i32(7, "fail_mode"),
    text(8, "remote_app_name"),
    i32(9, "remote_replica_count"),
    i32(10, "mode"),
    structs_by_number(11, "partition_states", PartitionLag),
)
QueryDuplicationRequest = struct("QueryDuplicationRequest", text(1, "app_name"))
QueryDuplicationResponse = struct(
    "QueryDuplicationResponse",
    one(1, "err", ErrorCode),
    i32(3, "appid"),
    many(4, "entry_list", Duplication),
)
TableDuplications = struct(
    "TableDuplications",
    i32(1, "appid"),
    structs_by_number(2, "duplications", Duplication),
    text(3, "app_name"),
    i32(4, "partition_count"),
)
ListDuplicationRequest = struct(
    "ListDuplicationRequest", text(1, "app_name_pattern"), i32(2, "match_type")
)
ListDuplicationResponse = struct(
    "ListDuplicationResponse",
    one(1, "err", ErrorCode),
    text(2, "hint_message"),
    structs_by_text(3, "app_states", TableDuplications),
)

BackupPolicy = struct(
    "BackupPolicy",
    text(1, "policy_name"),
    text(2, "backup_provider_type"),
    text(3, "backup_interval_seconds"),
    number_set(4, "app_ids"),
    i32(5, "backup_history_count_to_keep"),
    text(6, "start_time"),
    boolean(7, "is_disable"),
)
Backup = struct(
    "Backup",
    i64(1, "backup_id"),
    i64(2, "start_time_ms"),
    i64(3, "end_time_ms"),
    number_set(4, "app_ids"),
)
QueryBackupPolicyRequest = struct(
    "QueryBackupPolicyRequest", texts(1, "policy_names"), i32(2, "backup_info_count")
)
QueryBackupPolicyResponse = struct(
    "QueryBackupPolicyResponse",
    one(1, "err", ErrorCode),
    many(2, "policys", BackupPolicy),
    lists(3, "backup_infos", Backup),
    text(4, "hint_msg"),
)

Command = struct("Command", text(1, "cmd"), texts(2, "arguments"))

QueryAppInfoRequest = struct(
    "QueryAppInfoRequest", one(1, "meta_server", RpcAddress), one(2, "hp_meta_server", HostPort)
)
QueryAppInfoResponse = struct(
    "QueryAppInfoResponse", one(1, "err", ErrorCode), many(2, "apps", AppInfo)
)
GetMaxReplicaCountRequest = struct("GetMaxReplicaCountRequest", text(1, "app_name"))
GetMaxReplicaCountResponse = struct(
    "GetMaxReplicaCountResponse",
    one(1, "err", ErrorCode),
    i32(2, "max_replica_count"),
    text(3, "hint_message"),
)
CreateAppOptions = struct(
    "CreateAppOptions",
    i32(1, "partition_count"),
    i32(2, "replica_count"),
    boolean(3, "success_if_exist"),
    text(4, "app_type"),
    boolean(5, "is_stateful"),
    text_map(6, "envs"),
    boolean(7, "atomic_idempotent"),
)
CreateAppRequest = struct(
    "CreateAppRequest", text(1, "app_name"), one(2, "options", CreateAppOptions)
)
CreateAppResponse = struct("CreateAppResponse", one(1, "err", ErrorCode), i32(2, "appid"))
DropAppOptions = struct(
    "DropAppOptions", boolean(1, "success_if_not_exist"), i64(2, "reserve_seconds")
)
DropAppRequest = struct("DropAppRequest", text(1, "app_name"), one(2, "options", DropAppOptions))


@dataclass(frozen=True)
class Call:
    """One remote procedure call.

    Attributes:
        name: Its code.
        request: What it takes.
        response: What it gives; ``None`` for a bare text.
        is_read: A repeated request does no harm.
    """

    name: str
    request: type[Struct]
    response: type[Struct] | None
    is_read: bool = True


QUERY_CFG: Final = Call("RPC_CM_QUERY_PARTITION_CONFIG_BY_INDEX", QueryCfgRequest, QueryCfgResponse)
LIST_APPS: Final = Call("RPC_CM_LIST_APPS", ListAppsRequest, ListAppsResponse)
LIST_NODES: Final = Call("RPC_CM_LIST_NODES", ListNodesRequest, ListNodesResponse)
CLUSTER_INFO: Final = Call("RPC_CM_CLUSTER_INFO", Empty, ClusterInfoResponse)
CONTROL_META: Final = Call(
    "RPC_CM_CONTROL_META", ControlMetaRequest, ControlMetaResponse, is_read=False
)
PROPOSE_BALANCER: Final = Call(
    "RPC_CM_PROPOSE_BALANCER", BalancerRequest, ErrResponse, is_read=False
)
DDD_DIAGNOSE: Final = Call("RPC_CM_DDD_DIAGNOSE", DddDiagnoseRequest, DddDiagnoseResponse)
QUERY_DUPLICATION: Final = Call(
    "RPC_CM_QUERY_DUPLICATION", QueryDuplicationRequest, QueryDuplicationResponse
)
LIST_DUPLICATION: Final = Call(
    "RPC_CM_LIST_DUPLICATION", ListDuplicationRequest, ListDuplicationResponse
)
QUERY_BACKUP_POLICY: Final = Call(
    "RPC_CM_QUERY_BACKUP_POLICY", QueryBackupPolicyRequest, QueryBackupPolicyResponse
)
QUERY_DISK_INFO: Final = Call("RPC_QUERY_DISK_INFO", QueryDiskInfoRequest, QueryDiskInfoResponse)
QUERY_REPLICA_INFO: Final = Call(
    "RPC_QUERY_REPLICA_INFO", QueryReplicaInfoRequest, QueryReplicaInfoResponse
)
REMOTE_COMMAND: Final = Call("RPC_CLI_CLI_CALL", Command, None, is_read=False)
# not sent by the console; known so that recordings decode and the sandbox may answer
QUERY_APP_INFO: Final = Call("RPC_QUERY_APP_INFO", QueryAppInfoRequest, QueryAppInfoResponse)
GET_MAX_REPLICA_COUNT: Final = Call(
    "RPC_CM_GET_MAX_REPLICA_COUNT", GetMaxReplicaCountRequest, GetMaxReplicaCountResponse
)
CREATE_APP: Final = Call("RPC_CM_CREATE_APP", CreateAppRequest, CreateAppResponse, is_read=False)
DROP_APP: Final = Call("RPC_CM_DROP_APP", DropAppRequest, ErrResponse, is_read=False)

CALLS: Final = (
    QUERY_CFG,
    LIST_APPS,
    LIST_NODES,
    CLUSTER_INFO,
    CONTROL_META,
    PROPOSE_BALANCER,
    DDD_DIAGNOSE,
    QUERY_DUPLICATION,
    LIST_DUPLICATION,
    QUERY_BACKUP_POLICY,
    QUERY_DISK_INFO,
    QUERY_REPLICA_INFO,
    REMOTE_COMMAND,
    QUERY_APP_INFO,
    GET_MAX_REPLICA_COUNT,
    CREATE_APP,
    DROP_APP,
)
CALL_BY_NAME: Final = {call.name: call for call in CALLS}
