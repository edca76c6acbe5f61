"""The plan of the Rebalance page in one sentence, by the measure of the table above it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from core.findings.measures import Spread
from core.optimize import Proposal
from core.plan.model import Plan
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.plan.preview import Preview
from core.units import (
    UNKNOWN,
    format_bytes_per_s,
    format_deviation,
    format_msgs_per_s,
    format_ratio,
    pluralize,
)
from dashboard.presenters.pulsar import unload

MAX_DEVIATION: Final = "max deviation from mean traffic"
"""The one measure of the page: the max deviation of a broker from the mean, above or below."""

_VISIBLE: Final = 0.005
"""A deviation that grows by less is written as the same."""


def worst_deviation(spread: Spread) -> tuple[float, str] | None:
    """Return the max deviation from the mean, share of it, and its broker.

    ``None``: no broker is known, or there is no load.
    """
    if not spread.known_count or not spread.mean:
        return None
    distance = np.abs(np.where(spread.known, spread.values, spread.mean) - spread.mean)
    row = int(distance.argmax())
    return float(distance[row] / spread.mean), spread.brokers[row]


def worst_words(spread: Spread) -> str:
    """Return the max deviation from the mean with its sign: ``+126%``, ``unknown`` without any."""
    worst = worst_deviation(spread)
    if worst is None:
        return UNKNOWN
    value, mean = spread.value_of(worst[1]), spread.mean
    is_below = value is not None and mean is not None and value < mean
    return format_deviation(-worst[0] if is_below else worst[0])


def caveat(preview: Preview) -> str:
    """Return that the plan raises the max deviation; empty: it does not."""
    start = worst_deviation(preview.measures_before.throughput)
    end = worst_deviation(preview.measures_after.throughput)
    is_known = all(step.placement.is_known for step in preview.steps)
    if not is_known or start is None or end is None or end[0] - start[0] < _VISIBLE:
        return ""
    now, after = (
        worst_words(measures.throughput)
        for measures in (preview.measures_before, preview.measures_after)
    )
    return f"The max deviation increases: {now} now, {after} after."


def cost_figures(impact: ClientImpact, optimal: Proposal | None) -> list[tuple[str, str]]:
    """Return the cost of the moves, label and value.

    Args:
        impact: Of all moves.
        optimal: The optimal plan, where the moves are its own.
    """
    found = [
        ("Clients", _count(impact.clients)),
        ("Producers", _count(impact.producers)),
        ("Consumers", _count(impact.consumers)),
        ("Topics reopened", _count(impact.topics)),
        ("Messages", format_msgs_per_s(impact.msg_rate_msgs_per_s)),
        ("Traffic", format_bytes_per_s(impact.throughput_bytes_per_s)),
    ]
    if optimal is not None and optimal.lower_bound_bytes_per_s:
        found.append(("Lower bound", format_bytes_per_s(optimal.lower_bound_bytes_per_s)))
    return found


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def transfers(preview: Preview) -> pd.DataFrame:
    """Return the flows from broker to most probable destination, most traffic first."""
    rows = pd.DataFrame(
        [
            {
                "from": step.step.owner,
                "to": step.step.destination or next(iter(step.step.likely), "unknown"),
                "bundles": 1,
                "traffic": _megabytes(step.clients.throughput_bytes_per_s),
                "clients": step.clients.clients,
                "topics": step.clients.topics,
            }
            for step in preview.steps
        ]
    )
    sums = rows.groupby(["from", "to"], as_index=False, dropna=False).sum(min_count=1)
    return sums.sort_values("traffic", ascending=False, na_position="last", ignore_index=True)


def _megabytes(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e6


def cost(impact: ClientImpact) -> str:
    """Return traffic and clients of some moves."""
    who = "unknown clients" if impact.clients is None else pluralize(impact.clients, "client")
    return f"{format_bytes_per_s(impact.throughput_bytes_per_s)}, {who}"


def answer(plan: Plan, preview: Preview) -> str:
    """Return the effect and the cost of a plan."""
    steps = preview.steps
    if not steps:
        return unload.answer(plan, preview)
    moves = f"Unload {pluralize(len(steps), 'bundle')} ({cost(preview.clients)})"
    return f"{moves}: {_effect(preview)}; {unload.destinations(plan, preview)}."


def _effect(preview: Preview) -> str:
    before = worst_deviation(preview.measures_before.throughput)
    after = worst_deviation(preview.measures_after.throughput)
    if (
        before is None
        or after is None
        or not all(step.placement.is_known for step in preview.steps)
    ):
        return "effect on the balance unknown"
    if abs(after[0] - before[0]) < 0.0005:
        return f"{MAX_DEVIATION} unchanged, {format_ratio(after[0])} ({after[1]})"
    (old, first), (new, then) = before, after
    is_same = first == then
    return (
        f"{MAX_DEVIATION} {format_ratio(old)}{'' if is_same else f' ({first})'} → "
        f"{format_ratio(new)} ({then})"
    )
