"""The plan of the Rebalance page in one sentence, and what it costs."""

from __future__ import annotations

from typing import Final

import pandas as pd

from core.optimize import Proposal
from core.plan.model import Plan
from core.pulsar.plan.answer import balance_effect
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.plan.preview import Preview
from core.units import (
    UNKNOWN,
    format_bytes_per_s,
    format_deviation,
    format_msgs_per_s,
    pluralize,
)
from dashboard.presenters.pulsar import unload

_VISIBLE: Final = 0.005
"""A deviation that grows by less is written as the same."""


def caveat(preview: Preview) -> str:
    """Return that the plan raises the max deviation; empty: it does not."""
    start = preview.measures_before.throughput.max_deviation_ratio
    end = preview.measures_after.throughput.max_deviation_ratio
    is_known = all(step.placement.is_known for step in preview.steps)
    if not is_known or start is None or end is None or end - start < _VISIBLE:
        return ""
    now, after = format_deviation(start), format_deviation(end)
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
    return f"{moves}: {balance_effect(preview)}; {unload.destinations(plan, preview)}."
