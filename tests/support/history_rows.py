"""Small histories for tests: recorded snapshots, and rows laid down as a recorder leaves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.snapshot.store import Storable

CLUSTER = "fleet"


def store_in(folder: Path) -> HistoryStore:
    return HistoryStore(HistoryLocation(str(folder / "history")))


def recorded(store: HistoryStore, snapshots: Iterable[Storable], cluster: str = CLUSTER) -> None:
    """Record snapshots as a collector does."""
    recorder = Recorder(store, cluster)
    for snapshot in snapshots:
        recorder.record(snapshot)


def lay_down(store: HistoryStore, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Commit rows of one kind as they are: ``taken_at``, ``segment`` and what the test is about."""
    form = KINDS.of(kind)
    columns = [pa.array([row.get(one.name) for row in rows], one.type) for one in form.stored]
    table = pa.Table.from_arrays(columns, schema=form.stored)
    whole = [
        ("cluster", pa.array([CLUSTER] * len(rows), pa.string())),
        ("day", pa.array(["2026-11-21"] * len(rows), pa.string())),
    ]
    for name, column in whole:
        table = table.set_column(
            table.schema.get_field_index(name), form.stored.field(name), column
        )
    store.tables.append(form, table)
