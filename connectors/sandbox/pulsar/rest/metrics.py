"""What a broker exposes at ``/metrics/``: names, labels and types as recorded on Pulsar 4.2.4.

Loads are those of the simulated state. Latencies and garbage collection follow from them: a busier
broker is slower, and collects more the fuller its heap is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Final

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from connectors.sandbox.pulsar.rest.reads import Rest, addressed_broker
from connectors.sandbox.pulsar.state import Broker
from connectors.sandbox.pulsar.workload import (
    CPU_LIMIT,
    DIRECT_LIMIT_MIB,
    HEAP_LIMIT_MIB,
    NIC_LIMIT_KBIT_S,
)
from core.pulsar.storage_latency import BUCKETS

if TYPE_CHECKING:
    from connectors.sandbox.pulsar.engine import Engine
    from connectors.sandbox.pulsar.ownership import OwnershipChanges


_MIB: Final = 2**20
_PERIOD_S: Final = 60.0
_WRITE_MS: Final = 2.0
_SPREAD: Final = 0.7
_LOOKUPS_PER_S: Final = 2.0
_PAUSE_S: Final = 0.02
_P99: Final = math.exp(2.326 * _SPREAD)
_EXPOSES_BUNDLES: Final = "exposeBundlesMetricsInPrometheus"
_BUNDLE_RATES: Final = (
    *("msg_rate_in", "msg_throughput_in", "msg_rate_out", "msg_throughput_out"),
)

Labels = Mapping[str, str]
Line = tuple[str, str, Labels, float]


@dataclass(slots=True)
class _Collected:
    """Garbage collection of one process until now."""

    started_ms: int
    at_s: float
    seconds: float = 0.0


class Exposition:
    """Writes the text of each broker; keeps what only grows.

    Args:
        engine: The running cluster.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._collected: dict[int, _Collected] = {}

    def text(self, broker: Broker) -> str:
        """Return a broker's current metrics."""
        lines = [
            *self._process(broker),
            *self._requests(broker),
            *self._sums(broker),
            *self._writes(broker),
            *self._load_manager(broker),
        ]
        if self._engine.policies.running_values().get(_EXPOSES_BUNDLES) == "true":
            lines += self._bundles(broker)
        return written(lines, self._engine.options.cluster)

    def _process(self, broker: Broker) -> Iterator[Line]:
        usage, row = self._engine.state.usage, broker.row
        heap = float(usage.heap_mib[row]) * _MIB
        direct = float(usage.direct_mib[row]) * _MIB
        yield "process_start_time_seconds", "gauge", {}, broker.started_ms / 1000
        yield "jvm_memory_bytes_used", "gauge", {"area": "heap"}, heap
        yield "jvm_memory_bytes_used", "gauge", {"area": "nonheap"}, 140.0 * _MIB
        yield "jvm_memory_bytes_max", "gauge", {"area": "heap"}, HEAP_LIMIT_MIB * _MIB
        yield "jvm_memory_bytes_max", "gauge", {"area": "nonheap"}, -1.0
        yield "jvm_memory_direct_bytes_used", "gauge", {}, direct
        yield "jvm_memory_direct_bytes_max", "gauge", {}, DIRECT_LIMIT_MIB * _MIB
        paused = self._paused_s(broker)
        for name, share in (("G1 Young Generation", 0.9), ("G1 Old Generation", 0.1)):
            labels = {"gc": name}
            pauses = float(int(paused * share / _PAUSE_S))
            yield "jvm_gc_collection_seconds_count", "summary", labels, pauses
            yield "jvm_gc_collection_seconds_sum", "summary", labels, paused * share
        yield "pulsar_version_info", "gauge", {"version": broker.version}, 1.0

    def _paused_s(self, broker: Broker) -> float:
        """Return for how long the process was stopped by collections since it started."""
        now_s = time()
        collected = self._collected.get(broker.row)
        if collected is None or collected.started_ms != broker.started_ms:
            collected = _Collected(broker.started_ms, broker.started_ms / 1000)
            self._collected[broker.row] = collected
        heap = float(self._engine.state.usage.heap_mib[broker.row]) / HEAP_LIMIT_MIB
        collected.seconds += max(now_s - collected.at_s, 0.0) * (0.003 + 0.02 * heap**2)
        collected.at_s = now_s
        return collected.seconds

    def _requests(self, broker: Broker) -> Iterator[Line]:
        slowness = self._slowness(broker)
        counted = self._uptime_s(broker) * _LOOKUPS_PER_S
        for name, median in (("publish_latency", 2 * _WRITE_MS), ("lookup", 0.4)):
            metric, typical = f"pulsar_broker_{name}", median * slowness
            yield metric, "summary", {"quantile": "0.5"}, typical
            yield metric, "summary", {"quantile": "0.99"}, typical * _P99
            yield f"{metric}_count", "summary", {}, float(int(counted))
            yield f"{metric}_sum", "summary", {}, counted * typical
        yield "pulsar_topic_load_times", "summary", {"quantile": "0.99"}, math.nan
        yield "pulsar_broker_lookup_answers_total", "counter", {}, float(int(counted))
        yield "pulsar_broker_lookup_failures_total", "counter", {}, 0.0
        yield "pulsar_broker_lookup_pending_requests", "gauge", {}, 0.0
        yield "pulsar_broker_topic_load_pending_requests", "gauge", {}, 0.0

    def _sums(self, broker: Broker) -> Iterator[Line]:
        state = self._engine.state
        rate_in, bytes_in, rate_out, bytes_out = state.broker_rates()[broker.row].tolist()
        topics, producers, consumers, _ = state.broker_counts()[broker.row].tolist()
        for name, value in (
            ("rate_in", rate_in),
            ("rate_out", rate_out),
            ("throughput_in", bytes_in),
            ("throughput_out", bytes_out),
            ("topics_count", topics),
            ("producers_count", producers),
            ("consumers_count", consumers),
        ):
            yield f"pulsar_broker_{name}", "gauge", {}, float(value)
        labels = {"broker": broker.host, "metric": "broker_connection"}
        yield "pulsar_active_connections", "gauge", labels, float(producers + consumers)

    def _writes(self, broker: Broker) -> Iterator[Line]:
        """Storage writes of the last period by namespace, as without metrics of single topics."""
        state = self._engine.state
        rows = state.served_rows(broker.row)
        names, at = np.unique(state.namespace[rows], return_inverse=True)
        counts = np.bincount(at, state.rates[rows, 0], minlength=len(names)) * _PERIOD_S
        typical = _WRITE_MS * self._slowness(broker)
        below = [_share_below(bound / typical) for bound in BUCKETS.values()]
        shares = np.diff([0.0, *below])
        for namespace, count in zip(names.tolist(), counts.tolist(), strict=True):
            labels = {"namespace": state.namespaces[namespace]}
            parts = np.round(shares * count)
            for suffix, part in zip(BUCKETS, parts.tolist(), strict=True):
                yield f"pulsar_storage_write_latency_{suffix}", "gauge", labels, part
            yield "pulsar_storage_write_latency_count", "gauge", labels, float(parts.sum())

    def _load_manager(self, broker: Broker) -> Iterator[Line]:
        usage, row = self._engine.state.usage, broker.row
        labels = {"broker": broker.host, "metric": "loadBalancing"}
        for name, used, most in (
            ("cpu", usage.cpu, CPU_LIMIT),
            ("memory", usage.heap_mib, HEAP_LIMIT_MIB),
            ("directMemory", usage.direct_mib, DIRECT_LIMIT_MIB),
            ("bandwidth_in", usage.bandwidth_in_kbit_s, NIC_LIMIT_KBIT_S),
            ("bandwidth_out", usage.bandwidth_out_kbit_s, NIC_LIMIT_KBIT_S),
        ):
            yield f"pulsar_lb_{name}_usage", "gauge", labels, float(used[row]) / most * 100
        unloaded, brokers = self._engine.shed_counts[row].tolist()
        if unloaded:
            labels = {"broker": broker.host, "metric": "bundleUnloading"}
            yield "pulsar_lb_unload_broker_total", "gauge", labels, float(brokers)
            yield "pulsar_lb_unload_bundle_total", "gauge", labels, float(unloaded)

    def _bundles(self, broker: Broker) -> Iterator[Line]:
        state = self._engine.state
        for row in state.served_rows(broker.row).tolist():
            labels = {"broker": broker.host, "bundle": state.names[row], "metric": "bundle"}
            for name, value in zip(_BUNDLE_RATES, state.rates[row].tolist(), strict=True):
                yield f"pulsar_bundle_{name}", "gauge", labels, value
            counts = state.counts[row].tolist()
            for name, value in zip(("topics", "producer", "consumer"), counts[:3], strict=True):
                suffix = "topics_count" if name == "topics" else f"{name}_count"
                yield f"pulsar_bundle_{suffix}", "gauge", labels, float(value)

    def _slowness(self, broker: Broker) -> float:
        """Return the slowdown factor of a broker vs. an idle one."""
        busy = float(self._engine.state.usage.cpu[broker.row]) / CPU_LIMIT
        return 1 / (1 - 0.8 * min(busy, 1.0))

    @staticmethod
    def _uptime_s(broker: Broker) -> float:
        return max(time() - broker.started_ms / 1000, 0.0)


