"""Pegasus snapshots in memory: small ones with everything in them, and generated ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pegasus_builder import make_view

from core.pegasus.view import NO_NODE
from core.schemas.pegasus import PEGASUS_TABLES
from core.snapshot import Manifest, Problem
from core.snapshot.pegasus import PegasusSnapshot

NODES: Final = ("db1:34801", "db2:34801", "db3:34801", "db4:34801")
SETTINGS: Final = {
    "level.stored": ("400", "cluster"),
    "level.effective": ("steady", "cluster"),
    "primary_meta_server": ("meta1:34601", "cluster"),
    "meta_servers": ("meta1:34601,meta2:34601", "cluster"),
    "cluster_name": ("peg", "cluster"),
    "balance_operation_count": (
        '{"total": 3, "move_pri": 2, "copy_pri": 0, "copy_sec": 1}',
        "cluster",
    ),
    "balance_cluster": ("false", "flag"),
    "balance_op_count_per_round": ("10", "flag"),
    "mutation_2pc_min_replica_count": ("2", "flag"),
    "min_live_node_count_for_unfreeze": ("3", "flag"),
    "only_move_primary": ("false", "command"),
    "only_primary_balancer": ("false", "command"),
    "balancer_in_turn": ("false", "command"),
    "assign_delay_ms": ("600000", "command"),
    "assign_secondary_black_list": ("", "command"),
    "ignored_app_list": ("", "command"),
    "meta.live_percentage": ("65", "command"),
}
"""By name: value and origin."""


def setting_rows(changes: Mapping[str, str | None] | None = None) -> list[dict[str, Any]]:
    """The settings with some changed; ``None`` takes one away."""
    told = {name: value for name, (value, _) in SETTINGS.items()} | dict(changes or {})
    return [
        {"name": name, "value": value, "origin": SETTINGS.get(name, ("", "cluster"))[1]}
        for name, value in sorted(told.items())
        if value is not None
    ]


def node_rows(dead: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Four nodes; a dead one tells nothing but its name."""
    down = set(dead)
    return [
        {"node": name, "is_alive": False}
        if name in down
        else {
            "node": name,
            "address": f"10.0.0.{place + 1}:34801",
            "is_alive": True,
            "version": "2.6.0",
            "resident_memory_mb": 100.0 + place,
            "learning_replicas": 0,
            "copy_rate_mb_per_s": 0.0,
            "send_rate_mb_per_s": 500.0,
        }
        for place, name in enumerate(NODES)
    ]


def table_row(app_id: int, name: str, partitions: int, **more: Any) -> dict[str, Any]:
    """A table that serves."""
    return {
        "app_id": app_id,
        "name": name,
        "status": "available",
        "partition_count": partitions,
        "max_replica_count": 3,
        "envs": "{}",
        "created_at": 1_700_000_000_000,
        "is_bulk_loading": False,
        "is_duplicating": False,
    } | more


def part_row(
    app_id: int, index: int, primary: str | None, secondaries: Iterable[str] = (), **more: Any
) -> dict[str, Any]:
    """A partition that wants three replicas."""
    return {
        "app_id": app_id,
        "index": index,
        "ballot": 3 + index,
        "max_replica_count": 3,
        "primary": primary,
        "secondaries": list(secondaries),
        "last_drops": [],
        "last_committed_decree": 0,
    } | more


