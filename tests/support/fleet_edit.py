"""Small edits of a generated snapshot: one cell, one setting, one line of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from core.schemas import PULSAR_TABLES
from core.snapshot import PulsarSnapshot

KEYS = {"brokers": "broker", "bundles": "bundle", "namespaces": "namespace"}


def edited(
    snapshot: PulsarSnapshot, table: str, cells: Mapping[str, Mapping[str, Any]]
) -> PulsarSnapshot:
    """Set cells: ``{row key: {column: value}}``."""
    rows = snapshot.tables[table].to_pylist()
    for row in rows:
        row.update(cells.get(row[KEYS[table]], {}))
    made = pa.Table.from_pylist(rows, schema=PULSAR_TABLES[table])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, table: made})


def every(snapshot: PulsarSnapshot, table: str, cells: Mapping[str, Any]) -> PulsarSnapshot:
    """Set the same cells in every row."""
    keys = snapshot.tables[table][KEYS[table]].to_pylist()
    return edited(snapshot, table, dict.fromkeys(keys, cells))


def without(snapshot: PulsarSnapshot, table: str, *keys: str) -> PulsarSnapshot:
    """Drop rows."""
    rows = [row for row in snapshot.tables[table].to_pylist() if row[KEYS[table]] not in keys]
    made = pa.Table.from_pylist(rows, schema=PULSAR_TABLES[table])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, table: made})


def with_settings(
    snapshot: PulsarSnapshot, *rows: tuple[str | None, str, str, str]
) -> PulsarSnapshot:
    """Replace the settings: ``(broker, name, value, origin)``."""
    names = ("broker", "name", "value", "origin")
    made = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=PULSAR_TABLES["settings"]
    )
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "settings": made})


def with_policies(snapshot: PulsarSnapshot, *rows: tuple[str, str, str]) -> PulsarSnapshot:
    """Replace the policies: ``(kind, name, body)``."""
    made = pa.Table.from_pylist(
        [dict(zip(("kind", "name", "body"), row, strict=True)) for row in rows],
        schema=PULSAR_TABLES["policies"],
    )
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "policies": made})


def with_manifest(snapshot: PulsarSnapshot, **changes: Any) -> PulsarSnapshot:
    """Change the manifest."""
    return PulsarSnapshot.build(replace(snapshot.manifest, **changes), snapshot.tables)


def owned_by(snapshot: PulsarSnapshot, broker: str) -> list[str]:
    """Movable bundles of a broker, hottest first."""
    rows = [
        row
        for row in snapshot.bundles.to_pylist()
        if row["owner"] == broker and not row["is_broker_bound"]
    ]
    rows.sort(key=lambda row: -(row["msg_throughput_in"] or 0.0))
    return [row["bundle"] for row in rows]
