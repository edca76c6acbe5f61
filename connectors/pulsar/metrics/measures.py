"""What is read of a broker's metrics, and under which names the releases expose it.

Source:
    The metrics reference of Pulsar 2.8 to 4.2, and what brokers of 4.2.4 were recorded exposing:
    ``NamespaceStatsAggregator`` (broker and namespace sums), ``ModularLoadManagerImpl`` and
    ``ExtensibleLoadManagerImpl`` (``pulsar_lb_*``, ``pulsar_bundle_*``), ``BrokerService`` and
    ``PulsarStats`` (latencies, lookups), the Java client's hotspot collectors (``jvm_*``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from core.pulsar.storage_latency import BUCKETS

Kind = Literal["gauge", "counter", "sampled"]
Operator = Literal["=", "!~"]


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """A condition on a label, as PromQL writes it; ``!~`` is anchored at both ends."""

    label: str
    operator: Operator
    value: str


@dataclass(frozen=True, slots=True)
class Series:
    """A metric and which of its series count."""

    metric: str
    where: tuple[LabelMatcher, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number a broker.

    Attributes:
        name: Ours.
        series: Where it is found; the first that the broker exposes counts.
        kind: A ``gauge`` counts as it is, a ``counter`` as its increase a second; ``sampled`` is
            when the series was read, in seconds.
        is_sum: Whether the series of a broker are added up; else the largest counts.
    """

    name: str
    series: tuple[Series, ...]
    kind: Kind = "gauge"
    is_sum: bool = True


_P99: Final = (LabelMatcher("quantile", "=", "0.99"),)
_HEAP: Final = (LabelMatcher("area", "=", "heap"),)
_PAUSING: Final = (LabelMatcher("gc", "!~", ".*Cycles.*"),)
"""ZGC and Shenandoah count their concurrent cycles as collections too: those stop nothing."""


def _measure(name: str, *metrics: str, kind: Kind = "gauge", is_sum: bool = True) -> Measure:
    return Measure(
        name=name, series=tuple(Series(metric) for metric in metrics), kind=kind, is_sum=is_sum
    )


def _where(
    name: str, where: tuple[LabelMatcher, ...], *metrics: str, is_sum: bool = True
) -> Measure:
    series = tuple(Series(metric, where) for metric in metrics)
    return Measure(name=name, series=series, is_sum=is_sum)


LOAD: Final = (
    # without the prefix: per namespace, in releases that have no sums of the broker
    _measure("msg_rate_in", "pulsar_broker_rate_in", "pulsar_rate_in"),
    _measure("msg_rate_out", "pulsar_broker_rate_out", "pulsar_rate_out"),
    _measure("msg_throughput_in", "pulsar_broker_throughput_in", "pulsar_throughput_in"),
    _measure("msg_throughput_out", "pulsar_broker_throughput_out", "pulsar_throughput_out"),
    _measure("topic_count", "pulsar_broker_topics_count", "pulsar_topics_count"),
    _measure("producer_count", "pulsar_broker_producers_count", "pulsar_producers_count"),
    _measure("consumer_count", "pulsar_broker_consumers_count", "pulsar_consumers_count"),
    _measure("connection_count", "pulsar_active_connections"),
    _measure("cpu_percent", "pulsar_lb_cpu_usage", is_sum=False),
    _measure("memory_percent", "pulsar_lb_memory_usage", is_sum=False),
    _measure("direct_memory_percent", "pulsar_lb_directMemory_usage", is_sum=False),
    _measure("bandwidth_in_percent", "pulsar_lb_bandwidth_in_usage", is_sum=False),
    _measure("bandwidth_out_percent", "pulsar_lb_bandwidth_out_usage", is_sum=False),
    _measure("unload_broker_total", "pulsar_lb_unload_broker_total"),
    _measure("unload_bundle_total", "pulsar_lb_unload_bundle_total"),
    _measure("split_bundle_total", "pulsar_lb_bundles_split_total"),
    _measure("unload_bundle_rate", "pulsar_lb_unload_bundle_total", kind="counter"),
)
PROCESS: Final = (
    _measure("started_s", "process_start_time_seconds", is_sum=False),
    _measure("sampled_s", "process_start_time_seconds", kind="sampled", is_sum=False),
    _where("heap_used_bytes", _HEAP, "jvm_memory_bytes_used", "jvm_memory_used_bytes"),
    _where("heap_max_bytes", _HEAP, "jvm_memory_bytes_max", "jvm_memory_max_bytes"),
    _measure("direct_used_bytes", "jvm_memory_direct_bytes_used"),
    _measure("direct_max_bytes", "jvm_memory_direct_bytes_max"),
    Measure(
        name="gc_time_ratio",
        series=(Series("jvm_gc_collection_seconds_sum", _PAUSING),),
        kind="counter",
    ),
    Measure(
        name="gc_rate",
        series=(Series("jvm_gc_collection_seconds_count", _PAUSING),),
        kind="counter",
    ),
)
REQUESTS: Final = (
    _where("publish_p99_ms", _P99, "pulsar_broker_publish_latency", is_sum=False),
    _where("lookup_p99_ms", _P99, "pulsar_broker_lookup", is_sum=False),
    _where("topic_load_p99_ms", _P99, "pulsar_topic_load_times", "topic_load_times", is_sum=False),
    _measure("lookups_pending", "pulsar_broker_lookup_pending_requests"),
    _measure("topic_loads_pending", "pulsar_broker_topic_load_pending_requests"),
    _measure(
        "lookup_failure_rate",
        "pulsar_broker_lookup_failures_total",
        "pulsar_broker_lookup_failures",
        kind="counter",
    ),
)
WRITES: Final = tuple(
    _measure(f"write_{suffix}", f"pulsar_storage_write_latency_{suffix}") for suffix in BUCKETS
)
"""How many entries were written how fast in the last minute: gauges, each bucket by itself."""

OF_BROKERS: Final[Mapping[str, tuple[Measure, ...]]] = {
    "load": LOAD,
    "process": PROCESS,
    "requests": REQUESTS,
    "writes": WRITES,
}
"""Measures by the query that reads them."""

OF_BUNDLES: Final = (
    _measure("msg_rate_in", "pulsar_bundle_msg_rate_in"),
    _measure("msg_rate_out", "pulsar_bundle_msg_rate_out"),
    _measure("msg_throughput_in", "pulsar_bundle_msg_throughput_in"),
    _measure("msg_throughput_out", "pulsar_bundle_msg_throughput_out"),
)
"""Rates of bundles, where ``exposeBundlesMetricsInPrometheus`` is set."""

MAX_BUNDLES: Final = 20_000
"""More are not read: each is four series."""
