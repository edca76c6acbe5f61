"""The metrics of one capture: a server's, or the brokers' own; none where none are configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Final

import pyarrow as pa

from connectors.config.model import ClusterConfig
from connectors.prometheus.found import Found
from connectors.prometheus.measures import OF_BROKERS
from connectors.prometheus.scrape import Scraper
from connectors.prometheus.server import PrometheusServer
from connectors.prometheus.tables import metric_tables
from core.snapshot.znodes import ProblemLog

_OF_THE_LEADER: Final = ("unload_broker_total", "unload_bundle_total", "unload_bundle_rate")
_IDLE: Final = ("publish_p99_ms", "lookup_p99_ms", "topic_load_p99_ms")
_SELDOM: Final = (*_OF_THE_LEADER, "split_bundle_total", *_IDLE)
"""Exposed by the leader only, and by some releases only after the first unload or split; or not a
number where nothing was asked for lately."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a capture gets.

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

    Args:
        config: The cluster.
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
            urls: Broker id -> web address, of those that may be asked.
            problems: Gets what did not work.
        """
        found: Found | None = None
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


def _lacks(found: Found) -> list[str]:
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
