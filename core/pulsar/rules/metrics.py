"""Rules about what brokers expose as metrics, where a cluster has them (``[clusters.prometheus]``).

Load reports have what the load manager compares; these show whether a broker's trouble is load at
all, and whether the reports are to be believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.arrays import column_values, row_of
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.rules.broker_metrics import BrokerMetrics, Floats, broker_finding
from core.pulsar.rules.context import HealthContext
from core.units import (
    datetime_to_ms,
    format_age,
    format_bytes_per_s,
    format_ms,
    format_msgs_per_s,
    format_ratio,
)

METRICS_OLD_S: Final = 180.0
"""Series that old were not scraped three times in a row at the usual intervals."""

LOAD_FACTOR: Final = 2.0
"""Load report and metrics of a broker differ that many times."""

LOAD_FLOOR_BYTES_S: Final = 1e6
LOAD_FLOOR_MSGS_S: Final = 1_000.0
"""Less traffic than this, in both, is not compared."""

START_TOLERANCE_S: Final = 300.0
"""A broker registers that long after its process began, at the most."""

GC_WARNING_RATIO: Final = 0.05
GC_ERROR_RATIO: Final = 0.20
"""Share of the time in which a collection stopped every thread."""

GC_WINDOW_S: Final = 5.0
"""One pause within less time than this means nothing."""

SLOW_WRITE_FACTOR: Final = 3.0
SLOW_WRITE_MS: Final = 50.0
"""A broker waits for storage that many times as long as the median, and at least so long."""

SLOW_STORAGE_MS: Final = 200.0
"""Half of the brokers wait longer for 1% of their writes."""

WRITES_COUNTED: Final = 100.0
"""Fewer writes a minute make no percentile."""

FLEET: Final = 3
"""Fewer brokers have no median worth the name."""

LOOKUPS_PENDING: Final = 1_000.0
LOOKUP_FAILURES_PER_S: Final = 1.0
UNLOADS_PER_H: Final = 60.0


def old_metrics(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose series are no longer scraped."""
    metrics = BrokerMetrics(context.snapshot)
    taken_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
    age_s = (taken_ms - metrics.column("sampled_at")) / 1000
    for row in np.flatnonzero(np.nan_to_num(age_s) > METRICS_OLD_S).tolist():
        yield broker_finding(
            context,
            row,
            "metrics_old",
            f"The metrics of {{broker}} are {format_age(float(age_s[row]))} old.",
            {"age_s": float(age_s[row]), "bound_s": METRICS_OLD_S},
            "Check the targets of the Prometheus server: this broker is no longer scraped.",
            title="Metrics are old",
            measured=Quantity(float(age_s[row]), "s"),
            limit=Quantity(METRICS_OLD_S, "s"),
        )


def metrics_against_reports(context: HealthContext) -> Iterator[Finding]:
    """Load report and metrics of a broker that cannot both be true."""
    metrics = BrokerMetrics(context.snapshot)
    if not metrics.is_there:
        return
    started = column_values(context.snapshot.brokers, "started_at")
    apart_s = (metrics.column("process_started_at") - started) / 1000
    other = np.nan_to_num(np.abs(apart_s)) > START_TOLERANCE_S
    for row in np.flatnonzero(other).tolist():
        when = "later" if apart_s[row] > 0 else "earlier"
        yield broker_finding(
            context,
            row,
            "metrics_of_another_process",
            f"The process behind the metrics of {{broker}} started "
            f"{format_age(abs(float(apart_s[row])))} {when} than the registered "
            "broker.",
            {"apart_s": float(apart_s[row]), "bound_s": START_TOLERANCE_S},
            "Either they belong to another process (see broker_label of "
            "[clusters.prometheus]), or the registration is left over from a dead "
            "broker.",
            title="Metrics belong to another process",
            measured=Quantity(abs(float(apart_s[row])), "s"),
            limit=Quantity(START_TOLERANCE_S, "s"),
        )
    yield from _disagreeing(context, metrics, ~other)


def _disagreeing(
    context: HealthContext, metrics: BrokerMetrics, judged: NDArray[np.bool_]
) -> Iterator[Finding]:
    """Traffic or messages of a broker that differ, bytes first; each broker once."""
    flows = (context.measures.throughput.values, metrics.throughput)
    rates = (context.measures.msg_rate.values, metrics.msg_rate)
    by_bytes = _differ(*flows, LOAD_FLOOR_BYTES_S) & judged
    by_rate = _differ(*rates, LOAD_FLOOR_MSGS_S) & judged
    age_s = _report_age_s(context)
    for row in np.flatnonzero(by_bytes | by_rate).tolist():
        is_bytes = bool(by_bytes[row])
        (reported, metered), words = (
            (flows, format_bytes_per_s) if is_bytes else (rates, format_msgs_per_s)
        )
        unit = "bytes_per_s" if is_bytes else "msgs_per_s"
        age = float(age_s[row])
        yield broker_finding(
            context,
            row,
            "load_data_disagrees",
            f"{{broker}} carries {words(float(metered[row]))} by its metrics, "
            f"{words(float(reported[row]))} by its load "
            f"report{f' of {format_age(age)} ago' if np.isfinite(age) else ''}: the "
            "load manager uses the report.",
            {
                f"metrics_{unit}": float(metered[row]),
                f"report_{unit}": float(reported[row]),
                "report_age_s": age if np.isfinite(age) else None,
                "bound_factor": LOAD_FACTOR,
            },
            "If this persists, the broker does not update its report: check its "
            "connection to the metadata store and "
            "loadBalancerReportUpdateMaxIntervalMinutes.",
            title="Load report and metrics disagree",
            measured=Quantity(float(metered[row]), "bytes/s" if is_bytes else "msg/s"),
            limit=Quantity(float(reported[row]), "bytes/s" if is_bytes else "msg/s"),
        )


