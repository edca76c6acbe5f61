"""Recorded clusters for back-tests: a Pegasus cluster with a node that fails, a fleet of Pulsar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from backtest_records import fleet, still
from history_rows import recorded
from pegasus_snapshots import generated, setting_rows

from core.history.store.store import HistoryLocation, HistoryStore
from core.snapshot import PulsarSnapshot
from core.snapshot.pegasus import PegasusSnapshot

START = datetime(2026, 11, 21, 8, tzinfo=UTC)
PEGASUS = "peg"
PULSAR = "fleet"


def living(
    minutes: int,
    *,
    shape: tuple[int, int, int] = (4, 16, 5),
    dead: tuple[int, range] | None = None,
    settings: Mapping[str, str] | None = None,
    seed: int = 1,
) -> Iterator[PegasusSnapshot]:
    """An uneven cluster that nobody balances, its load going up and down.

    Args:
        minutes: One snapshot each.
        shape: Tables, partitions a table, nodes.
        dead: A node by its place, and the minutes in which it is down; nobody repairs anything.
        settings: Of the meta server, on top of usual ones.
        seed: Of sizes and placement.
    """
    base = generated(*shape, cluster=PEGASUS, taken_at=START, seed=seed)
    told = pa.Table.from_pylist(setting_rows(settings or {}))
    names = base.tables["nodes"]["node"].to_pylist()
    for minute in range(minutes):
        tables = dict(base.tables) | {"settings": told}
        held = tables["replicas"]
        factor = 1 + 0.3 * np.sin(minute / 10)
        for name in ("read_rate", "write_rate"):
            place = held.schema.get_field_index(name)
            held = held.set_column(place, name, pa.array(held[name].to_numpy() * factor))
        is_down = dead is not None and minute in dead[1]
        alive = [not (is_down and dead is not None and at == dead[0]) for at in range(len(names))]
        nodes = tables["nodes"]
        place = nodes.schema.get_field_index("is_alive")
        tables |= {"replicas": held, "nodes": nodes.set_column(place, "is_alive", pa.array(alive))}
        manifest = replace(base.manifest, taken_at=START + timedelta(minutes=minute))
        yield PegasusSnapshot.build(manifest, tables)


def shedding(minutes: int) -> Iterator[PulsarSnapshot]:
    """A small uneven fleet of Pulsar, still."""
    made = fleet(brokers=4, bundles=60)
    manifest = replace(made.manifest, taken_at=START)
    return still(PulsarSnapshot.build(manifest, made.tables), minutes)


def history_in(folder: Path, *, minutes: int = 12) -> HistoryStore:
    """A history of both."""
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorded(store, living(minutes, dead=(1, range(5, 8))), PEGASUS)
    recorded(store, shedding(minutes), PULSAR)
    return store
