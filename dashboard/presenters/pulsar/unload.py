"""Data of the unload preview: the answer, before and after, destinations and reasons."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.plan.model import Plan, is_lower_bound, lower_bound_note
from core.pulsar.placement import Placement
from core.pulsar.placement.filters import (
    ANTI_AFFINITY,
    ANTI_AFFINITY_FILTER,
    CLASS,
    ISOLATION_FILTER,
    MAX_SERVING,
    MAX_TOPICS,
    POLICIES,
    TOPIC_COUNT,
    VERSION,
)
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import Preview, StepPreview
from core.pulsar.steps.base import policy_changes
from core.units import by_name, format_ratio, listed, ranks_by_name
from dashboard.charts.bars import BeforeAfter
from dashboard.charts.scale import Unit
from dashboard.presenters.pulsar.bundles import rows_of
from dashboard.presenters.pulsar.policy_edits import plan_sentence as policies_sentence

QUANTITIES: Final[dict[str, tuple[str, Unit]]] = {
    "traffic": ("throughput_bytes_per_s", "bytes/s"),
    "usage": ("usage_ratio", "ratio"),
    "rate": ("msg_rate_msgs_per_s", "msgs/s"),
    "bundles": ("bundle_count", "bundles"),
    "clients": ("client_count", "count"),
}
"""Word in the URL to quantity of the preview's table and its unit."""

MAX_BARS: Final = 24
MAX_OFFERED: Final = 20
MAX_LISTED: Final = 200


def answer(plan: Plan, preview: Preview) -> str:
    """Return the effects and the cost of the plan, as one sentence."""
    if not preview.steps:
        is_policies = plan.steps and len(policy_changes(plan.steps)) == len(plan.steps)
        return policies_sentence(plan.steps) if is_policies else plan_sentence(preview)
    return f"{plan_sentence(preview).removesuffix('.')}; {destinations(plan, preview)}."


def headline(plan: Plan, preview: Preview) -> str:
    """Return :func:`answer` without the destinations, where the table of moves has them all."""
    steps = preview.steps
    has_all = bool(steps) and all(step.placement.distribution for step in steps)
    return plan_sentence(preview) if has_all else answer(plan, preview)


def destinations(plan: Plan, preview: Preview) -> str:
    """Return the requested or possible destinations; there must be a step."""
    steps = preview.steps
    is_known = all(step.placement.is_known for step in steps)
    return _requested(steps) or (_takers(plan, steps) if is_known else "destinations unknown")


def _requested(steps: tuple[StepPreview, ...]) -> str:
    """Return the requested destinations as text; empty if the cluster places one of the bundles."""
    destinations_named = [step.step.destination for step in steps if step.step.destination]
    if len(destinations_named) < len(steps):
        return ""
    names = by_name(set(destinations_named))
    return f"requested destination: {listed(names, 3)}"


def _takers(plan: Plan, steps: tuple[StepPreview, ...]) -> str:
    if len(steps) == 1:
        chances = steps[0].placement.distribution
        if not chances:
            return "no eligible broker"
        if len(chances) == 1:
            return f"destination: {next(iter(chances))}"
        best = max(chances.values())
        return f"possible destinations: {len(chances)}, max probability {format_ratio(best)}"
    destinations = by_name({broker for step in steps for broker in step.placement.distribution})
    if not destinations:
        return "no eligible broker"
    if len(destinations) == 1:
        return f"destination: {destinations[0]}"
    return f"possible destinations: {listed(destinations, 3)} (placed by {plan.strategy.name})"


def before_after(preview: Preview, quantity: str) -> BeforeAfter:
    """Return the chart's numbers: touched brokers first, then the extremes, at most 24.

    The mean is that of the headline: over the brokers that are compared after the plan.

    Args:
        preview: Of a plan.
        quantity: Key of :data:`QUANTITIES`.
    """
    compared = pa.array(~preview.measures_after.throughput.is_set_aside)
    table = preview.before_after.filter(compared)
    name, unit = QUANTITIES[quantity]
    columns = {
        moment: np.array(table[f"{name}_{moment}"].cast(pa.float64()), dtype=np.float64)
        for moment in ("before", "after", "low", "high")
    }
    touched = np.asarray(table["is_touched"], dtype=bool)
    order = np.lexsort((-np.nan_to_num(columns["before"]), ~touched))[:MAX_BARS]
    order = order[np.argsort(-np.nan_to_num(columns["before"][order]), kind="stable")]
    known = columns["after"][np.isfinite(columns["after"])]
    names = table["broker"].to_pylist()
    return BeforeAfter(
        brokers=[names[row] for row in order.tolist()],
        before=columns["before"][order],
        after=columns["after"][order],
        low=columns["low"][order],
        high=columns["high"][order],
        mean_after=float(known.mean()) if known.size else float("nan"),
        tolerance_ratio=preview.measures_before.target.bound,
        unit=unit,
        is_lower_bound=[
            quantity == "usage" and is_lower_bound(*pair)
            for pair in zip(columns["before"][order], columns["after"][order], strict=True)
        ],
    )


