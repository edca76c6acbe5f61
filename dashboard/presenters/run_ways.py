"""From where to where a step went: holders, or values of a setting."""

from __future__ import annotations

from typing import Final

from core.actions.model import Observation
from core.actions.views import StepView
from core.actions.words import EMPTY, told_value
from core.plan.pegasus_steps import (
    AwaitState,
    CloseReplicas,
    ProposeMany,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.steps import SetPolicy
from dashboard.presenters.run_policies import value_told

_OF_A_NODE: Final = (AwaitState, CloseReplicas, ProposeMany)
"""Steps that act on a node, or wait for it: it is their subject, and nothing goes from or to it."""


def before_words(step: StepView) -> str:
    """Return who held it, or what it was, before the step; empty: unknown, or it has none."""
    if isinstance(step.step, _OF_A_NODE):
        return ""
    if isinstance(step.step, SetPolicy):
        return value_told(step.step, step.before.value if step.before else step.step.before)
    known = _held(step.before)
    return (_of_plan(step) if known is None else known) or ""


def _of_plan(step: StepView) -> str | None:
    """What the plan says that was there before."""
    if isinstance(step.step, SetMetaLevel | SetServerSetting):
        return EMPTY if step.step.before == "" else step.step.before
    return step.step.owner


def after_words(step: StepView) -> str:
    """Return who holds it, or what it is, after the step; empty: unknown, or it has none."""
    if isinstance(step.step, _OF_A_NODE):
        return ""
    seen = step.ending.after if step.ending else None
    if isinstance(step.step, SetPolicy):
        return value_told(step.step, seen.value) if seen else ""
    return _held(seen) or ""


def _held(seen: Observation | None) -> str | None:
    if seen is None:
        return None
    return seen.holder or (EMPTY if seen.value == "" else told_value(seen.value))
