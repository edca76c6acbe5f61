"""Questions over a year: seconds from days and hours, and of the same hours from minutes.

    .venv/bin/python bench/long_term.py [--brokers 20] [--bundles 1000] [--days 365] [--times 10]

A year of hours and days is generated, and two hours of minutes. A question is asked of random
objects, before and after days are merged to months; printed are the median, the 95th percentile,
and how many times as long the same load would take from minutes: the time of two hours, times the
hours of the range.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from history import CLUSTER, Fleet, Pace

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tier_year import END, Year, write_year

from core.history.queries.compared import compare
from core.history.queries.fleet_facts import fleet_days
from core.history.queries.growth import growth
from core.history.queries.load import LoadRequest, load_over
from core.history.store.batch import BatchRecorder
from core.history.store.layout import DAY_MS, HOUR_MS
from core.history.store.reading import TimeRange
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.tiers import pipeline
from core.history.tiers.model import GrowthContext
from core.history.tiers.registry import TIERS, tier_tables
from core.units import datetime_to_ms

END_MS = datetime_to_ms(END)
MINUTE_HOURS = 2


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=20)
    arguments.add_argument("--bundles", type=int, default=1_000)
    arguments.add_argument("--days", type=int, default=365)
    arguments.add_argument("--hours-of", type=int, default=60, help="days that have hours, too")
    arguments.add_argument("--times", type=int, default=10)
    options = arguments.parse_args()
    year = Year(
        brokers=options.brokers,
        bundles=options.bundles,
        namespaces=max(options.bundles // 30, 3),
        days=options.days,
        days_of_hours=options.hours_of,
    )
    with tempfile.TemporaryDirectory() as folder:
        store = HistoryStore(HistoryLocation(str(Path(folder) / "history")))
        write_year(store, year)
        print(f"{options.brokers:,} brokers, {options.bundles:,} bundles, {options.days} days")
        for kind in TIERS:
            added = tier_tables(store).table(kind.name).get_add_actions(flatten=True)
            size = sum(added["size_bytes"].to_pylist())
            print(f"  {kind.name}: {len(added['path'])} files, {size / 1e6:.1f} MB")
        minute_s = seconds_a_minute_hour(store, options)
        report(store, year, options.times, minute_s)
        pipeline.keep_in_order(store, year.cluster, END_MS + 2 * HOUR_MS, 400.0)
        print("merged to months:")
        print(f"  an hour of minutes: {minute_s:.3f} s")
        report(store, year, options.times, minute_s)


def report(store: HistoryStore, year: Year, times: int, minute_hour_s: float) -> None:
    owners = pa.table(
        {
            "subject": [year.bundle(number) for number in range(year.bundles)],
            "server": [year.broker(number % year.brokers) for number in range(year.bundles)],
        }
    )
    context = GrowthContext(owners, 0.85, "limit")
    questions: dict[str, tuple[int, Callable[[int, TimeRange], object]]] = {
        "bundle, a year": (year.days, lambda n, span: load(store, "bundle", year.bundle(n), span)),
        "tenant, a year": (
            year.days,
            lambda n, span: load(store, "tenant", year.bundle(n).partition("/")[0], span),
        ),
        "broker, 30 d of hours": (
            30,
            lambda n, span: load(store, "broker", year.broker(n % year.brokers), span),
        ),
        "cluster, quarter before": (
            91,
            lambda _, span: compare(store, request("cluster", "", span), "quarter"),
        ),
        "fleet by day, 90 d": (90, lambda _, span: fleet_days(store, {year.cluster: 0.2}, span)),
        "growth, 26 weeks": (
            182,
            lambda _, span: growth(store, year.cluster, span, context, 0.2),
        ),
    }
    print(f"  {'':26}{'p50':>9}{'p95':>9}{'from minutes':>15}")
    rng = np.random.default_rng(0)
    for name, (most, ask) in questions.items():
        days = min(most, year.days)
        span = TimeRange(END_MS - days * DAY_MS, END_MS - 1)
        took = []
        for number in rng.integers(year.bundles, size=times).tolist():
            began = time.perf_counter()
            ask(number, span)
            took.append(time.perf_counter() - began)
        p50, p95 = (ordered_at(took, share) for share in (0.5, 0.95))
        ratio = minute_hour_s * days * 24 / p95
        print(f"  {name:26}{p50:>7.2f} s{p95:>7.2f} s{ratio:>13,.0f} x")


def request(kind: str, name: str, span: TimeRange) -> LoadRequest:
    return LoadRequest(cluster=Year.cluster, kind=kind, subject=name, span=span)


def load(store: HistoryStore, kind: str, name: str, span: TimeRange) -> object:
    found = load_over(store, request(kind, name, span))
    if not found.rows.num_rows or found.source == "minutes":
        raise AssertionError(found.describe_source())
    return found


def ordered_at(values: list[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def seconds_a_minute_hour(store: HistoryStore, options: argparse.Namespace) -> float:
    """Return how long a question about an hour of minutes takes, of a cluster of the same size."""
    options.minutes, options.hours = MINUTE_HOURS * 60, MINUTE_HOURS
    recorder = BatchRecorder(store, CLUSTER)
    for minute, snapshot in enumerate(Fleet(options, Pace(1, 1, 0.0)).minutes()):
        recorder.record(snapshot)
        if minute % 20 == 19:
            recorder.commit()
    recorder.commit()
    last = snapshot.manifest.taken_at
    store.compact(CLUSTER, last)
    end = datetime_to_ms(last)
    span = TimeRange(end - MINUTE_HOURS * HOUR_MS, end)
    tenant = snapshot.tables["bundles"]["bundle"][0].as_py().partition("/")[0]
    took = []
    for _ in range(3):
        began = time.perf_counter()
        load_over(
            store,
            LoadRequest(
                cluster=CLUSTER, kind="tenant", subject=tenant, span=span, source="minutes"
            ),
        )
        took.append(time.perf_counter() - began)
    return float(np.median(took)) / MINUTE_HOURS


main()
