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

ADDED_LATER: Final[dict[str, tuple[str, ...]]] = {"nodes": ("started_at",)}
"""Columns that older snapshots do not have, by table; unknown throughout they do not count in a
snapshot's id, so that an older one keeps its own."""

PEGASUS_TABLES: Final[dict[str, pa.Schema]] = {
    "nodes": NODES,
    "tables": TABLES,
    "partitions": PARTITIONS,
    "replicas": REPLICAS,
    "disks": DISKS,
    "settings": SETTINGS,
}
