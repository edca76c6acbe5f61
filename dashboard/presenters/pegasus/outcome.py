"""Effects of a run on the nodes of a Pegasus cluster: before, predicted, counted afterwards."""

from __future__ import annotations

import pandas as pd

from core.actions.views import RunView
from core.units import format_age, is_whole


def nodes_table(view: RunView) -> pd.DataFrame:
    """Return one row a node that the plan touches, or that was counted; ``None`` is unknown."""
    expected = {one.node: one for one in view.plan.expected.nodes}
    came = {one.node: one for one in view.measured.nodes} if view.measured else {}
    rows = []
    for node in sorted({*expected, *came}):
        plan, seen = expected.get(node), came.get(node)
        rows.append(
            {
                "node": node,
                "primaries_before": plan and plan.primaries_before,
                "primaries_expected": plan and plan.primaries_after,
                "primaries_came": seen and seen.primaries,
                "replicas_before": plan and plan.replicas_before,
                "replicas_expected": plan and plan.replicas_after,
                "replicas_came": seen and seen.replicas,
                "received_mb": plan and plan.received_mb,
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            "node",
            *(f"{what}_{when}" for what in ("primaries", "replicas") for when in _WHEN),
            "received_mb",
        ],
    )


_WHEN = ("before", "expected", "came")


def count_note(view: RunView) -> str:
    """Return the time of the measurement and overlapping runs; empty: no note."""
    if view.measured is None:
        return "Not measured yet." if view.is_ended else "Measured approx. 20 s after the end."
    other = view.measured.disturbed_by
    if other:
        return f"Run {other} overlaps; the result includes its effect."
    if view.ended_at is None:
        return ""
    late_s = max(0.0, (view.measured.taken_at - view.ended_at).total_seconds())
    return f"Measured {format_age(late_s)} after the end."


def subject_page(view: RunView, subject: str) -> tuple[str, dict[str, str]] | None:
    """Return the page of a step's subject, with its parameters; ``None`` if there is none.

    Args:
        subject: As the table of steps shows it.
    """
    for step in view.plan.steps:
        if step.subject != subject:
            continue
        app_id, dot, index = subject.partition(".")
        if dot and is_whole(app_id) and is_whole(index) and step.scopes:
            return "pegasus_tables", {"table": step.scopes[0], "partition": index}
        return "pegasus", {"node": subject} if step.owner == subject else {}
    return None
