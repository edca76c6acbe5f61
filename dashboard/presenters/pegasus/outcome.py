"""What a run did to the nodes of a Pegasus cluster: before, as expected, as counted afterwards."""

from __future__ import annotations

import pandas as pd

from core.actions.views import RunView
from core.units import format_age, format_mb, pluralize


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


def nodes_sentence(view: RunView) -> str:
    """Return what is compared, and when it was counted."""
    expected = view.plan.expected
    copied = (
        "How much is copied is unknown."
        if expected.copied_mb is None
        else f"{format_mb(expected.copied_mb)} was to be copied."
        if expected.copied_mb
        else "Nothing was to be copied."
    )
    if view.measured is None:
        when = "not counted yet" if view.is_ended else "counted some 20 s after the end"
        return f"{pluralize(len(expected.nodes), 'node')} planned, {when}. {copied}"
    after = view.measured.taken_at
    late = "" if view.ended_at is None else _late((after - view.ended_at).total_seconds())
    other = view.measured.disturbed_by
    shared = f" Run {other} had begun by then: not all of it is this run's doing." if other else ""
    return f"Counted{late}. {copied}{shared}"


def _late(seconds: float) -> str:
    return f" {format_age(max(0.0, seconds))} after the end"


def subject_page(view: RunView, subject: str) -> tuple[str, dict[str, str]] | None:
    """Return the page that shows what a step acts on, with its parameters; ``None``: there is none.

    Args:
        view: The run.
        subject: As the table of steps shows it.
    """
    for step in view.plan.steps:
        if step.subject != subject:
            continue
        app_id, dot, index = subject.partition(".")
        if dot and app_id.isdecimal() and index.isdecimal() and step.scopes:
            return "pegasus_tables", {"table": step.scopes[0], "partition": index}
        return "pegasus", {"node": subject} if step.owner == subject else {}
    return None