def _differ(reported: Floats, metered: Floats, floor: float) -> NDArray[np.bool_]:
    """Return the mask of known numbers that differ too much for one minute."""
    larger, smaller = np.fmax(reported, metered), np.fmin(reported, metered)
    known = np.isfinite(reported) & np.isfinite(metered)
    return np.asarray(known & (larger > floor) & (larger > LOAD_FACTOR * smaller))


def garbage_collection(context: HealthContext) -> Iterator[Finding]:
    """Brokers that pause while they collect garbage."""
    metrics = BrokerMetrics(context.snapshot)
    share, heap = metrics.column("gc_time_ratio"), metrics.column("heap_used_ratio")
    judged = np.nan_to_num(metrics.column("window_s")) >= GC_WINDOW_S
    over = np.flatnonzero(judged & (np.nan_to_num(share) >= GC_WARNING_RATIO))
    for row in over[np.argsort(-share[over], kind="stable")].tolist():
        is_bad = share[row] >= GC_ERROR_RATIO
        found = broker_finding(
            context,
            row,
            "gc_pauses",
            f"{{broker}} spends {format_ratio(float(share[row]))} of its time in "
            f"garbage collection pauses; {format_ratio(_known(heap[row]))} of its "
            "heap is used.",
            {
                "gc_time_ratio": float(share[row]),
                "bound_ratio": GC_ERROR_RATIO if is_bad else GC_WARNING_RATIO,
                "heap_used_ratio": _known(heap[row]),
                "window_s": float(metrics.column("window_s")[row]),
            },
            "Its clients wait during pauses. Fewer bundles mean fewer objects, but "
            "a heap that stays full needs more memory or another collector.",
            title="Garbage collection pauses the broker",
            measured=Quantity(float(share[row]), "ratio"),
            limit=Quantity(GC_ERROR_RATIO if is_bad else GC_WARNING_RATIO, "ratio"),
        )
        yield replace(found, severity="error") if is_bad else found


def slow_writes(context: HealthContext) -> Iterator[Finding]:
    """Brokers that wait for their storage longer than the others, or all of them."""
    metrics = BrokerMetrics(context.snapshot)
    counted = np.nan_to_num(metrics.column("write_count")) >= WRITES_COUNTED
    p99 = np.where(counted, metrics.column("write_p99_ms"), np.nan)
    known = np.isfinite(p99)
    if known.sum() < FLEET:
        return
    median = float(np.median(p99[known]))
    if median >= SLOW_STORAGE_MS:
        yield Finding(
            code="slow_storage",
            title="Storage is slow for every broker",
            measured=Quantity(median, "ms"),
            limit=Quantity(SLOW_STORAGE_MS, "ms"),
            severity="warning",
            subject_kind="cluster",
            subject="",
            sentence=f"Half of the brokers have a write p99 of {format_ms(median)} or more.",
            evidence={"median_p99_ms": median, "bound_ms": SLOW_STORAGE_MS},
            hint="The storage is slow for all brokers: check the bookies; an unload does not help.",
        )
    usage = context.measures.usage
    slow = known & (p99 >= SLOW_WRITE_MS) & (p99 >= SLOW_WRITE_FACTOR * median)
    for row in np.flatnonzero(slow).tolist():
        is_busy = usage.mean is not None and usage.values[row] > usage.mean
        why = "is busier than the mean" if is_busy else "is no busier than the mean"
        yield broker_finding(
            context,
            row,
            "slow_writes",
            f"The writes of {{broker}} have a p99 of {format_ms(float(p99[row]))}; the "
            f"cluster's median is {format_ms(median)}. It {why}.",
            {
                "write_p99_ms": float(p99[row]),
                "median_p99_ms": median,
                "bound_factor": SLOW_WRITE_FACTOR,
                "usage_ratio": _known(usage.values[row]),
            },
            "Its load may be the cause: preview an unload, and check again afterwards."
            if is_busy
            else "Load is not the cause, so an unload would not help: check its garbage "
            "collection, its network and its bookies.",
            title="Storage writes are slow",
            measured=Quantity(float(p99[row]), "ms"),
            limit=Quantity(max(SLOW_WRITE_MS, SLOW_WRITE_FACTOR * median), "ms"),
        )


