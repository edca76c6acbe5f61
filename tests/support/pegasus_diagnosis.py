"""Small Pegasus clusters to be diagnosed: even ones, and what is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pegasus_snapshots import part_row, replica_rows, setting_rows, snapshot_of, table_row

from core.diagnosis.model import Cause, Diagnosis
from core.diagnosis.pegasus import registry
from core.pegasus.view import NO_NODE, ClusterView
from core.snapshot.pegasus import PegasusSnapshot

LIVELY: Final = {"level.stored": "500", "level.effective": "lively"}
CALM: Final = {"balance_operation_count": '{"total": 0}'}

diagnose = partial(registry.diagnose, budget_s=200.0)
"""A busy machine ends no trial early."""


def proven(found: Diagnosis) -> list[Cause]:
    """Return the causes that a simulation proves, without facts such as a full disk."""
    return [cause for cause in found.causes if cause.effect is not None]


def node_names(count: int) -> list[str]:
    """``db1:34801``, ``db2:34801`` ..."""
    return [f"db{at + 1}:34801" for at in range(count)]


def even_parts(
    app_id: int, partitions: int, nodes: Sequence[str], *, replicas: int = 3, start: int = 0
) -> list[dict[str, Any]]:
    """Partitions placed in turn: as even as can be over these nodes."""
    count = len(nodes)
    return [
        part_row(
            app_id,
            at,
            nodes[(at + start) % count],
            [nodes[(at + start + 1 + more) % count] for more in range(replicas - 1)],
            max_replica_count=replicas,
        )
        for at in range(partitions)
    ]


def cluster(
    parts: Iterable[dict[str, Any]],
    *,
    nodes: int = 5,
    dead: Iterable[str] = (),
    settings: Mapping[str, str | None] | None = None,
    tables: Mapping[int, Mapping[str, Any]] | None = None,
    disks: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    disk_of: Callable[[dict[str, Any]], str] | None = None,
    **more: Any,
) -> PegasusSnapshot:
    """A snapshot of these partitions.

    Args:
        parts: Of any tables; the tables follow from them.
        nodes: How many there are, those in ``dead`` among them.
        dead: Names of dead ones.
        settings: Changes of the settings; ``None`` takes one away.
        tables: Changes of a table's row, by id; a table without partitions is added.
        disks: Tag and free space of 1,000 MB by node; by default two half empty ones.
        disk_of: The disk of a replica, by its row; by default in turn.
        more: Passed to ``snapshot_of``.
    """
    rows = list(parts)
    down = set(dead)
    names = node_names(nodes)
    by_table: dict[int, list[dict[str, Any]]] = {}
    for one in rows:
        by_table.setdefault(one["app_id"], []).append(one)
    changes = dict(tables or {})
    listed = [
        table_row(
            app_id,
            f"t{app_id}",
            len(by_table.get(app_id, [])),
            max_replica_count=max(
                (one["max_replica_count"] for one in by_table.get(app_id, [])), default=3
            ),
        )
        | dict(changes.get(app_id, {}))
        for app_id in sorted({*by_table, *changes})
    ]
    free = {name: [("ssd1", 500), ("ssd2", 500)] for name in names} | dict(disks or {})
    placed = replica_rows(rows)
    for at, row in enumerate(placed):
        row["disk"] = f"ssd{at // 3 % 2 + 1}" if disk_of is None else disk_of(row)
    content = {
        "nodes": [{"node": name, "is_alive": name not in down} for name in names],
        "tables": listed,
        "partitions": rows,
        "replicas": placed,
        "disks": [
            {
                "node": name,
                "disk": tag,
                "directory": f"/{tag}",
                "capacity_mb": 1000,
                "available_mb": available,
            }
            for name in names
            if name not in down
            for tag, available in free[name]
        ],
        "settings": setting_rows(settings),
    }
    return snapshot_of(content, **more)


def cluster_of(view: ClusterView, **more: Any) -> PegasusSnapshot:
    """A snapshot of a balancer's state, its nodes renamed to ``db1:34801`` ... in their order."""
    names = node_names(len(view.nodes))
    parts, disks = [], {}
    for row in range(view.partition_count):
        app_id, index = view.gpid(row)
        held = [(names[node], disk) for node, disk in _held(view, row)]
        table = int(view.table_of_row[row])
        wanted = int(view.max_replica_counts[table])
        nodes = [name for name, _ in held]
        parts.append(part_row(app_id, index, nodes[0], nodes[1:], max_replica_count=wanted))
        disks.update({(app_id, index, name): view.disks[disk] for name, disk in held})
    return cluster(
        parts,
        nodes=len(names),
        disk_of=lambda one: disks[one["app_id"], one["index"], one["node"]],
        disks={name: [(tag, 500) for tag in view.disks] for name in names},
        **more,
    )


def _held(view: ClusterView, row: int) -> list[tuple[int, int]]:
    pairs = zip(view.members[row].tolist(), view.member_disks[row].tolist(), strict=True)
    return [(node, disk) for node, disk in pairs if node != NO_NODE]
