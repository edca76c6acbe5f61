"""The JSON of gates and turning points: of shedding rounds and of explanations."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from core.pulsar.shedding import BrokerTrace, Gate
from core.pulsar.shedding.what_if import TurningPoint


def trace(found: BrokerTrace) -> dict[str, Any]:
    """Return the verdict on one broker, or on the cluster, with its gates."""
    return {
        "broker": found.broker,
        "sheds": found.sheds,
        "sentence": found.sentence,
        "gates": [gate(item) for item in found.gates],
    }


def gate(gate: Gate) -> dict[str, Any]:
    """One gate; ``null`` where there is no number."""
    return {
        "name": gate.name,
        "measured": finite(gate.measured),
        "threshold": finite(gate.threshold),
        "unit": gate.unit,
        "is_open": gate.is_open,
        "distance": finite(gate.distance),
        "sentence": gate.sentence,
        "is_alternative": gate.is_alternative,
    }


def turning_point(point: TurningPoint) -> dict[str, Any]:
    """Return one turning point; ``broker`` or ``bundle`` names its subject."""
    fields = asdict(point)
    return {key: value for key, value in fields.items() if key not in ("broker", "bundle") or value}


def finite(value: float) -> float | None:
    """Return a finite number or ``None``: JSON has no infinities; no threshold if switched off."""
    return float(value) if math.isfinite(value) else None
