"""Texts of a fleet with more or fewer brokers: what is assumed, and its initial balance."""

from __future__ import annotations

from core.simulation import RoundResult
from core.units import format_bytes_per_s, format_ratio, listed, pluralize
from dashboard.app_pages.pulsar.rebalance.fleets import FleetChange, FleetScenario
from dashboard.presenters.pulsar.rebalance_plan import MAX_DEVIATION, worst_deviation

_NAMED = 3


def supposition(fleet: FleetChange) -> str:
    """Return the changes of a scenario: ``new brokers: 2 · failed brokers: 10.1.0.3:8080``."""
    parts = []
    if fleet.joining:
        parts.append(f"new brokers: {fleet.joining}")
    if fleet.failing:
        names = listed(list(fleet.failing), _NAMED)
        parts.append(f"failed brokers: {names}")
    if fleet.domains:
        names = listed(list(fleet.domains), _NAMED)
        parts.append(f"failed domains: {names}")
    return " · ".join(parts)


def beginning(origin: FleetScenario) -> str:
    """Return the balance of the changed fleet before shedding."""
    before, after = worst_deviation(origin.before), worst_deviation(origin.measures.throughput)
    reached = (
        "Balance unknown."
        if before is None or after is None
        else f"Before shedding: {MAX_DEVIATION} {format_ratio(after[0])} ({after[1]}; now "
        f"{format_ratio(before[0])})."
    )
    return f"{_placed(origin.change)} {reached}"


def _placed(change: RoundResult) -> str:
    if not change.moves:
        return "Reassigned bundles: 0."
    nowhere = sum(move.destination is None for move in change.moves)
    lost = f" Without an eligible broker: {nowhere}." if nowhere else ""
    return (
        f"Reassigned bundles: {len(change.moves)} "
        f"({format_bytes_per_s(change.moved_bytes_per_s)}, {pluralize(change.clients, 'client')})."
        f"{lost}"
    )
