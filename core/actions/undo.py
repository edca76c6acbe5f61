"""Whether a run can be undone at all; the plan that does is made by its system."""

from __future__ import annotations

from core.actions.views import RunView
from core.errors import PlanConflictError


def check_undo(view: RunView, cluster: str) -> None:
    """Check that a run can be undone on a cluster.

    Args:
        view: The run.
        cluster: Trimtab's name of the cluster that the fresh snapshot is of.
    Raises:
        PlanConflictError: The run has not ended, or is of another cluster.
    """
    if cluster != view.cluster:
        raise PlanConflictError(
            f"Run {view.run_id} was on {view.cluster}; the snapshot is of {cluster}.",
            hint=f"Take a snapshot of {view.cluster}.",
        )
    if not view.is_ended:
        raise PlanConflictError(
            f"Run {view.run_id} is {view.state}: it cannot be undone before it has ended.",
            hint="Stop it first.",
        )


def reason_of_undo(view: RunView) -> str:
    """Return the reason that a plan has by default when it undoes a run."""
    return f"Undoes run {view.run_id}: {view.reason}"
