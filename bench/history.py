"""The history against snapshot directories, one a minute: bytes, seconds to write, to read.

    .venv/bin/python bench/history.py [--brokers 100] [--bundles 10000] [--minutes 60] [--idle 0.7]

The rival is what a collector keeps anyway: a directory of Parquet files a minute. Both keep every
minute exactly; each is asked for the same answers in the same run, which are compared. Load lives:
the rates of every busy bundle and all its averages are other numbers each minute, which no form
can keep in much less than their digits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fleet_builder import NOON, make_snapshot

from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import SnapshotStore, load_snapshot

CLUSTER: Final = "fleet"
T = TypeVar("T")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=100)
    arguments.add_argument("--bundles", type=int, default=10_000)
    arguments.add_argument("--minutes", type=int, default=60)
    arguments.add_argument("--idle", type=float, default=0.7, help="share of the second fleet")
    options = arguments.parse_args()
    for idle in (0.0, options.idle):
        print(
            f"{options.brokers:,} brokers, {options.bundles:,} bundles, {options.minutes} minutes, "
            f"{idle:.0%} of the bundles idle",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), options, idle)


def fleet(options: argparse.Namespace, idle: float) -> Iterator[PulsarSnapshot]:
    """An hour of a fleet; idle bundles have no traffic, and averages that stay as they were."""
    steady: pa.Table | None = None
    for minute in range(options.minutes):
        made = make_snapshot(
            brokers=options.brokers,
            bundles=options.bundles,
            now=NOON + timedelta(minutes=options.minutes - 1),
            minutes_ago=options.minutes - 1 - minute,
        )
        steady = made.bundles if steady is None else steady
        is_idle = np.random.default_rng(1).random(made.bundles.num_rows) < idle
        bundles = made.bundles
        for name in bundles.schema.names:
            if name in RATES or name.startswith(("short_", "long_")):
                calm = pa.scalar(0.0) if name in RATES else steady[name]
                at = bundles.schema.get_field_index(name)
                column = pc.if_else(pa.array(is_idle), calm, bundles[name])
                bundles = bundles.set_column(at, bundles.schema.field(name), column)
        yield PulsarSnapshot.build(made.manifest, {**made.tables, "bundles": bundles})


def compare(folder: Path, options: argparse.Namespace, idle: float) -> None:
    """Write the same hour both ways, and read the same things from both."""
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorder, snapshot_store = Recorder(store, CLUSTER), SnapshotStore(folder / "shelf")
    spent = {"history": [0.0, 0.0], "directories": [0.0, 0.0]}
    rows = 0
    for snapshot in fleet(options, idle):
        _ = snapshot.snapshot_id  # both need it: neither is charged
        rows += snapshot.bundles.num_rows
        charge(spent["history"], lambda one=snapshot: recorder.record(one))
        charge(spent["directories"], lambda one=snapshot: snapshot_store.put(one))
    loose = sum(size.bytes for size in store.sizes(CLUSTER).values())
    began = time.perf_counter()
    store.compact(CLUSTER, snapshot.manifest.taken_at + timedelta(hours=2))
    compacting_s = time.perf_counter() - began
    whole = store.sizes(CLUSTER)
    directories = sum(file.stat().st_size for file in (folder / "shelf").rglob("*.parquet"))
    print("  bytes per bundle-minute, everything of the snapshot counted")
    print(f"    history: {sum(size.bytes for size in whole.values()) / rows:.1f}", end="")
    print(f" (before compaction {loose / rows:.1f}); directories: {directories / rows:.1f}")
    largest = sorted(whole.items(), key=lambda one: -one[1].bytes)[:4]
    print("    " + ", ".join(f"{kind} {size.bytes / rows:.1f}" for kind, size in largest))
    print("  written, bundle-minutes/s by the clock (by the processor)")
    for name, (wall, processor) in spent.items():
        print(f"    {name}: {rows / wall:,.0f} ({rows / processor:,.0f})")
    print(f"    history compacts the hour in {compacting_s:.2f} s", flush=True)
    readings(store, snapshot_store, snapshot)


def readings(store: HistoryStore, snapshot_store: SnapshotStore, last: PulsarSnapshot) -> None:
    """Ask both the same; the answers must be equal."""
    entries = snapshot_store.entries(CLUSTER)
    bundle = last.bundles["bundle"][7].as_py()
    middle = entries[len(entries) // 2]
    late = entries[-1]
    print("  read, ms (best of three)")
    for title, ours, theirs in (
        (
            "the snapshot in the middle of the hour",
            lambda: store.snapshot_at(CLUSTER, middle.taken_at).snapshot_id,
            lambda: load_snapshot(middle.path).snapshot_id,
        ),
        (
            "the snapshot at its end",
            lambda: store.snapshot_at(CLUSTER, late.taken_at).snapshot_id,
            lambda: load_snapshot(late.path).snapshot_id,
        ),
        (
            "CPU of every broker over the hour",
            lambda: total(store.rows("brokers", CLUSTER, columns=["cpu_ratio"])["cpu_ratio"]),
            lambda: sum(total(column(one.path, "brokers", "cpu_ratio")) for one in entries),
        ),
        (
            "traffic of all bundles over the hour",
            lambda: total(store.rows("bundle_loads", CLUSTER, columns=[RATES[2]])[RATES[2]]),
            lambda: sum(total(column(one.path, "bundles", RATES[2])) for one in entries),
        ),
        (
            "one bundle's rate over the hour",
            lambda: total(
                store.rows(
                    "bundle_loads", CLUSTER, columns=[RATES[0]], matching={"bundle": bundle}
                )[RATES[0]]
            ),
            lambda: sum(of_bundle(narrow(one.path), bundle) for one in entries),
        ),
    ):
        (mine, mine_ms), (other, other_ms) = best(ours), best(theirs)
        same = mine == other or np.isclose(mine, other)
        print(f"    {title}: history {mine_ms:.0f}, directories {other_ms:.0f}", end="")
        print("" if same else f"  DIFFERENT: {mine} {other}", flush=True)


def charge(account: list[float], step: Callable[[], object]) -> None:
    """Add what a step took: by the clock, and by the processor."""
    began = time.perf_counter(), time.process_time()
    step()
    account[0] += time.perf_counter() - began[0]
    account[1] += time.process_time() - began[1]


def best(step: Callable[[], T]) -> tuple[T, float]:
    """The answer, and the shortest of three times in ms."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        answer = step()
        times.append((time.perf_counter() - began) * 1000)
    return answer, min(times)


def column(directory: Path, table: str, name: str) -> pa.ChunkedArray:
    with pq.ParquetFile(directory / f"{table}.parquet") as file:
        return file.read(columns=[name])[name]


def narrow(directory: Path) -> pa.Table:
    with pq.ParquetFile(directory / "bundles.parquet") as file:
        return file.read(columns=["bundle", RATES[0]])


def of_bundle(table: pa.Table, bundle: str) -> float:
    return total(table.filter(pc.equal(table["bundle"], bundle))[RATES[0]])


def total(column_: pa.ChunkedArray) -> float:
    return float(pc.sum(column_).as_py() or 0.0)


if __name__ == "__main__":
    main()
