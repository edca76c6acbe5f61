"""How snapshots of a Pegasus cluster are recorded."""

from __future__ import annotations

from typing import Final

from core.pegasus.events import pegasus_events
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot.pegasus import KIND, PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.record import Kind, ServerLoad, SystemRecord, changing, part_of

_REPLICAS = PEGASUS_TABLES["replicas"]
_REPLICA = ("app_id", "index", "node")
_REPLICA_RATES = ("read_rate", "write_rate", "read_units", "write_units")
_OPERATIONS = PEGASUS_TABLES["operations"]

PEGASUS_KINDS: Final = (
    Kind(
        "nodes",
        PEGASUS_TABLES["nodes"],
        table="nodes",
        key=("node",),
        order=("node",),
        is_spine=True,
    ),
    changing("tables", PEGASUS_TABLES["tables"], ("app_id",)),
    changing("partitions", PEGASUS_TABLES["partitions"], ("app_id", "index")),
    changing(
        "replicas",
        part_of(_REPLICAS, tuple(one for one in _REPLICAS.names if one not in _REPLICA_RATES)),
        _REPLICA,
    ),
    Kind(
        "replica_loads",
        part_of(_REPLICAS, (*_REPLICA, *_REPLICA_RATES)),
        "busy",
        table="replicas",
        key=_REPLICA,
        activity=_REPLICA_RATES,
    ),
    Kind(
        "partition_loads",
        _OPERATIONS,
        "busy",
        table="operations",
        key=("app_id", "index"),
        order=("app_id", "index"),
        activity=tuple(name for name in _OPERATIONS.names if name.endswith("_rate")),
        is_spine=True,
    ),
    changing("disks", PEGASUS_TABLES["disks"], ("node", "disk")),
    changing("settings", PEGASUS_TABLES["settings"], ("name",)),
    changing("node_orders", PEGASUS_TABLES["node_orders"], ("position",)),
)
"""Kinds of a Pegasus cluster; ``replica_loads`` are a replica's rates, ``partition_loads`` what
primaries report of their operations."""

_REQUESTS = " + ".join(
    f"coalesce({name}_rate, 0)" for name in ("get", "multi_get", "batch_get", "put", "multi_put")
)

PEGASUS_RECORD: Final = SystemRecord(
    system=KIND,
    tables=PEGASUS_TABLES,
    counted=("nodes", "partitions"),
    kinds=PEGASUS_KINDS,
    build=PegasusSnapshot.build,
    load=load_pegasus_snapshot,
    events=pegasus_events,
    servers=ServerLoad(
        rows="nodes",
        key="node",
        measures={
            "primaries": "primary_replicas",
            "replicas": "total_replicas",
            "requests": "CASE WHEN get_rate IS NULL AND put_rate IS NULL THEN NULL "
            f"ELSE {_REQUESTS} END",
            "memory": "resident_memory_mb",
        },
        evenness="primaries",
    ),
)
