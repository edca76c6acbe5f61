"""The metrics behind the columns of the shell's ``nodes``, ``server_stat`` and ``app_stat``.

Rates need two samples; what a server does not report, or only in one sample, is ``None``. A sum
with an unknown part is unknown.

Source:
    Pegasus ``src/shell/command_helper.h`` and ``src/shell/commands/node_management.cpp``: which
    metrics each column sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.pegasus.metrics import Entity, MetricsSample, joint_rate, seconds_between

Samples = tuple[MetricsSample, MetricsSample]
"""Of one server at two moments, the earlier first."""
Row = dict[str, float | None]

OPERATION_RATES: Final = {
    "get_rate": "get_requests",
    "multi_get_rate": "multi_get_requests",
    "batch_get_rate": "batch_get_requests",
    "put_rate": "put_requests",
    "multi_put_rate": "multi_put_requests",
    "remove_rate": "remove_requests",
    "multi_remove_rate": "multi_remove_requests",
    "incr_rate": "incr_requests",
    "check_and_set_rate": "check_and_set_requests",
    "check_and_mutate_rate": "check_and_mutate_requests",
    "scan_rate": "scan_requests",
}
"""Requests/s by kind."""

EVENT_RATES: Final = {
    "expired_rate": "read_expired_values",
    "filtered_rate": "read_filtered_values",
    "abnormal_rate": "abnormal_read_requests",
    "delayed_rate": "throttling_delayed_write_requests",
    "rejected_rate": "throttling_rejected_write_requests",
}
"""What a request met, a second; the shell shows the same as increases over its interval."""

STORAGE: Final = {
    "sst_files": "rdb_total_sst_files",
    "memtable_mb": "rdb_memtable_mem_usage_bytes",
    "index_filter_mb": "rdb_index_and_filter_blocks_mem_usage_bytes",
}
LOOKUPS: Final = {
    "cache_hits": "rdb_block_cache_hit_count",
    "cache_lookups": "rdb_block_cache_total_count",
    "seek_negatives": "rdb_bloom_filter_seek_negatives",
    "seek_lookups": "rdb_bloom_filter_seek_total",
    "point_negatives": "rdb_bloom_filter_point_lookup_negatives",
    "point_positives": "rdb_bloom_filter_point_lookup_positives",
    "point_true_positives": "rdb_bloom_filter_point_lookup_true_positives",
}
"""Of block cache and bloom filters since the replica was opened: ratios are made of their sums."""

NODE_RATES: Final = ("get_rate", "multi_get_rate", "batch_get_rate", "put_rate", "multi_put_rate")
"""Those of which ``nodes -q`` has columns, over all replicas of the node."""
NODE_SUMS: Final = ("memtable_mb", "index_filter_mb")

NODE_GAUGES: Final = {
    "virtual_memory_mb": "virtual_mem_usage_mb",
    "block_cache_mb": "rdb_block_cache_mem_usage_bytes",
    "write_buffer_mb": "rdb_wbm_total_mem_usage_bytes",
    "write_buffer_mutable_mb": "rdb_wbm_mutable_mem_usage_bytes",
}
NODE_COUNTS: Final = {
    f"{state}_replicas": f"{state}_replicas"
    for state in (
        "total",
        "opening",
        "closing",
        "inactive",
        "error",
        "primary",
        "secondary",
        "splitting",
    )
}
"""Replicas by what the server itself says of them."""

LATENCY: Final = "profiler_server_rpc_latency_ns"
NODE_LATENCIES: Final = {
    "get_p99_ms": "RPC_RRDB_RRDB_GET",
    "multi_get_p99_ms": "RPC_RRDB_RRDB_MULTI_GET",
    "batch_get_p99_ms": "RPC_RRDB_RRDB_BATCH_GET",
    "put_p99_ms": "RPC_RRDB_RRDB_PUT",
    "multi_put_p99_ms": "RPC_RRDB_RRDB_MULTI_PUT",
}
"""Task of the profiler; a server that runs without it reports none."""

THROTTLED: Final = ("delayed_rate", "rejected_rate")
RARE_RATES: Final = tuple(name for name in EVENT_RATES if name not in THROTTLED)
COUNTERS: Final = (
    *OPERATION_RATES.values(),
    *(EVENT_RATES[name] for name in THROTTLED),
)
"""What every capture compares with the one before."""
SERVER_GAUGES: Final = (*NODE_GAUGES.values(), *NODE_COUNTS.values())
"""What a server reports of itself in every capture: few bytes."""
RARE_COUNTERS: Final = tuple(EVENT_RATES[name] for name in RARE_RATES)
RARE_GAUGES: Final = (*STORAGE.values(), *LOOKUPS.values())
"""What changes slowly and fills most of an answer: read every few minutes."""
RARE_COLUMNS: Final = (*RARE_RATES, *STORAGE, *LOOKUPS)
"""Columns of ``operations`` that come of it."""
_RATES: Final = OPERATION_RATES | EVENT_RATES
_GAUGES: Final = STORAGE | LOOKUPS
ALL_COLUMNS: Final = (*_RATES, *_GAUGES)
"""Columns of ``operations`` that come of metrics."""
FREQUENT_COLUMNS: Final = tuple(name for name in ALL_COLUMNS if name not in RARE_COLUMNS)
"""Those that every capture reads."""
RARE_NODE_COLUMNS: Final = (*NODE_SUMS, *NODE_LATENCIES)
"""Columns of ``nodes`` that come of it, and of the profiler."""

_SERVER: Final[Entity] = ("server", "server")
_BYTES_IN_MB: Final = 1 << 20
_NS_IN_MS: Final = 1e6


def node_stats(samples: Samples) -> Row:
    """Return one server's self-reported node columns."""
    before, after = samples
    span_s = seconds_between(before, after)
    replicas = [
        (before.values.get(one, {}), after.values.get(one, {})) for one in after.gpids.values()
    ]
    found: Row = {
        name: _in_mb(metric, after.value(_SERVER, metric)) for name, metric in NODE_GAUGES.items()
    }
    found |= {name: after.value(_SERVER, metric) for name, metric in NODE_COUNTS.items()}
    for name in NODE_SUMS:
        metric = STORAGE[name]
        found[name] = _in_mb(metric, _sum(now.get(metric) for _, now in replicas))
    for name in NODE_RATES:
        wanted = (OPERATION_RATES[name],)
        found[name] = _sum(joint_rate(was, now, span_s, wanted) for was, now in replicas)
    return found | _latencies(after)


