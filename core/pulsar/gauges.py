"""What monitoring systems read of a Pulsar cluster: load and deviation of each broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.gauges import Gauge
from core.pulsar.measures import measure
from core.snapshot import PulsarSnapshot

_UNITS: Final = {
    "usage": ("broker_usage_ratio", "Weighted maximum usage of a broker."),
    "throughput": ("broker_throughput_bytes_per_second", "Traffic of a broker, in plus out."),
    "msg_rate": ("broker_messages_per_second", "Messages of a broker, in plus out."),
    "bundle_count": ("broker_bundles", "Bundles that a broker owns and that can move."),
}


def gauges(snapshot: PulsarSnapshot) -> Iterator[Gauge]:
    """Yield load and deviation of each broker, and the largest deviation of each measure."""
    for spread in measure(snapshot):
        name, text = _UNITS[spread.name]
        rows = np.flatnonzero(spread.known)
        for row in rows:
            broker = (("broker", spread.brokers[row]),)
            yield Gauge(name, text, broker, float(spread.values[row]))
            if spread.name in ("usage", "throughput"):
                yield Gauge(
                    "broker_deviation_ratio",
                    "Deviation of a broker from the mean (ratio).",
                    (*broker, ("measure", spread.name)),
                    float(spread.deviations[row]),
                )
        if spread.max_deviation_ratio is not None:
            yield Gauge(
                "max_deviation_ratio",
                "Deviation of the busiest server from the mean (ratio).",
                (("measure", spread.name),),
                spread.max_deviation_ratio,
            )
