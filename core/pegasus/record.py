"""How snapshots of a Pegasus cluster are recorded, and what happened between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.pegasus.server_settings import CHANGEABLE
from core.pegasus.steps.level import LEVEL_KEY
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
    changing("duplications", PEGASUS_TABLES["duplications"], ("app_id", "dup_id")),
    changing("backup_policies", PEGASUS_TABLES["backup_policies"], ("name",)),
)
"""Kinds of a Pegasus cluster; ``replica_loads`` are a replica's rates, ``partition_loads`` what
primaries report of their operations."""

_REQUESTS = " + ".join(
    f"coalesce({name}_rate, 0)" for name in ("get", "multi_get", "batch_get", "put", "multi_put")
)


_LEVELS: Final = ("level.effective", "level.stored")
_CONFIGURED: Final = frozenset(
    {"meta_servers", "zookeeper_hosts", "zookeeper_root", "cluster_name"}
)
"""What the cluster information has of the configuration; the rest of it is computed."""

_PARTITION: Final = ["app_id", "index", "primary", "secondaries"]


def pegasus_events(before: PegasusSnapshot, after: PegasusSnapshot) -> list[dict[str, Any]]:
    """Return rows of ``events``, without who did it."""
    found: list[dict[str, Any]] = []
    leaders = before.manifest.leader, after.manifest.leader
    if leaders[0] != leaders[1]:
        found.append(
            {"kind": "leader", "subject": "leader", "before": leaders[0], "after": leaders[1]}
        )
    return [
        *found,
        *_nodes(before, after),
        *_setting_changes(*(_set_values(one) for one in (before, after))),
        *_partitions(before.tables["partitions"], after.tables["partitions"]),
    ]


def _nodes(before: PegasusSnapshot, after: PegasusSnapshot) -> list[dict[str, Any]]:
    tables = before.tables["nodes"], after.tables["nodes"]
    alive, started = (
        [dict(zip(one["node"].to_pylist(), one[name].to_pylist(), strict=True)) for one in tables]
        for name in ("is_alive", "started_at")
    )
    if not alive[0] or not alive[1]:
        return []  # one of the two did not read them
    restarted = [
        {"kind": "node_restart", "subject": node}
        for node in sorted(started[0].keys() & started[1].keys())
        if None not in (started[0][node], started[1][node]) and started[0][node] != started[1][node]
    ]
    return restarted + [
        {"kind": "node_up" if alive[1].get(node, False) else "node_down", "subject": node}
        for node in sorted(alive[0].keys() | alive[1].keys())
        if alive[0].get(node, False) != alive[1].get(node, False)
    ]


def _set_values(snapshot: PegasusSnapshot) -> dict[str, str]:
    """Return levels and set values, by name: computed figures are no settings."""
    rows = snapshot.tables["settings"].to_pylist()
    return {
        row["name"]: row["value"]
        for row in rows
        if row["origin"] != "cluster" or row["name"] in _CONFIGURED or row["name"] in _LEVELS
    }


def _setting_changes(before: dict[str, str], after: dict[str, str]) -> list[dict[str, Any]]:
    """Levels and settings that both snapshots know, and that differ."""
    found = []
    level = next((name for name in _LEVELS if name in before and name in after), None)
    if level is not None and before[level] != after[level]:
        found.append(
            {"kind": "level", "subject": level, "before": before[level], "after": after[level]}
        )
    found += [
        {"kind": "setting", "subject": name, "before": before[name], "after": after[name]}
        for name in sorted((before.keys() & after.keys()) - set(_LEVELS))
        if before[name] != after[name]
    ]
    return found


def _partitions(before: pa.Table, after: pa.Table) -> list[dict[str, Any]]:
    """Primaries and members that differ, of partitions that both have."""
    if before.select(_PARTITION).equals(after.select(_PARTITION)):
        return []
    places = pc.index_in(_gpids(after), value_set=_gpids(before))
    both = np.flatnonzero(np.asarray(pc.is_valid(places)))
    later = after.select(_PARTITION).take(pa.array(both))
    earlier = before.select(_PARTITION).take(places.take(pa.array(both)))
    moved = _texts(earlier["primary"]) != _texts(later["primary"])
    joined = [_texts(pc.binary_join(one["secondaries"], ",")) for one in (earlier, later)]
    changed = pa.array(np.flatnonzero(moved | (joined[0] != joined[1])))
    found: list[dict[str, Any]] = []
    for old, new in zip(
        earlier.take(changed).to_pylist(), later.take(changed).to_pylist(), strict=True
    ):
        found += _one(f"{old['app_id']}.{old['index']}", old, new)
    return found


def _one(gpid: str, old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if old["primary"] != new["primary"]:
        found.append(
            {"kind": "primary", "subject": gpid, "before": old["primary"], "after": new["primary"]}
        )
    members = [
        {*one["secondaries"], *([one["primary"]] * bool(one["primary"]))} for one in (old, new)
    ]
    found += [
        {"kind": "replica", "subject": gpid, "before": node, "after": None}
        for node in sorted(members[0] - members[1])
    ]
    found += [
        {"kind": "replica", "subject": gpid, "before": None, "after": node}
        for node in sorted(members[1] - members[0])
    ]
    return found


def _gpids(table: pa.Table) -> pa.Array:
    parts = [table[name].combine_chunks().cast(pa.string()) for name in ("app_id", "index")]
    return pc.binary_join_element_wise(*parts, ".")


def _texts(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.object_]]:
    texts: np.ndarray[Any, np.dtype[np.object_]] = pc.fill_null(column, "").to_numpy(
        zero_copy_only=False
    )
    return texts


def setting_subjects(key: str) -> Sequence[str]:
    """Return the subjects that a setting has in events of snapshots, its key included.

    Args:
        key: As a run has it: the level, or a remote command, with ``@`` and the server.
    """
    if key == LEVEL_KEY:
        return ["level", key]
    name = key.partition("@")[0]
    found = next((one for one in CHANGEABLE if one.key == name), None)
    return [key] if found is None else list(dict.fromkeys((key, found.setting.name)))


PEGASUS_RECORD: Final[SystemRecord[PegasusSnapshot]] = SystemRecord(
    system=KIND,
    tables=PEGASUS_TABLES,
    counted=("nodes", "partitions"),
    kinds=PEGASUS_KINDS,
    build=PegasusSnapshot.build,
    load=load_pegasus_snapshot,
    events=pegasus_events,
    setting_subjects=setting_subjects,
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
        drains="nodes",
    ),
)
