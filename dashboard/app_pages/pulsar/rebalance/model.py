"""Texts of a fleet with more or fewer brokers: what is assumed, and its initial balance."""

from __future__ import annotations

from core.simulation import RoundResult
from core.units import format_bytes_per_s, format_deviation, listed, pluralize
from dashboard.app_pages.pulsar.rebalance.fleets import FleetChange, FleetScenario

_NAMED = 3


def scenario_label(*, joining: int, failing: int, domains: int) -> str:
    """Return the label of the scenario's button: ``Scenario: +2 brokers, 1 failing domain``."""
    parts = [
        f"+{pluralize(joining, 'broker')}" if joining else "",
        pluralize(failing, "failing broker") if failing else "",
        pluralize(domains, "failing domain") if domains else "",
    ]
    return f"Scenario: {', '.join(filter(None, parts)) or 'none'}"


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
    before, after = origin.before, origin.measures.throughput
    old, new = before.max_deviation_ratio, after.max_deviation_ratio
    reached = (
        "Balance unknown."
        if old is None or new is None
        else f"Before shedding: max traffic deviation {format_deviation(new)} "
        f"({after.worst}; now {format_deviation(old)})."
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
