"""The JSON objects of the commands on Pulsar clusters: stable shapes that people script against."""

from __future__ import annotations

from typing import Any

from core.findings.measures import Spread
from core.pulsar.measures import Measures


def measures(found: Measures) -> dict[str, Any]:
    """The four spreads by name; ``null`` is unknown."""
    return {spread.name: _spread(spread) for spread in found}


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "unit": spread.unit,
        "mean": spread.mean,
        "std": spread.std,
        "max": spread.maximum,
        "min": spread.minimum,
        "max_deviation_ratio": spread.max_deviation_ratio,
        "coefficient_ratio": spread.coefficient_ratio,
        "worst": spread.worst,
        "known_brokers": spread.known_count,
        "brokers": len(spread.brokers),
    }