def written(lines: Iterable[Line], cluster: str) -> str:
    """Return lines as text, each kind with its type before it."""
    by_name: dict[str, list[str]] = {}
    for name, kind, labels, value in lines:
        pairs = ",".join(f'{key}="{text}"' for key, text in {"cluster": cluster, **labels}.items())
        head = [] if name in by_name else [f"# TYPE {_family(name, kind)} {kind}"]
        by_name.setdefault(name, []).extend([*head, f"{name}{{{pairs}}} {_number(value)}"])
    return "\n".join(line for each in by_name.values() for line in each) + "\n"


def _family(name: str, kind: str) -> str:
    if kind == "counter":
        return name.removesuffix("_total")
    if kind == "summary":
        return name.removesuffix("_count").removesuffix("_sum")
    return name


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)


def _share_below(times: float) -> float:
    """Return the share of writes that take less than so many times the typical one."""
    if math.isinf(times):
        return 1.0
    return 0.5 * (1 + math.erf(math.log(times) / (_SPREAD * math.sqrt(2))))


_TEXT: Final = "text/plain;charset=utf-8"


class MetricsRest(Rest):
    """The metrics of the answering broker."""

    def __init__(self, engine: Engine, ownership: OwnershipChanges) -> None:
        super().__init__(engine, ownership)
        self._exposition = Exposition(engine)

    def routes(self) -> list[Route]:
        """Return the routes of everything here."""
        return [Route("/metrics", self.moved), Route("/metrics/", self.prometheus)]

    async def moved(self, _: Request) -> Response:
        """Point at the path with the slash."""
        return RedirectResponse("/metrics/", 301)

    async def prometheus(self, request: Request) -> Response:
        """Return everything in Prometheus' text format."""
        return Response(self._exposition.text(addressed_broker(request)), media_type=_TEXT)
