"""Texts of a fleet with more or fewer brokers: what is assumed, and its initial balance."""

from __future__ import annotations

from core.simulation import RoundResult
from core.units import format_bytes_per_s, format_ratio, pluralize
from dashboard.app_pages.pulsar.rebalance.fleets import Fleet, Scenario
from dashboard.presenters.naming import listed
from dashboard.presenters.pulsar.rebalance_plan import MAX_DEVIATION, worst_deviation

_NAMED = 3


def supposition(fleet: Fleet) -> str:
    """Return what is supposed, for example ``2 brokers join and 10.1.0.3:8080 fails``."""
    parts = []
    if fleet.joining:
        parts.append(f"{pluralize(fleet.joining, 'broker')} {_verb('join', fleet.joining)}")
    if fleet.failing:
        names = listed(list(fleet.failing), _NAMED)
        parts.append(f"{names} {_verb('fail', len(fleet.failing))}")
    if fleet.domains:
        word = "domain" if len(fleet.domains) == 1 else "domains"
        names = listed(list(fleet.domains), _NAMED)
        parts.append(f"failure {word} {names} {_verb('fail', len(fleet.domains))}")
    return " and ".join(parts)


def _verb(verb: str, number: int) -> str:
    return f"{verb}s" if number == 1 else verb


def beginning(origin: Scenario) -> str:
    """Return how the changed fleet stands before anything is shed."""
    before, after = worst_deviation(origin.before), worst_deviation(origin.after)
    reached = (
        "The balance is unknown."
        if before is None or after is None
        else f"The {MAX_DEVIATION} is then {format_ratio(after[0])} ({after[1]}; now "
        f"{format_ratio(before[0])}), before anything is shed."
    )
    return f"{_placed(origin.change)} {reached}"


def _placed(change: RoundResult) -> str:
    if not change.moves:
        return "No bundle has to be placed again."
    nowhere = sum(move.destination is None for move in change.moves)
    lost = f", {pluralize(nowhere, 'bundle')} of them nowhere" if nowhere else ""
    return (
        f"{pluralize(len(change.moves), 'bundle')} "
        f"({format_bytes_per_s(change.moved_bytes_per_s)}, {pluralize(change.clients, 'client')}) "
        f"are placed again{lost}."
    )