def waiting_lookups(context: HealthContext) -> Iterator[Finding]:
    """Brokers whose clients wait for lookups, or whose lookups fail."""
    metrics = BrokerMetrics(context.snapshot)
    pending = metrics.column("lookups_pending")
    for row in np.flatnonzero(np.nan_to_num(pending) >= LOOKUPS_PENDING).tolist():
        yield broker_finding(
            context,
            row,
            "lookups_pending",
            f"{pending[row]:,.0f} lookups wait at {{broker}}.",
            {"pending": float(pending[row]), "bound": LOOKUPS_PENDING},
            "Many clients look up their topics at once: unload bundle by bundle, "
            "slowly, and raise maxConcurrentLookupRequest only if the broker has "
            "capacity.",
            title="Lookups are waiting",
            measured=Quantity(float(pending[row])),
            limit=Quantity(LOOKUPS_PENDING),
        )
    failures = metrics.column("lookup_failure_rate")
    for row in np.flatnonzero(np.nan_to_num(failures) >= LOOKUP_FAILURES_PER_S).tolist():
        yield broker_finding(
            context,
            row,
            "lookups_fail",
            f"{failures[row]:,.1f} lookups/s fail at {{broker}}.",
            {"failures_per_s": float(failures[row]), "bound": LOOKUP_FAILURES_PER_S},
            "Their clients cannot connect: check for bundles without an owner, and its log.",
            title="Lookups fail",
            measured=Quantity(float(failures[row]), "/s"),
            limit=Quantity(LOOKUP_FAILURES_PER_S, "/s"),
        )


def many_unloads(context: HealthContext) -> Iterator[Finding]:
    """A leader that counts so many unloads that bundles flap."""
    metrics = BrokerMetrics(context.snapshot)
    per_h = metrics.column("unload_bundle_rate") * 3600
    total = metrics.column("unload_bundle_total")
    judged = np.nan_to_num(metrics.column("window_s")) >= 60
    for row in np.flatnonzero(judged & (np.nan_to_num(per_h) >= UNLOADS_PER_H)).tolist():
        yield broker_finding(
            context,
            row,
            "many_unloads",
            f"The leader {{broker}} counts {per_h[row]:,.0f} unloads/h by its own balancer.",
            {
                "unloads_per_h": float(per_h[row]),
                "bound_per_h": UNLOADS_PER_H,
                "since_start": _known(total[row]),
            },
            "Each makes clients reconnect: check History for flapping bundles, and "
            "back-test a wider threshold or another strategy.",
            title="Leader unloads too often",
            measured=Quantity(float(per_h[row]), "/h"),
            limit=Quantity(UNLOADS_PER_H, "/h"),
        )


def exposed_elsewhere(context: HealthContext) -> Iterator[Finding]:
    """Bundles with traffic at a broker that does not own them, and did not just lose them."""
    table, bundles = context.snapshot.bundle_metrics, context.snapshot.bundles
    if table.num_rows == 0:
        return
    at = row_of(bundles["bundle"], table["bundle"])
    owners = bundles["owner"].take(pa.array(at, mask=at < 0))
    rates = np.nan_to_num(column_values(table, "msg_rate_in"))
    strange = pc.fill_null(pc.not_equal(table["broker"], owners), fill_value=False)
    moving = _moving(context.snapshot.brokers).union(context.moved)
    for row in np.flatnonzero(strange.to_numpy() & (rates > 1.0)).tolist():
        bundle, broker, owner = (
            column[row].as_py() for column in (table["bundle"], table["broker"], owners)
        )
        if bundle in moving:
            continue
        yield Finding(
            code="bundle_exposed_elsewhere",
            title="Bundle has traffic on another broker",
            measured=Quantity(float(rates[row]), "msg/s"),
            limit=Quantity(0, "msg/s"),
            severity="warning",
            subject_kind="bundle",
            subject=bundle,
            sentence=(
                f"{broker} exposes {format_msgs_per_s(float(rates[row]))} of {bundle}, "
                f"which {owner} owns."
            ),
            evidence={"exposed_by": broker, "owner": owner},
            hint="After an unload this lasts a minute; if it persists, two brokers "
            "serve the bundle.",
        )


def _moving(brokers: pa.Table) -> set[str]:
    """Return the bundles that the last load reports name as gained or lost."""
    names: set[str] = set()
    for side in ("last_bundle_gains", "last_bundle_losses"):
        names |= set(pc.list_flatten(brokers[side]).to_pylist())
    return names


def _report_age_s(context: HealthContext) -> np.ndarray:
    taken_ms = datetime_to_ms(context.snapshot.manifest.taken_at)
    return (taken_ms - column_values(context.snapshot.brokers, "reported_at")) / 1000


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