def usage_note(preview: Preview) -> str:
    """Return the note about brokers whose predicted usage is a lower bound; empty: none."""
    rows = preview.before_after.to_pylist()
    return lower_bound_note(
        [
            row["broker"]
            for row in rows
            if is_lower_bound(row["usage_ratio_before"], row["usage_ratio_after"])
        ]
    )


def steps_table(preview: Preview) -> pd.DataFrame:
    """Return one row a step: bundle, from, to, chance, clients."""
    return pd.DataFrame(
        [
            {
                "bundle": step.step.bundle,
                "from": step.step.owner,
                "to": step.step.destination or _destination(step.placement),
                "candidates": len(step.placement.distribution),
                "traffic": _megabytes(step.clients.throughput_bytes_per_s),
                "clients": step.clients.clients,
                "topics": step.clients.topics,
            }
            for step in preview.steps
        ]
    )


def hottest_table(bundles: pa.Table) -> pd.DataFrame:
    """Return the owned bundles with most traffic, at most :data:`MAX_OFFERED`, hottest first.

    Args:
        bundles: Those that can move, with ``throughput``.
    """
    owned = bundles.filter(pc.is_valid(bundles["owner"]))
    size = min(MAX_OFFERED, owned.num_rows)
    picks = pc.select_k_unstable(owned, size, [("throughput", "descending")])
    rows = rows_of(owned.take(picks))
    rows["clients"] = rows["producers"] + rows["consumers"]
    rows["action"] = "Choose"
    return rows


def _megabytes(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e6


def _destination(placement: Placement) -> str:
    if not placement.distribution:
        return "no eligible broker" if placement.is_known else "unknown"
    ranked = sorted(placement.distribution.items(), key=lambda item: -item[1])
    broker, chance = ranked[0]
    rest = "" if len(ranked) == 1 else f" or {len(ranked) - 1} others"
    return f"{broker} ({format_ratio(chance)}){rest}"


def ranked_distribution(placement: Placement, limit: int = 12) -> tuple[list[str], list[float]]:
    """Return the most probable destinations and their probabilities."""
    ranked = sorted(placement.distribution.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return [name for name, _ in ranked], [chance for _, chance in ranked]


def ruled_out_table(placement: Placement) -> pd.DataFrame:
    """Return every broker that does not get it, and why; :func:`ruled_out_note` has the rules."""
    rows = []
    names = tuple(placement.ruled_out)
    for _, broker in sorted(zip(ranks_by_name(names), names, strict=True))[:MAX_LISTED]:
        reason = placement.ruled_out[broker]
        rows.append(
            {
                "broker": broker,
                "why": reason.partition(": ")[2] or reason,
                "score": placement.scores.get(broker),
            }
        )
    return pd.DataFrame(rows, columns=["broker", "why", "score"])


_RULES: Final = {
    POLICIES: "isolation policies",
    ISOLATION_FILTER: "isolation policies",
    ANTI_AFFINITY: "anti-affinity",
    ANTI_AFFINITY_FILTER: "anti-affinity",
    TOPIC_COUNT: "their number of topics",
    MAX_TOPICS: "their number of topics",
    MAX_SERVING: "their bundles of the namespace",
    CLASS: "their load manager class",
    VERSION: "their version",
}
"""Upstream name of a filter to what it goes by."""


def ruled_out_note(placement: Placement) -> str:
    """Return the number of excluded brokers by rule."""
    rules: dict[str, int] = {}
    for reason in placement.ruled_out.values():
        rule = reason.partition(": ")[0]
        rules[rule] = rules.get(rule, 0) + 1
    parts = ", ".join(
        f"{number:,} by {_RULES[rule]} ({rule})" if rule in _RULES else f"{number:,} by {rule}"
        for rule, number in rules.items()
    )
    more = len(placement.ruled_out) - MAX_LISTED
    return (
        (parts or "No brokers excluded") + (f"; first {MAX_LISTED} shown" if more > 0 else "") + "."
    )
