"""The ways to balance side by side: what each achieves and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from core.pegasus.balance.node_order import LikelyPlan
from core.pegasus.balance.score import count_spread
from core.pegasus.even.planner import EvenPlan, deviation
from core.pegasus.even.weights import node_loads
from core.pegasus.view import ClusterView
from core.units import counted
from dashboard.presenters.pegasus_balance import KIND_WORDS, time_words, total_cost
from dashboard.rebalancing_pegasus import Ground, Measure, Settled


@dataclass(frozen=True, kw_only=True)
class Line:
    """What one way achieves; ``None``: not known yet, or not to be said of it.

    Attributes:
        name: Of the way.
        mark: ``in force`` where the cluster goes by it.
        next_changes: Changes of its next round, or of all for the planner.
        changes: Changes until it is done.
        rounds: Rounds until it is done.
        copies: Replicas copied.
        copy_mb: Megabytes of them.
        least: What no plan that reaches the goal undercuts.
        takes: How long the copies take.
        primary_stddev: Of primaries at the end.
        replica_stddev: Of replicas at the end.
        off: How far the farthest node is from the mean of the chosen measure at the end, 0..1.
        note: What else is to be said.
    """

    name: str
    mark: str = ""
    next_changes: int | None = None
    changes: int | None = None
    rounds: int | None = None
    copies: int | None = None
    copy_mb: float | None = None
    least: str = ""
    takes: str = ""
    primary_stddev: float | None = None
    replica_stddev: float | None = None
    off: float | None = None
    note: str = ""


def off_mean(view: ClusterView, ground: Ground, measure: Measure) -> float | None:
    """Return how far the farthest node is from the mean, 0..1; ``None``: nothing is known."""
    weights = ground.weights(measure, view)
    return deviation(node_loads(view, weights)) if weights.is_known.any() else None


def as_it_is(ground: Ground, measure: Measure) -> Line:
    """Return the line of doing nothing."""
    spread = count_spread(ground.view)
    return Line(
        name="as it is",
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(ground.view, ground, measure),
    )


def policy_line(
    line: Line, ground: Ground, run: Settled | None, *, measure: Measure, rate: float
) -> Line:
    """Return the line of a policy, filled with what its rounds achieve.

    Args:
        line: Name, mark, next changes, and what to say while its end is not known.
        ground: The snapshot.
        run: Its rounds; ``None``: not known yet.
        measure: What the ways are compared by.
        rate: MB/s a disk.
    """
    if run is None:
        return line
    cost = total_cost(run.costs, len(run.before.nodes))
    spread = run.spreads[-1] if run.spreads else count_spread(run.after)
    return replace(
        line,
        changes=len(run.plans),
        rounds=len(run.rounds),
        copies=cost.copy_count,
        copy_mb=cost.copy_mb,
        takes=time_words(cost, ground, rate),
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(run.after, ground, measure),
        note="" if run.is_settled else "never settles (PB-6)",
    )


def even_line(
    line: Line, ground: Ground, plan: EvenPlan | None, *, measure: Measure, rate: float
) -> Line:
    """Return the line of our own planner, filled with what it found."""
    if plan is None:
        return replace(line, note="being sought")
    spread = count_spread(plan.end)
    return replace(
        line,
        next_changes=len(plan.steps),
        changes=len(plan.steps),
        rounds=1 if plan.steps else 0,
        copies=plan.cost.copy_count,
        copy_mb=plan.cost.copy_mb,
        least=counted(plan.bound.step_count, "change"),
        takes=time_words(plan.cost, ground, rate),
        primary_stddev=spread.primary_stddev,
        replica_stddev=spread.replica_stddev,
        off=off_mean(plan.end, ground, measure),
        note=verdict_words(plan),
    )


def verdict_words(plan: EvenPlan) -> str:
    """Return what came of the search."""
    said = {
        "nothing_to_do": "within the goal already",
        "reached": "reaches the goal",
        "best_effort": "as near as it goes",
        "unknown": "nothing is known of this measure",
    }[plan.verdict]
    return f"{said}; {plan.unknown_count:,} unknown" if plan.unknown_count else said


def lines_frame(lines: Sequence[Line]) -> pd.DataFrame:
    """Return one row a way."""
    return pd.DataFrame(
        {
            "way": [one.name for one in lines],
            "mark": [one.mark for one in lines],
            "next": _column(one.next_changes for one in lines),
            "changes": _column(one.changes for one in lines),
            "rounds": _column(one.rounds for one in lines),
            "copies": _column(one.copies for one in lines),
            "copy_mb": _column(one.copy_mb for one in lines),
            "takes": [one.takes for one in lines],
            "least": [one.least for one in lines],
            "off": _column(None if one.off is None else one.off * 100 for one in lines),
            "primary_stddev": _column(one.primary_stddev for one in lines),
            "replica_stddev": _column(one.replica_stddev for one in lines),
            "note": [one.note for one in lines],
        }
    )


def _column(values: Iterable[float | None]) -> pd.Series[float]:
    return pd.Series(list(values), dtype="float64")


def ties_frame(plans: Sequence[LikelyPlan]) -> pd.DataFrame:
    """Return the changes that depend on the node order, the likeliest first."""
    tied = sorted((one for one in plans if one.share < 1), key=lambda one: -one.share)
    return pd.DataFrame(
        {
            "partition": [one.gpid for one in tied],
            "change": [KIND_WORDS[one.kind] for one in tied],
            "source": [one.source for one in tied],
            "target": [one.target for one in tied],
            "share_pct": [one.share * 100 for one in tied],
        }
    )
