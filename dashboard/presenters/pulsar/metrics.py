"""Metrics of brokers as shown, where a cluster has them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from core.pulsar.rules.broker_metrics import BrokerMetrics
from core.snapshot import PulsarSnapshot
from core.units import (
    datetime_to_ms,
    format_age,
    format_bytes_per_s,
    format_ms,
    format_msgs_per_s,
    format_ratio,
    pluralize,
)

METRICS_FROM: Final = {
    "prometheus": "the Prometheus server",
    "scrape": "the /metrics endpoints of the brokers",
}


def source_line(snapshot: PulsarSnapshot) -> str:
    """Return the source of the metrics and the number of brokers; empty: no metrics."""
    metrics = BrokerMetrics(snapshot)
    if not metrics.is_there:
        return ""
    measured, brokers = snapshot.broker_metrics.num_rows, snapshot.brokers.num_rows
    windows = [each for each in snapshot.broker_metrics["window_s"].to_pylist() if each is not None]
    over = f", rates over {format_age(max(windows))}" if windows else ", no rates yet"
    return (
        f"Metrics from {METRICS_FROM[metrics.source]}, {measured:,} of "
        f"{pluralize(brokers, 'broker')}{over}."
    )


def facts(snapshot: PulsarSnapshot, broker: str) -> dict[str, str]:
    """Return the metrics of one broker, label and value; empty: none."""
    row = BrokerMetrics(snapshot).of(broker)
    if row is None:
        return {}
    taken_ms = datetime_to_ms(snapshot.manifest.taken_at)
    rate_in, rate_out = row["msg_rate_in"], row["msg_rate_out"]
    return {
        "From": f"{METRICS_FROM[row['source']]}, {_age(taken_ms, row['sampled_at'])}",
        "Traffic": f"{format_bytes_per_s(row['msg_throughput_in'])} in, "
        f"{format_bytes_per_s(row['msg_throughput_out'])} out",
        "Messages": f"{format_msgs_per_s(rate_in)} in, {format_msgs_per_s(rate_out)} out",
        "GC pauses": _paused(row),
        "Heap": f"{format_ratio(row['heap_used_ratio'])} used, direct memory "
        f"{format_ratio(row['direct_used_ratio'])}",
        "Storage writes": _slowest(row["write_p99_ms"]),
        "Publishing": _slowest(row["publish_p99_ms"]),
        "Lookups": _lookups(row),
        "Connections": _count(row["connection_count"]),
    }


def counters_sentence(before: pa.Table | None, after: pa.Table, moves: int, minutes: float) -> str:
    """Return the balancer's own count of unloads next to the moves that were seen.

    Args:
        before: ``broker_metrics`` of an earlier snapshot; ``None``: there is none.
        after: Those of the shown one.
        moves: Changes of owner seen in between.
        minutes: Between the two.

    Only a leader that led, and ran, all the time has a count to compare.
    """
    since = f"In the last {minutes:.0f} min" if minutes >= 1 else "Since the previous snapshot"
    seen = f"{pluralize(moves, 'change')} of owner in saved snapshots"
    grown = None if before is None else _grown(before, after)
    if grown is None:
        return f"{since}: {seen}; the leader has no counts for the whole period."
    unloads, splits = grown
    counted = pluralize(unloads, "unload")
    if splits:
        counted += f", {pluralize(splits, 'split')}"
    if moves > unloads:
        rest = "The difference is manual unloads, runs, splits and broker restarts."
    elif moves < unloads:
        rest = "Bundles that returned between two snapshots are not counted."
    else:
        rest = "Both agree."
    return f"{since}: {counted} by the leader's balancer; {seen}. {rest}"


def _grown(before: pa.Table, after: pa.Table) -> tuple[int, int] | None:
    """Return the unloads and splits that a leader counted between two tables."""
    old = {row["broker"]: row for row in before.to_pylist()}
    for row in after.to_pylist():
        was = old.get(row["broker"])
        if row["unload_bundle_total"] is None or was is None:
            continue
        if was["process_started_at"] != row["process_started_at"]:
            continue
        unloads = row["unload_bundle_total"] - (was["unload_bundle_total"] or 0.0)
        splits = (row["split_bundle_total"] or 0.0) - (was["split_bundle_total"] or 0.0)
        return (round(unloads), round(splits)) if unloads >= 0 else None
    return None


def _age(now_ms: int, then_ms: int | None) -> str:
    if then_ms is None:
        return "at an unknown time"
    return f"{format_age(max(now_ms - then_ms, 0) / 1000)} old"


def _paused(row: dict[str, Any]) -> str:
    if row["gc_time_ratio"] is None:
        return "unknown until the second sample" if row["window_s"] is None else "unknown"
    return f"{format_ratio(row['gc_time_ratio'])} of the time, {row['gc_rate'] or 0:.1f}/s"


def _slowest(p99_ms: float | None) -> str:
    return f"p99 {format_ms(p99_ms)}" if p99_ms is not None else "unknown"


def _lookups(row: dict[str, Any]) -> str:
    pending = _count(row["lookups_pending"])
    slowest = row["lookup_p99_ms"]
    return f"{pending} waiting" + ("" if slowest is None else f", {_slowest(slowest)}")


def _count(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
