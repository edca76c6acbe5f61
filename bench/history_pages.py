"""How long the History page's questions take on 30 days of 100 brokers, one minute after another.

Writes such a history once (4.3 million rows of brokers, 1.2 million of busy bundles, some thousand
moves), a file a day as compaction leaves it and the last hour in files of a minute, then asks every
question of the page as the page asks it. Every question should take less than a second.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from core.history.queries.events import EventQueries
from core.history.queries.query import HistoryQueries, step_of
from core.history.queries.sql import Period
from core.history.store.layout import HOUR_MS, day_of
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.snapshot.record import Kind
from core.units import datetime_to_ms

MINUTE_MS = 60_000
LOOSE = 60
"""Minutes at the end that are not put together yet: a file each."""

END = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)
GOAL_S = 1.0


def written(kind: Kind, rows: dict[str, Any], day: str, taken_at: np.ndarray) -> pa.Table:
    """Return rows of a kind with its bookkeeping; columns that are not given are null."""
    books = {
        "cluster": np.repeat("fleet", taken_at.size),
        "day": np.repeat(day, taken_at.size),
        "taken_at": taken_at,
        "segment": taken_at // HOUR_MS,
    }
    held = books | rows
    columns = [
        pa.array(held[one.name], one.type)
        if one.name in held
        else pa.nulls(taken_at.size, one.type)
        for one in kind.stored
    ]
    return pa.Table.from_arrays(columns, schema=kind.stored)


def brokers_of(minutes: np.ndarray, brokers: int, rng: np.random.Generator) -> dict[str, Any]:
    shape = (minutes.size, brokers)
    wave = 0.5 + 0.2 * np.sin(minutes[:, None] / 8.64e7 * 2 * np.pi + np.arange(brokers))
    load = np.clip(wave + rng.normal(0, 0.05, shape), 0.01, 1.0).ravel()
    columns: dict[str, Any] = {
        "broker": np.tile([f"10.1.0.{rank}:8080" for rank in range(brokers)], minutes.size),
        "bundle_count": rng.integers(80, 120, load.size),
    }
    for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out"):
        columns |= {
            f"{name}_usage": load * 800,
            f"{name}_limit": np.full(load.size, 800.0),
            f"{name}_ratio": load * rng.uniform(0.9, 1.1),
        }
    for name, scale in (("msg_rate", 20_000), ("msg_throughput", 2e7)):
        for way in ("in", "out"):
            columns[f"{name}_{way}"] = load * scale
    return columns


def write_day(store: HistoryStore, minutes: np.ndarray, brokers: int, seed: int) -> None:
    """Commit some minutes of one day, a file a kind."""
    rng, day = np.random.default_rng(seed), day_of(int(minutes[0]))
    bundles = max(1, brokers * 100 // 360)
    names = np.array([f"acme/orders/0x{rank:08x}_0x{rank + 1:08x}" for rank in range(bundles)])
    loads = np.repeat(minutes, bundles)
    moves = np.sort(rng.choice(minutes, max(1, minutes.size // 14)))
    servers = [f"10.1.0.{rank}:8080" for rank in range(brokers)]
    for kind, taken_at, rows in (
        ("brokers", np.repeat(minutes, brokers), brokers_of(minutes, brokers, rng)),
        (
            "bundle_loads",
            loads,
            {"bundle": np.tile(names, minutes.size)}
            | {
                f"msg_{what}_{way}": rng.uniform(0, 1e4, loads.size)
                for what in ("rate", "throughput")
                for way in ("in", "out")
            },
        ),
        (
            "events",
            moves,
            {
                "kind": np.repeat("move", moves.size),
                "subject": rng.choice(names, moves.size),
                "before": rng.choice(servers, moves.size),
                "after": rng.choice(servers, moves.size),
                "by": rng.choice(["cluster", "trimtab"], moves.size, p=[0.9, 0.1]),
            },
        ),
        (
            "minutes",
            minutes,
            {
                "snapshot_id": [f"{int(at):016x}" for at in minutes],
                "system": np.repeat("pulsar", minutes.size),
                "schema_version": np.ones(minutes.size, np.int64),
            },
        ),
    ):
        stored = KINDS.of(kind)
        store.tables.append(stored, written(stored, rows, day, taken_at))


def generate(store: HistoryStore, days: int, brokers: int) -> None:
    last = datetime_to_ms(END)
    minutes = np.arange(last - (days * 1440 - 1) * MINUTE_MS, last + 1, MINUTE_MS)
    whole, loose = minutes[:-LOOSE], minutes[-LOOSE:]
    for seed, day in enumerate(np.split(whole, np.arange(1440, whole.size, 1440))):
        write_day(store, day, brokers, seed)
    for at in loose:
        write_day(store, np.array([at]), brokers, int(at % 1_000_003))


def questions(store: HistoryStore, period: Period) -> dict[str, Callable[[], object]]:
    """Return what the page asks when somebody opens it on this period, and on its parts."""
    queries, events = HistoryQueries(store, "fleet", "pulsar"), EventQueries(store, "fleet")
    minutes = queries.minutes(period)
    step, last = step_of(minutes), int(minutes.at_ms[-1])
    weights = {"cpu": 1.0, "direct_memory": 0.0, "bandwidth_in": 1.0, "bandwidth_out": 1.0}
    grids = {
        f"heatmap, {measure}": lambda measure=measure: queries.grid(
            measure, period, step_ms=step, weights=weights
        )
        for measure in ("usage", "cpu", "bandwidth_in", "rate", "throughput")
    }
    bundle = "acme/orders/0x00000003_0x00000004"
    return grids | {
        "span": lambda: store.span("fleet"),
        "minutes": lambda: queries.minutes(period),
        "deviation by minute": lambda: queries.evenness("throughput", period, weights=weights),
        "events by time and kind": lambda: events.counts(period, step_ms=step),
        "newest events": lambda: events.events(period),
        "moves an hour": lambda: events.counts(period, step_ms=HOUR_MS),
        "top movers and flaps": lambda: events.movers(period),
        "next and last event": lambda: events.neighbours(last - 10 * MINUTE_MS, period),
        "one minute's brokers": lambda: queries.servers_at(last - 86_400_000, weights=weights),
        "one broker": lambda: queries.server_series(
            "10.1.0.7:8080", period, step_ms=step, weights=weights
        ),
        "one bundle": lambda: queries.bundle_series(bundle, minutes, period, step),
    }


def measured(store: HistoryStore, days: int, rounds: int) -> dict[str, dict[str, float]]:
    period = Period(END - timedelta(days=days), END)
    figures = {}
    for name, ask in questions(store, period).items():
        times = []
        for _ in range(rounds):
            started = perf_counter()
            ask()
            times.append(perf_counter() - started)
        figures[name] = {"median_s": statistics.median(times), "worst_s": max(times)}
    return figures


def main() -> None:
    """Generate, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="keep the history here, and use what is there")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        root = given.dir or Path(folder)
        store = HistoryStore(HistoryLocation(str(root / "history")))
        started = perf_counter()
        if store.span("fleet") is None:
            generate(store, given.days, given.brokers)
        made_s = perf_counter() - started
        figures = measured(store, given.days, given.rounds)
        sizes = {kind: one.bytes for kind, one in store.sizes("fleet").items()}
    worst = max(one["worst_s"] for one in figures.values())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if given.json:
        print(json.dumps({"figures": figures, "bytes": sizes, "peak_mb": peak_mb}, indent=1))
        return
    rows = given.days * 1440 * given.brokers
    print(f"{given.days} days of {given.brokers} brokers: {rows:,} rows, made in {made_s:.0f} s")
    for name, one in figures.items():
        print(f"{name:28} median {one['median_s']:.3f} s   worst {one['worst_s']:.3f} s")
    print(f"worst {worst:.3f} s, goal {GOAL_S:.1f} s; {sum(sizes.values()) / 1e6:,.0f} MB on disk")
    print(f"peak memory of this process {peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
