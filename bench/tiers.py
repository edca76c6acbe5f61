"""Hours and days of the history: seconds and bytes for a generated fleet.

    .venv/bin/python bench/tiers.py [--brokers 100] [--bundles 10000] [--hours 2] [--idle 0.0]

Prints the cost of an hour of minutes, times 24 for a day, and the bytes of each tier next to those
of the minutes. ``verify`` then computes the hours again.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from history import CLUSTER, Fleet, Pace

from core.history.store.batch import BatchRecorder
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.tiers import pipeline
from core.history.tiers.registry import TIERS, tier_tables
from core.units import datetime_to_ms


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=100)
    arguments.add_argument("--bundles", type=int, default=10_000)
    arguments.add_argument("--hours", type=int, default=2)
    arguments.add_argument("--idle", type=float, default=0.0, help="share of the bundles")
    options = arguments.parse_args()
    options.minutes = options.hours * 60
    with tempfile.TemporaryDirectory() as folder:
        store = HistoryStore(HistoryLocation(str(Path(folder) / "history")))
        recorder = BatchRecorder(store, CLUSTER)
        for minute, snapshot in enumerate(Fleet(options, Pace(1, 1, options.idle)).minutes()):
            recorder.record(snapshot)
            if minute % 20 == 19:
                recorder.commit()
        recorder.commit()
        now = snapshot.manifest.taken_at + timedelta(hours=2)
        store.compact(CLUSTER, now)
        report(store, datetime_to_ms(now), options)


def report(store: HistoryStore, now_ms: int, options: argparse.Namespace) -> None:
    began, processor = time.perf_counter(), time.process_time()
    done = pipeline.roll_up(store, CLUSTER, now_ms)
    took, processor = time.perf_counter() - began, time.process_time() - processor
    hours = options.hours
    print(f"{options.brokers:,} brokers, {options.bundles:,} bundles, {options.idle:.0%} idle")
    print(f"  {done}: {took:.1f} s, processor {processor:.1f} s; a day of minutes:")
    print(f"    {took / hours * 24:.0f} s, processor {processor / hours * 24:.0f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak memory with the recorder: {peak:,.0f} MB")
    minutes = sum(size.bytes for size in store.sizes(CLUSTER).values())
    print(f"  minutes: {minutes / hours / 1e6:.1f} MB an hour")
    for kind in TIERS:
        table = tier_tables(store).table(kind.name)
        size = sum(table.get_add_actions(flatten=True)["size_bytes"].to_pylist())
        rows = len(table.to_pyarrow_table(columns=["kind"]))
        print(f"  {kind.name}: {size / 1e6:.2f} MB, {rows:,} rows, {size / rows:.0f} bytes a row")
    began = time.perf_counter()
    compared, wrong = pipeline.verify(store, CLUSTER, 24, seed=0)
    print(
        f"  verify: {len(compared)} hours, {len(wrong)} differ, {time.perf_counter() - began:.1f} s"
    )


main()