def _latencies(sample: MetricsSample) -> Row:
    tasks = {
        attributes["task_name"]: entity
        for entity, attributes in sample.attributes.items()
        if entity[0] == "profiler" and "task_name" in attributes
    }
    ns = {
        name: sample.value(tasks[task], f"{LATENCY}.p99") if task in tasks else None
        for name, task in NODE_LATENCIES.items()
    }
    return {name: None if value is None else value / _NS_IN_MS for name, value in ns.items()}


def operation_stats(samples: Samples, entity: Entity, columns: Iterable[str] = ALL_COLUMNS) -> Row:
    """Return one replica's request statistics, by column of ``operations``.

    Args:
        samples: Of its server.
        entity: The replica.
        columns: Which columns to compute.
    """
    before, after = samples
    span_s = seconds_between(before, after)
    was, now = before.values.get(entity, {}), after.values.get(entity, {})
    return {
        name: joint_rate(was, now, span_s, (_RATES[name],))
        if name in _RATES
        else _in_mb(_GAUGES[name], now.get(_GAUGES[name]))
        for name in columns
    }


def _in_mb(metric: str, value: float | None) -> float | None:
    if value is None or not metric.endswith("_bytes"):
        return value
    return value / _BYTES_IN_MB


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; unknown when one part is."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