def replica_rows(parts: Iterable[Mapping[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Every member of the partitions: 10 MB, 5 reads/s, 1 write/s each."""
    return [
        {
            "app_id": part["app_id"],
            "index": part["index"],
            "node": node,
            "is_primary": node == part["primary"],
            "disk": "ssd1",
            "size_mb": 10.0,
            "read_rate": 5.0,
            "write_rate": 1.0,
            "read_units": 6.0,
            "write_units": 2.0,
        }
        | more
        for part in parts
        for node in ([part["primary"]] if part["primary"] else []) + part["secondaries"]
    ]


def whole(
    parts: list[dict[str, Any]] | None = None,
    *,
    tables: list[dict[str, Any]] | None = None,
    dead: Iterable[str] = (),
    settings: Mapping[str, str | None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Rows of a snapshot: ``temp`` of four partitions, unless said otherwise, all healthy."""
    down = set(dead)
    if parts is None:
        parts = [part_row(2, at, NODES[0], [NODES[1 + at % 2], NODES[3]]) for at in range(4)]
    return {
        "nodes": node_rows(down),
        "tables": tables if tables is not None else [table_row(2, "temp", 4)],
        "partitions": parts,
        "replicas": replica_rows(parts),
        "disks": [
            {
                "node": name,
                "disk": f"ssd{disk}",
                "directory": f"/data{disk}",
                "capacity_mb": 1000,
                "available_mb": 400 * disk,
            }
            for name in NODES
            if name not in down
            for disk in (1, 2)
        ],
        "settings": setting_rows(settings),
    }


def snapshot_of(
    content: Mapping[str, list[dict[str, Any]]],
    *,
    cluster: str = "peg",
    taken_at: datetime | None = None,
    problems: tuple[Problem, ...] = (),
) -> PegasusSnapshot:
    """A snapshot with these rows; a column that no row names is unknown."""
    tables = {
        name: pa.table(
            {
                field.name: pa.array(
                    [row.get(field.name) for row in content.get(name, ())], field.type
                )
                for field in schema
            }
        )
        for name, schema in PEGASUS_TABLES.items()
    }
    manifest = Manifest(
        cluster=cluster,
        taken_at=taken_at or datetime(2026, 11, 21, tzinfo=UTC),
        tables={},
        leader="meta1:34601",
        release="2.6.0",
        problems=problems,
    )
    return PegasusSnapshot.build(manifest, tables)


def generated(
    tables: int,
    partitions: int,
    nodes: int,
    *,
    cluster: str = "peg",
    taken_at: datetime | None = None,
    seed: int = 1,
) -> PegasusSnapshot:
    """A healthy, uneven cluster of any size, with loads, made column by column."""
    view = make_view(tables, partitions, nodes, seed=seed)
    count = view.partition_count
    rng = np.random.default_rng(seed)
    app_ids = view.app_ids[view.table_of_row].astype(np.int64)
    index = np.arange(count, dtype=np.int64) % partitions
    names = np.array(view.nodes, dtype=object)
    members = names[view.members]
    weight = rng.pareto(1.5, tables)[view.table_of_row] + 0.1
    size = np.repeat(weight * 50, 3)
    replicas = {
        "app_id": np.repeat(app_ids, 3),
        "index": np.repeat(index, 3),
        "node": members.ravel().tolist(),
        "is_primary": np.tile([True, False, False], count),
        "disk": np.array(view.disks, dtype=object)[view.member_disks].ravel().tolist(),
        "size_mb": size,
        "read_rate": np.where(np.tile([True, False, False], count), size * 3, 0.0),
        "write_rate": size / 2,
        "read_units": size * 4,
        "write_units": size,
    }
    content = {
        "nodes": pa.table(
            {
                "node": list(view.nodes),
                "is_alive": [True] * nodes,
                "version": ["2.6.0"] * nodes,
                "resident_memory_mb": rng.random(nodes) * 1000,
            }
        ),
        "tables": pa.Table.from_pylist(
            [
                table_row(int(app_id), name, partitions)
                for app_id, name in zip(view.app_ids, view.app_names, strict=True)
            ]
        ),
        "partitions": pa.table(
            {
                "app_id": app_ids,
                "index": index,
                "ballot": np.full(count, 3),
                "max_replica_count": np.full(count, 3),
                "primary": members[:, 0].tolist(),
                "secondaries": pa.ListArray.from_arrays(
                    np.arange(0, 2 * count + 1, 2, dtype=np.int32), members[:, 1:].ravel().tolist()
                ),
                "last_drops": pa.array([[]] * count, pa.list_(pa.string())),
                "last_committed_decree": np.zeros(count, dtype=np.int64),
            }
        ),
        "replicas": pa.table(replicas),
        "disks": pa.Table.from_pylist(
            [
                {
                    "node": node,
                    "disk": disk,
                    "directory": f"/{disk}",
                    "capacity_mb": 1_000_000,
                    "available_mb": 400_000,
                }
                for node in view.nodes
                for disk in view.disks
            ]
        ),
        "settings": pa.Table.from_pylist(setting_rows()),
    }
    assert (view.members != NO_NODE).all()
    moment = taken_at or datetime(2026, 11, 21, tzinfo=UTC)
    manifest = Manifest(cluster=cluster, taken_at=moment, tables={}, leader="meta1:34601")
    return PegasusSnapshot.build(manifest, content)
