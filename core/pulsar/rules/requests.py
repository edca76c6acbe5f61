"""Rules about what clients of a broker wait for, its memory, and rates of bundles, by metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from core.arrays import column_values, row_of
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.broker_metrics import BrokerMetrics, broker_finding
from core.pulsar.rules.context import HealthContext
from core.units import format_ms, format_msgs_per_s, format_ratio, pluralize

SLOW_FACTOR: Final = 3.0
"""Clients of a broker wait that many times as long as the median of all brokers."""

ENDLESS_FACTOR: Final = 10.0
"""So many times the bound is too long, whatever other brokers do."""

DIRECT_RATIO: Final = 0.90
"""Of its direct memory: reads and writes fail where it is full."""

BUNDLE_FACTOR: Final = 2.0
BUNDLE_FLOOR_MSGS_S: Final = 100.0
"""Bundles below, in metrics and report, are not compared."""

BUNDLES_SHARE: Final = 0.05
"""So few bundles apart are those whose traffic has just changed."""


@dataclass(frozen=True, slots=True)
class _Wait:
    code: str
    column: str
    bound_ms: float
    title: str
    what: str
    hint: str


_WAITS: Final = (
    _Wait(
        "slow_publishing",
        "publish_p99_ms",
        100.0,
        "Publish latency is high",
        "publish requests",
        "Check its storage writes and garbage collection first: if both are "
        "normal, its load is the cause, and an unload helps.",
    ),
    _Wait(
        "slow_lookups",
        "lookup_p99_ms",
        500.0,
        "Lookup latency is high",
        "lookups",
        "Clients wait that long to connect: check the metadata store, and "
        "bundles that are being unloaded or loaded.",
    ),
    _Wait(
        "slow_topic_loads",
        "topic_load_p99_ms",
        5_000.0,
        "Topics load slowly",
        "topic loads",
        "Clients of a bundle that moves here are disconnected that long: check "
        "the metadata store and the bookies, and unload slowly.",
    ),
)


def slow_requests(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose clients wait long: for a publish, a lookup, a topic."""
    metrics = BrokerMetrics(context.snapshot)
    for wait in _WAITS:
        p99 = metrics.column(wait.column)
        known = np.isfinite(p99)
        if not known.any():
            continue
        median = float(np.median(p99[known]))
        apart = (p99 >= wait.bound_ms) & (p99 >= SLOW_FACTOR * median)
        endless = p99 >= ENDLESS_FACTOR * wait.bound_ms
        for row in np.flatnonzero(known & (apart | endless)).tolist():
            yield broker_finding(
                context,
                row,
                wait.code,
                f"The {wait.what} at {{broker}} have a p99 of {format_ms(float(p99[row]))}; "
                f"the cluster's median is {format_ms(median)}.",
                {
                    "p99_ms": float(p99[row]),
                    "median_p99_ms": median,
                    "bound_ms": wait.bound_ms,
                    "bound_factor": SLOW_FACTOR,
                },
                wait.hint,
                title=wait.title,
                measured=Quantity(float(p99[row]), "ms"),
                limit=Quantity(max(wait.bound_ms, SLOW_FACTOR * median), "ms"),
            )


def full_direct_memory(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose direct memory is nearly full."""
    metrics = BrokerMetrics(context.snapshot)
    used = metrics.column("direct_used_ratio")
    for row in np.flatnonzero(np.nan_to_num(used) >= DIRECT_RATIO).tolist():
        yield broker_finding(
            context,
            row,
            "direct_memory_full",
            f"{format_ratio(float(used[row]))} of the direct memory of {{broker}} is used.",
            {"direct_used_ratio": float(used[row]), "bound_ratio": DIRECT_RATIO},
            "Requests fail when it is full. It contains the entry cache and "
            "pending dispatch: check managedLedgerCacheSizeMB, slow consumers, and "
            "-XX:MaxDirectMemorySize.",
            title="Direct memory is nearly full",
            measured=Quantity(float(used[row]), "ratio"),
            limit=Quantity(DIRECT_RATIO, "ratio"),
        )


def bundles_against_reports(context: HealthContext) -> Iterator[Finding]:
    """Rates of bundles that are others by metrics than by load reports, reported once."""
    table, bundles = context.snapshot.bundle_metrics, context.snapshot.bundles
    if table.num_rows == 0:
        return
    at = row_of(bundles["bundle"], table["bundle"])
    rows = pa.array(at, mask=at < 0)
    is_owner = np.array(table["broker"].to_pylist()) == np.array(
        bundles["owner"].take(rows).to_pylist()
    )
    metered, reported = _rate(table), _rate(bundles.take(rows))
    compared = is_owner & np.isfinite(metered) & np.isfinite(reported)
    larger, smaller = np.fmax(metered, reported), np.fmin(metered, reported)
    compared &= larger >= BUNDLE_FLOOR_MSGS_S
    apart = np.flatnonzero(compared & (larger > BUNDLE_FACTOR * smaller))
    if apart.size <= BUNDLES_SHARE * np.count_nonzero(compared):
        return
    worst = int(apart[np.argmax((larger - smaller)[apart])])
    bundle = table["bundle"][worst].as_py()
    yield Finding(
        code="bundle_rates_disagree",
        title="Bundle rates and metrics disagree",
        measured=Quantity(int(apart.size), "bundles"),
        limit=Quantity(0),
        severity="warning",
        subject_kind="cluster",
        subject="",
        sentence=f"{pluralize(apart.size, 'bundle')} of {np.count_nonzero(compared)} "
        f"compared have rates that differ by a factor of {BUNDLE_FACTOR:g} "
        f"between metrics and load reports; max: {bundle}, "
        f"{format_msgs_per_s(float(metered[worst]))} by its metrics, "
        f"{format_msgs_per_s(float(reported[worst]))} by its report.",
        evidence={
            "bundles": int(apart.size),
            "compared": int(np.count_nonzero(compared)),
            "worst": bundle,
            "metrics_msgs_per_s": float(metered[worst]),
            "report_msgs_per_s": float(reported[worst]),
            "bound_factor": BUNDLE_FACTOR,
        },
        hint="Shedding selects bundles by the reports: check the age of the load "
        "reports, and statsUpdateFrequencyInSecs.",
    )


def _rate(table: pa.Table) -> np.ndarray:
    return column_values(table, "msg_rate_in") + column_values(table, "msg_rate_out")
