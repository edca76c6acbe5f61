"""Steps that set policies in words: field by field, as the forms name them."""

from __future__ import annotations

from dataclasses import replace

from core.actions.model import Observation
from core.actions.views import StepView
from core.pulsar.policy_kinds import PolicyChange
from core.pulsar.steps.policy import NOT_THERE
from dashboard.presenters.policy_edits import difference, fields_told, says_nothing


def value_told(change: PolicyChange, value: str | None) -> str:
    """Return a value of a policy, its telling fields; ``not set``: it has none."""
    return NOT_THERE if value is None else fields_told(change.policy, value)


def asked_told(change: PolicyChange) -> str:
    """Return what a step asks for: ``Msg/s, each topic: 5,000``, or that it be removed."""
    return (
        "Remove it" if change.value is None else f"Set {fields_told(change.policy, change.value)}"
    )


def changed_told(view: StepView, change: PolicyChange) -> str:
    """Return what a step changed, as it was read before and after; empty: nothing was read."""
    result = view.result
    if result is None or result.after is None or result.state != "DONE":
        return ""
    seen = replace(change, before=_value(view.before, change.before), value=result.after.value)
    rows = difference((seen,)).to_dict("records")
    told = "; ".join(
        f"{row['field'].partition(' (')[0]} {row['now']} → {row['then']}"
        for row in rows
        if not says_nothing(row)
    )
    return f"Read back: {told}." if told else ""


def _value(seen: Observation | None, planned: str | None) -> str | None:
    return planned if seen is None else seen.value
