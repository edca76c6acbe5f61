"""The plan that balances a cluster by one measure with few moves."""

from __future__ import annotations

from core.errors import PlanError
from core.pegasus.even.measures import WeightedSnapshot
from core.pegasus.even.planner import EvenGoal, EvenPlan, even_out
from core.pegasus.even.request import EvenRequest
from core.pegasus.plan.build import balance_plan
from core.pegasus.snapshot import PegasusFacts
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot


def even_search(
    snapshot: PegasusSnapshot, request: EvenRequest
) -> tuple[WeightedSnapshot, EvenPlan]:
    """Return the weighted cluster, and the moves that balance it."""
    measured = WeightedSnapshot.of(PegasusFacts(snapshot))
    goal = EvenGoal(
        within=request.goal_ratio(measured.facts.target_ratio),
        max_steps=request.max_moves,
        may_copy=request.copy,
        sizes_mb=measured.sizes_mb(),
        room_mb=measured.room_mb(),
        suspected=measured.facts.columns.nodes_with("not answering"),
        keeps_all=request.all_moves,
        set_aside=measured.facts.columns.set_aside,
    )
    return measured, even_out(measured.view, measured.weights(request.measure), goal)


def even_plan(
    snapshot: PegasusSnapshot,
    request: EvenRequest,
    measured: WeightedSnapshot,
    found: EvenPlan,
    options: PlanOptions,
) -> Plan | Diagnostic:
    """Return the plan of the moves that were found, or the reason why there is nothing to do.

    Raises:
        PlanError: The cluster's total is 0 or unknown.
    """
    if found.verdict == "unknown":
        raise PlanError(
            f"The cluster's total by {request.measure} is 0 or unknown; no move can be planned.",
            hint="Choose another measure; see `trimtab pegasus tables`.",
        )
    if not found.steps:
        return Diagnostic(
            severity="info",
            code="nothing_to_do",
            sentence=f"Nothing to do: no move reduces the deviation by {request.measure}.",
            hint="Choose another measure, or a smaller --within.",
        )
    return balance_plan(snapshot, measured.view, found.steps, options)
