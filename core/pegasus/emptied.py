"""Since when nodes are empty that gave up their replicas while they were alive: drained ones.

A new node and one that comes back after a failure are empty as well. They differ in what was seen
before: a drained node held replicas in one snapshot and none in the next, alive in both.
"""

from __future__ import annotations

import pyarrow as pa

from core.pegasus.columns import PegasusColumns
from core.snapshot.pegasus import PegasusSnapshot
from core.units import datetime_to_ms


def with_emptied(snapshot: PegasusSnapshot, before: PegasusSnapshot | None) -> PegasusSnapshot:
    """Return a snapshot whose nodes have ``emptied_at``.

    Args:
        snapshot: A new one.
        before: The one before it; ``None`` if there is none.
    """
    if before is None:
        return snapshot
    held = _held(snapshot)
    if held is None:  # a table was not read: a node may hold replicas of it
        return snapshot
    known = {
        row["node"]: row
        for row in before.tables["nodes"].select(["node", "is_alive", "emptied_at"]).to_pylist()
    }
    held_before = _held(before) or {}
    now_ms = datetime_to_ms(snapshot.manifest.taken_at)
    nodes = snapshot.tables["nodes"]
    found: list[int | None] = []
    for name, is_alive in zip(
        nodes["node"].to_pylist(), nodes["is_alive"].to_pylist(), strict=True
    ):
        earlier = known.get(name)
        if held[name] or earlier is None:
            found.append(None)
        elif earlier["emptied_at"] is not None:
            found.append(earlier["emptied_at"])  # also while its process is replaced
        else:
            has_left = is_alive and earlier["is_alive"] and held_before.get(name, 0) > 0
            found.append(now_ms if has_left else None)
    at = nodes.schema.get_field_index("emptied_at")
    column = pa.array(found, nodes.schema.field(at).type)
    table = nodes.set_column(at, nodes.schema.field(at), column)
    return PegasusSnapshot(snapshot.manifest, {**snapshot.tables, "nodes": table})


def _held(snapshot: PegasusSnapshot) -> dict[str, int] | None:
    """Return the replicas of each node; ``None`` if some table was not read."""
    columns = PegasusColumns.of(snapshot.tables)
    if not columns.is_read.all():
        return None
    counts = columns.counts(primaries_only=False).sum(axis=0).tolist()
    return dict(zip(columns.nodes, counts, strict=True))
