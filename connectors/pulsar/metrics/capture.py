"""The metrics of one capture: a server's, or the brokers' own; none where none are configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Final

import numpy as np
import pyarrow as pa

from connectors.config.model import ClusterConfig
from connectors.pulsar.metrics.found import MetricValues
from connectors.pulsar.metrics.measures import OF_BROKERS, WRITES
from connectors.pulsar.metrics.scrape import Scraper
from connectors.pulsar.metrics.server import PrometheusServer
from core.pulsar.storage_latency import quantile_ms
from core.schemas.pulsar import BROKER_METRICS, BUNDLE_METRICS, RATES, RESOURCES
from core.snapshot.problems import ProblemLog

_OF_THE_LEADER: Final = ("unload_broker_total", "unload_bundle_total", "unload_bundle_rate")
_IDLE: Final = ("publish_p99_ms", "lookup_p99_ms", "topic_load_p99_ms")
_SELDOM: Final = (*_OF_THE_LEADER, "split_bundle_total", *_IDLE)
"""Exposed by the leader only, and by some releases only after the first unload or split; or not a
number where nothing was requested recently."""

_AS_THEY_ARE: Final = (
    *RATES,
    *("gc_time_ratio", "gc_rate", "publish_p99_ms", "lookup_p99_ms", "topic_load_p99_ms"),
    *("lookups_pending", "topic_loads_pending", "lookup_failure_rate"),
    *("unload_broker_total", "unload_bundle_total", "unload_bundle_rate", "split_bundle_total"),
)
_COUNTS: Final = ("topic_count", "producer_count", "consumer_count", "connection_count")
_P99: Final = 0.99

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of a capture.

    Attributes:
        tables: ``broker_metrics`` and ``bundle_metrics``, where they have rows.
        lacks: Sentences about what is not exposed here.
        source: ``prometheus``, ``scrape``, or ``none``.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    source: str = "none"


class MetricsReader:
    """Reads what the configuration names; keeps connections from capture to capture.

    Raises:
        ConfigError: A secret or a certificate cannot be read.
    """

    def __init__(self, config: ClusterConfig) -> None:
        source = config.prometheus
        self._scraper = Scraper(config, source) if source and source.scrape else None
        self._server = PrometheusServer(config, source) if source and source.url else None

    def read(
        self, brokers: Sequence[str], urls: Mapping[str, str], problems: ProblemLog
    ) -> Metrics:
        """Read the metrics of the brokers; never raises for what does not work.

        Args:
            brokers: Ids of every registered broker.
            urls: Broker id -> web address, of those that may be contacted.
            problems: Gets what did not work.
        """
        found: MetricValues | None = None
        if self._server is not None and brokers:
            found = self._server.read(brokers, problems)
        elif self._scraper is not None and urls:
            found = self._scraper.read(urls, problems)
        if found is None:
            return Metrics()
        if not found.brokers:
            return Metrics(source=found.source)
        return Metrics(
            metric_tables(found, round(time() * 1000)), tuple(_lacks(found)), found.source
        )

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        for reader in (self._scraper, self._server):
            if reader is not None:
                reader.close()


def _lacks(found: MetricValues) -> list[str]:
    rates = {measure.name for group in OF_BROKERS.values() for measure in group}
    wanted = [
        measure.series[0].metric
        for group in OF_BROKERS.values()
        for measure in group
        if measure.name in found.lacking(rates - {*_SELDOM})
        and (measure.kind != "counter" or found.windows_s)
    ]
    if not wanted:
        return []
    names = list(dict.fromkeys(wanted))
    more = f" and {len(names) - 6} more" if names[6:] else ""
    return [f"Metrics that no broker exposes with a value: {', '.join(names[:6])}{more}."]


def metric_tables(found: MetricValues, now_ms: int) -> dict[str, pa.Table]:
    """Return the tables of brokers and bundles; none where nothing was found.

    Args:
        found: What was read.
        now_ms: When, for brokers with series that have no timestamp.
    """
    tables = {}
    if found.brokers:
        rows = [_row(found, broker, now_ms) for broker in sorted(found.brokers)]
        p99, counts = _writes([found.brokers[broker] for broker in sorted(found.brokers)])
        for row, quantile, count in zip(rows, p99, counts, strict=True):
            row["write_p99_ms"] = float(quantile) if np.isfinite(quantile) else None
            row["write_count"] = float(count) if np.isfinite(count) else None
        tables["broker_metrics"] = pa.Table.from_pylist(rows, schema=BROKER_METRICS)
    if found.bundles:
        tables["bundle_metrics"] = pa.Table.from_pylist(
            [
                {"bundle": bundle, "broker": broker, **found.bundles[bundle, broker]}
                for bundle, broker in sorted(found.bundles)
            ],
            schema=BUNDLE_METRICS,
        )
    return tables


def _row(found: MetricValues, broker: str, now_ms: int) -> Row:
    values = found.brokers[broker]
    row: Row = {
        "broker": broker,
        "source": found.source,
        "window_s": found.windows_s.get(broker),
        "sampled_at": _ms(values.get("sampled_s")) or now_ms,
        "process_started_at": _ms(values.get("started_s")),
        "heap_used_ratio": _share(values, "heap_used_bytes", "heap_max_bytes"),
        "direct_used_ratio": _share(values, "direct_used_bytes", "direct_max_bytes"),
    }
    row |= {name: values.get(name) for name in _AS_THEY_ARE}
    row |= {name: _whole(values.get(name)) for name in _COUNTS}
    for name in RESOURCES:
        percent = values.get(f"{name}_percent")
        row[f"{name}_ratio"] = None if percent is None else percent / 100
    return row


def _writes(brokers: list[dict[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the 99th percentile of the storage writes of each broker, ms, and their number.

    A broker exposes all buckets or none.
    """
    counts = np.array(
        [[values.get(measure.name, np.nan) for measure in WRITES] for values in brokers]
    )
    return quantile_ms(counts, _P99), counts.sum(axis=1)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _share(values: Mapping[str, float], part: str, whole: str) -> float | None:
    most = values.get(whole, 0.0)
    return values[part] / most if part in values and most > 0 else None
