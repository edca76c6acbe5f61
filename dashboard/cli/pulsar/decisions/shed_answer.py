"""The JSON of the commands on decisions: stable shapes that people script against."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Final

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import BrokerTrace, Gate, Round
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.what_if import TurningPoint

_TRACED_ROUNDS: Final = 10
"""Rounds whose gates are shown broker by broker; a thousand brokers make half a megabyte each."""


@dataclass(frozen=True)
class ShedAnswer:
    """Rounds with their durations, ms, the placement, and the conflict between the two."""

    strategy: AnyStrategy
    settings: EffectiveSettings
    rounds: tuple[Round, ...]
    elapsed_ms: tuple[float, ...]
    turning_points: tuple[TurningPoint, ...] = ()
    placement: str = ""
    warning: str = ""


def shed(answer: ShedAnswer, *, is_strategy_only: bool) -> dict[str, Any]:
    """Rounds as ``{broker: [bundle]}``; with the load manager also destinations and skipped."""
    body: dict[str, Any] = {
        "rounds": [done.bundles_by_broker() for done in answer.rounds],
        "elapsed_ms": [round(lasted, 3) for lasted in answer.elapsed_ms],
    }
    if not is_strategy_only:
        body["destinations"] = [
            {bundle: dict(found) for bundle, found in done.destinations.items()}
            for done in answer.rounds
        ]
        body["skipped"] = [dict(done.skipped) for done in answer.rounds]
        body["placement"] = answer.placement
    config = answer.strategy.config(answer.settings)
    body["explain"] = {
        "strategy": answer.strategy.name,
        "release": answer.settings.release,
        "config": _config(config),
        "rounds": [
            _explained(done, is_whole=number < _TRACED_ROUNDS)
            for number, done in enumerate(answer.rounds)
        ],
        "turning_points": [turning_point(point) for point in answer.turning_points],
    }
    return body


def _explained(done: Round, *, is_whole: bool) -> dict[str, Any]:
    decision = done.decision
    return {
        "label": decision.label,
        "reason": decision.reason,
        "sentence": decision.sentence,
        "notes": list(decision.notes),
        "planned": {m.bundle: m.destination for m in decision.moves if m.destination},
        "brokers": [_trace(trace) for trace in decision.trace] if is_whole else [],
    }


def _trace(trace: BrokerTrace) -> dict[str, Any]:
    return {
        "broker": trace.broker,
        "sheds": trace.sheds,
        "sentence": trace.sentence,
        "gates": [gate(item) for item in trace.gates],
    }


def gate(gate: Gate) -> dict[str, Any]:
    """One gate; ``null`` where there is no number."""
    return {
        "name": gate.name,
        "measured": _finite(gate.measured),
        "threshold": _finite(gate.threshold),
        "unit": gate.unit,
        "is_open": gate.is_open,
        "distance": _finite(gate.distance),
        "sentence": gate.sentence,
        "is_alternative": gate.is_alternative,
    }


def turning_point(point: TurningPoint) -> dict[str, Any]:
    """Return one turning point; ``broker`` or ``bundle`` names its subject."""
    fields = asdict(point)
    return {key: value for key, value in fields.items() if key not in ("broker", "bundle") or value}


def _finite(value: float) -> float | None:
    """Return a finite number or ``None``: JSON has no infinities; no threshold if switched off."""
    return float(value) if math.isfinite(value) else None


def _config(config: object) -> dict[str, Any]:
    if not is_dataclass(config) or isinstance(config, type):
        return {}
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return {
        key: _plain(value)
        for key, value in values.items()
        if not isinstance(value, EffectiveSettings)  # the whole catalogue is no part of a rule
    }


def _plain(value: object) -> object:
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value
