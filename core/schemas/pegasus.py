"""The tables of a Pegasus snapshot.

Null means *unknown*: it is never zero and never green. Rates are requests/s over the two samples
of a capture. Times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa


def _field(name: str, kind: pa.DataType, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit} if unit else None)


_NAMES = pa.list_(pa.string())

NODES: Final = pa.schema(
    [
        _field("node", pa.string(), nullable=False),  # registered name host:port
        _field("address", pa.string()),  # the same as IPv4 and port
        _field("is_alive", pa.bool_(), nullable=False),  # the failure detector's word
        _field("version", pa.string()),
        _field("resident_memory_mb", pa.float64(), "MB"),
        _field("learning_replicas", pa.int64()),
        _field("copy_rate_mb_per_s", pa.float64(), "MB/s"),  # limit a disk, receiving
        _field("send_rate_mb_per_s", pa.float64(), "MB/s"),  # limit a disk, sending
        _field("started_at", pa.string()),  # its process, in the server's own words
        _field("virtual_memory_mb", pa.float64(), "MB"),
        _field("block_cache_mb", pa.float64(), "MB"),
        _field("write_buffer_mb", pa.float64(), "MB"),  # all memtables that it manages
        _field("write_buffer_mutable_mb", pa.float64(), "MB"),  # those still being written
        _field("memtable_mb", pa.float64(), "MB"),  # of its replicas
        _field("index_filter_mb", pa.float64(), "MB"),  # index and filter blocks, of its replicas
        _field("total_replicas", pa.int64()),  # by its own count, as all that follow
        _field("opening_replicas", pa.int64()),
        _field("closing_replicas", pa.int64()),
        _field("inactive_replicas", pa.int64()),
        _field("error_replicas", pa.int64()),
        _field("primary_replicas", pa.int64()),
        _field("secondary_replicas", pa.int64()),
        _field("splitting_replicas", pa.int64()),
        _field("get_rate", pa.float64(), "requests/s"),  # of all its replicas, as all that follow
        _field("multi_get_rate", pa.float64(), "requests/s"),
        _field("batch_get_rate", pa.float64(), "requests/s"),
        _field("put_rate", pa.float64(), "requests/s"),
        _field("multi_put_rate", pa.float64(), "requests/s"),
        _field("get_p99_ms", pa.float64(), "ms"),  # its profiler's, as all that follow
        _field("multi_get_p99_ms", pa.float64(), "ms"),
        _field("batch_get_p99_ms", pa.float64(), "ms"),
        _field("put_p99_ms", pa.float64(), "ms"),
        _field("multi_put_p99_ms", pa.float64(), "ms"),
        _field("is_answering", pa.bool_()),  # it answered this capture; null: it was not queried
        _field("disk_min_available_ratio", pa.float64()),  # its own flag: below it a disk is full
        _field("min_2pc_replica_count", pa.int64()),  # its own flag: replicas that a write needs
        _field("emptied_at", pa.int64(), "ms"),  # it gave up its last replica while alive
    ]
)
"""One row a replica server that the meta server knows, dead ones included, by host and port."""

TABLES: Final = pa.schema(
    [
        _field("app_id", pa.int64(), nullable=False),
        _field("name", pa.string(), nullable=False),
        _field("status", pa.string(), nullable=False),  # available, dropped ...
        _field("partition_count", pa.int64(), nullable=False),
        _field("max_replica_count", pa.int64(), nullable=False),
        _field("envs", pa.string(), nullable=False),  # JSON object of texts
        _field("created_at", pa.int64(), "ms"),
        _field("dropped_at", pa.int64(), "ms"),
        _field("expires_at", pa.int64(), "ms"),
        _field("is_bulk_loading", pa.bool_(), nullable=False),
        _field("is_duplicating", pa.bool_(), nullable=False),
    ]
)
"""One row a table in any status, by ``app_id``."""

PARTITIONS: Final = pa.schema(
    [
        _field("app_id", pa.int64(), nullable=False),
        _field("index", pa.int64(), nullable=False),
        _field("ballot", pa.int64(), nullable=False),
        _field("max_replica_count", pa.int64(), nullable=False),
        _field("primary", pa.string()),  # null: it has none
        _field("secondaries", _NAMES, nullable=False),  # in the order of their addition
        _field("last_drops", _NAMES, nullable=False),  # the latest last
        _field("last_committed_decree", pa.int64(), nullable=False),
        _field("ddd_reason", pa.string()),  # null: not among those that lost every replica
        _field("ddd_dropped", pa.string()),  # JSON list: its former members as diagnosed
        _field("copies", pa.string()),  # JSON list: replicas on nodes, of one without a primary
    ]
)
"""One row a partition of an available table, by ``(app_id, index)``."""

REPLICAS: Final = pa.schema(
    [
        _field("app_id", pa.int64(), nullable=False),
        _field("index", pa.int64(), nullable=False),
        _field("node", pa.string(), nullable=False),
        _field("is_primary", pa.bool_(), nullable=False),
        _field("disk", pa.string()),
        _field("size_mb", pa.float64(), "MB"),
        _field("read_rate", pa.float64(), "requests/s"),
        _field("write_rate", pa.float64(), "requests/s"),
        _field("read_units", pa.float64(), "capacity units/s"),
        _field("write_units", pa.float64(), "capacity units/s"),
    ]
)
"""One row a member of a partition, the primary first."""

DISKS: Final = pa.schema(
    [
        _field("node", pa.string(), nullable=False),
        _field("disk", pa.string(), nullable=False),
        _field("directory", pa.string(), nullable=False),
        _field("capacity_mb", pa.int64(), "MB", nullable=False),
        _field("available_mb", pa.int64(), "MB", nullable=False),
    ]
)
"""One row a disk of a node that answered, in the order of ``data_dirs``."""

SETTINGS: Final = pa.schema(
    [
        _field("name", pa.string(), nullable=False),
        _field("value", pa.string(), nullable=False),
        _field("origin", pa.string(), nullable=False),  # cluster | command | flag
    ]
)
"""What the leading meta server told: its cluster information, levels (``level.stored`` as a number,
``level.effective`` as a word), switches by remote command and by flag. No row: unknown."""

OPERATIONS: Final = pa.schema(
    [
        _field("app_id", pa.int64(), nullable=False),
        _field("index", pa.int64(), nullable=False),
        _field("get_rate", pa.float32(), "requests/s"),
        _field("multi_get_rate", pa.float32(), "requests/s"),
        _field("batch_get_rate", pa.float32(), "requests/s"),
        _field("put_rate", pa.float32(), "requests/s"),
        _field("multi_put_rate", pa.float32(), "requests/s"),
        _field("remove_rate", pa.float32(), "requests/s"),
        _field("multi_remove_rate", pa.float32(), "requests/s"),
        _field("incr_rate", pa.float32(), "requests/s"),
        _field("check_and_set_rate", pa.float32(), "requests/s"),
        _field("check_and_mutate_rate", pa.float32(), "requests/s"),
        _field("scan_rate", pa.float32(), "requests/s"),
        _field("expired_rate", pa.float32(), "values/s"),  # read, but past their time
        _field("filtered_rate", pa.float32(), "values/s"),  # read, but left out by a scan's filter
        _field("abnormal_rate", pa.float32(), "requests/s"),  # reads that took or returned too much
        _field("delayed_rate", pa.float32(), "requests/s"),  # writes, by throttling
        _field("rejected_rate", pa.float32(), "requests/s"),  # the same
        _field("sst_files", pa.float32()),
        _field("memtable_mb", pa.float32(), "MB"),
        _field("index_filter_mb", pa.float32(), "MB"),
        _field("cache_hits", pa.float32()),  # since it was opened, as all that follow
        _field("cache_lookups", pa.float32()),
        _field("seek_negatives", pa.float32()),
        _field("seek_lookups", pa.float32()),
        _field("point_negatives", pa.float32()),
        _field("point_positives", pa.float32()),
        _field("point_true_positives", pa.float32()),
    ]
)
"""One row a partition of an available table, by ``(app_id, index)``: what its primary tells of it.
A table by itself: most readers of partitions do not want it. Single precision halves what becomes
of it on the disk, and is more than two samples can tell."""

NODE_ORDERS: Final = pa.schema(
    [
        _field("leader", pa.string(), nullable=False),  # the meta server whose order it is
        _field("since", pa.string()),  # start of its process, in its own words
        _field("rounds", pa.int64(), nullable=False),  # of the balancer, that it was learned from
        _field("unexplained", pa.int64(), nullable=False),  # changes that no order explains
        _field("is_complete", pa.bool_(), nullable=False),  # all orders that fit; else some
        _field("position", pa.int64(), nullable=False),
        _field("nodes", _NAMES, nullable=False),
    ]
)
"""One row an order of the nodes, as the balancer numbers them, that fits all rounds seen. No row:
no round was seen under this leader."""

DUPLICATIONS: Final = pa.schema(
    [
        _field("app_id", pa.int64(), nullable=False),
        _field("dup_id", pa.int64(), nullable=False),
        _field("status", pa.string(), nullable=False),  # init, prepare, app, log, pause, removed
        _field("remote", pa.string(), nullable=False),  # name of the other cluster
        _field("remote_table", pa.string()),
        _field("fail_mode", pa.string()),  # slow, skip, fast
        _field("created_at", pa.int64(), "ms"),
        _field("reported_partitions", pa.int64(), nullable=False),
        _field("lagging_partitions", pa.int64()),  # null, as all that follow: lag is not reported
        _field("total_lag", pa.int64(), "mutations"),  # committed here, not confirmed there
        _field("max_lag", pa.int64(), "mutations"),
        _field("max_lag_index", pa.int64()),  # the partition of ``max_lag``
    ]
)
"""One row a duplication of a table, by ``(app_id, dup_id)``."""

BACKUP_POLICIES: Final = pa.schema(
    [
        _field("name", pa.string(), nullable=False),
        _field("provider", pa.string(), nullable=False),
        _field("interval_s", pa.int64(), "s"),
        _field("app_ids", pa.list_(pa.int64()), nullable=False),
        _field("kept", pa.int64()),  # backups that are kept
        _field("start_time", pa.string(), nullable=False),  # hour:minute; empty: any
        _field("is_disabled", pa.bool_(), nullable=False),
        _field("last_started_at", pa.int64(), "ms"),  # null: none yet
        _field("last_ended_at", pa.int64(), "ms"),  # null: none yet, or it runs
    ]
)
"""One row a policy of periodic backups, by name."""

_LATER_OF_NODES: Final = tuple(NODES.names[NODES.get_field_index("started_at") :])

ADDED_LATER: Final[dict[str, tuple[str, ...]]] = {
    "nodes": _LATER_OF_NODES,
    "partitions": ("copies",),
}
"""Columns that older snapshots do not have, by table; unknown throughout they do not count in a
snapshot's id, so that an older one keeps its own."""

PEGASUS_TABLES: Final[dict[str, pa.Schema]] = {
    "nodes": NODES,
    "tables": TABLES,
    "partitions": PARTITIONS,
    "replicas": REPLICAS,
    "disks": DISKS,
    "settings": SETTINGS,
    "operations": OPERATIONS,
    "node_orders": NODE_ORDERS,
    "duplications": DUPLICATIONS,
    "backup_policies": BACKUP_POLICIES,
}

TABLES_ADDED_LATER: Final = frozenset(
    {"operations", "node_orders", "duplications", "backup_policies"}
)
"""Tables that older snapshots do not have; empty ones do not count in a snapshot's id either."""
