"""The history against snapshot directories, one a minute: bytes, seconds to write, to read.

    .venv/bin/python bench/history.py [--brokers 100] [--bundles 10000] [--minutes 60]

The rival is what a collector keeps anyway: a directory of Parquet files a minute. Both keep every
minute exactly; each is asked for the same answers in the same run, which are compared. The bytes
follow from how often brokers report and the leader writes its averages: both every 15 minutes by
default. Rates are counts over measured seconds, as brokers compute them: none of their digits
follows from another number, so no exact form of new numbers is much smaller. Averages are the
leader's, with a sample of every bundle at each report.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fleet_builder import NOON, make_snapshot
from numpy.typing import NDArray

from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.pulsar.load import LONG_SAMPLES, SHORT_SAMPLES, part_left
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import SnapshotStore, load_snapshot

CLUSTER: Final = "fleet"
Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class Pace:
    """How fast numbers of a fleet change.

    Attributes:
        report: Minutes between two reports of a broker.
        write: Minutes between two writes of the leader's averages.
        idle: Share of the bundles without traffic; they had some, so their averages decay.
    """

    report: int
    write: int
    idle: float


PACES: Final = (
    Pace(15, 15, 0.0),
    Pace(15, 15, 0.7),
    Pace(5, 15, 0.0),
    Pace(5, 15, 0.7),
    Pace(1, 15, 0.0),
    Pace(1, 15, 0.7),
    Pace(1, 1, 0.0),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=100)
    arguments.add_argument("--bundles", type=int, default=10_000)
    arguments.add_argument("--minutes", type=int, default=60)
    options = arguments.parse_args()
    for pace in PACES:
        print(
            f"{options.brokers:,} brokers, {options.bundles:,} bundles, {options.minutes} minutes; "
            f"reports every {pace.report} min, averages every {pace.write} min, "
            f"{pace.idle:.0%} of the bundles idle",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), options, pace)


class Fleet:
    """The minutes of a fleet: what its brokers report, and the averages that its leader writes."""

    def __init__(self, options: argparse.Namespace, pace: Pace) -> None:
        self._options, self._pace = options, pace
        self._first = self._made(0)
        self._rng = np.random.default_rng(7)
        bundles = self._first.bundles
        self._broker = np.asarray(
            pc.index_in(bundles["owner"], value_set=self._first.brokers["broker"].combine_chunks())
        )
        self._is_idle = np.random.default_rng(1).random(bundles.num_rows) < pace.idle
        self._reported = self._counted(self._first)
        before = np.stack([bundles[name].to_numpy() for name in RATES])  # also of idle bundles
        self._averages = [before.copy(), before.copy()]

    def minutes(self) -> Iterator[PulsarSnapshot]:
        """Return the snapshots, oldest first."""
        brokers, written = self._first.brokers, [one.copy() for one in self._averages]
        for minute in range(self._options.minutes):
            made = self._made(minute)
            is_due = np.arange(brokers.num_rows) % self._pace.report == minute % self._pace.report
            self._report(self._counted(made), is_due)
            # in the middle of the hour, as a leader that started at some time
            if minute % self._pace.write == self._pace.write // 2:
                written = [one.copy() for one in self._averages]
            places = np.arange(brokers.num_rows) + np.where(is_due, brokers.num_rows, 0)
            brokers = pa.concat_tables([brokers, made.brokers]).take(pa.array(places))
            tables = {**made.tables, "brokers": brokers, "bundles": self._bundles(written)}
            yield PulsarSnapshot.build(made.manifest, tables)

    def _made(self, minute: int) -> PulsarSnapshot:
        return make_snapshot(
            brokers=self._options.brokers,
            bundles=self._options.bundles,
            now=NOON + timedelta(minutes=self._options.minutes - 1),
            minutes_ago=self._options.minutes - 1 - minute,
        )

    def _counted(self, made: PulsarSnapshot) -> Floats:
        """Return rates as brokers compute them: messages and bytes over the seconds of each."""
        rates = np.stack([made.bundles[name].to_numpy() for name in RATES])
        seconds = 60.0 + self._rng.normal(0.0, 0.005, rates.shape[1])
        counts = self._rng.poisson(rates * 60.0)
        return np.where(self._is_idle, 0.0, counts / seconds)

    def _report(self, rates: Floats, is_due: NDArray[np.bool_]) -> None:
        """Take the reports of some brokers, in their order; each is a sample of every bundle."""
        count = int(is_due.sum())
        place = np.where(is_due, np.cumsum(is_due) - 1, count)[self._broker]
        fresh = np.where(place < count, rates, self._reported)
        for at, most in enumerate((SHORT_SAMPLES, LONG_SAMPLES)):
            values = self._averages[at]
            full = np.full(place.size, most)
            for samples, last in ((place, self._reported), (count - place, fresh)):
                values = last + (values - last) * part_left(full, samples, most)
            self._averages[at] = values
        self._reported = fresh

    def _bundles(self, written: list[Floats]) -> pa.Table:
        bundles = self._first.bundles
        prefixes = zip(("", "short_", "long_"), (self._reported, *written), strict=True)
        for prefix, values in prefixes:
            for name, column in zip(RATES, values, strict=True):
                at = bundles.schema.get_field_index(prefix + name)
                bundles = bundles.set_column(at, bundles.schema.field(at), pa.array(column))
        return bundles


def compare(folder: Path, options: argparse.Namespace, pace: Pace) -> None:
    """Write the same hour both ways, and read the same things from both."""
    store = HistoryStore(HistoryLocation(str(folder / "history")))
    recorder, snapshot_store = Recorder(store, CLUSTER), SnapshotStore(folder / "shelf")
    spent = {"history": [0.0, 0.0], "directories": [0.0, 0.0]}
    rows = 0
    for snapshot in Fleet(options, pace).minutes():
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
