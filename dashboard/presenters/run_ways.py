"""From where to where a step went: holders, or values of a setting."""

from __future__ import annotations

from core.actions.describe import EMPTY, describe_value
from core.actions.model import Observation
from core.actions.views import StepView
from core.pulsar.steps.base import policy_change_of
from dashboard.presenters.run_policies import value_told


def before_words(step: StepView) -> str:
    """Return who held it, or what it was, before the step; empty: unknown, or it has none."""
    if not step.step.has_before_and_after:
        return ""
    policy = policy_change_of(step.step)
    if policy is not None:
        return value_told(policy, step.before.value if step.before else policy.before)
    known = _held(step.before)
    return (_of_plan(step) if known is None else known) or ""


def _of_plan(step: StepView) -> str | None:
    """What the plan says that was there before."""
    change = step.step.setting
    if change is not None and not change.is_persistent:
        return EMPTY if change.before == "" else change.before
    return step.step.owner


def after_words(step: StepView) -> str:
    """Return who holds it, or what it is, after the step; empty: unknown, or it has none."""
    if not step.step.has_before_and_after:
        return ""
    seen = step.result.after if step.result else None
    policy = policy_change_of(step.step)
    if policy is not None:
        return value_told(policy, seen.value) if seen else ""
    return _held(seen) or ""


def _held(seen: Observation | None) -> str | None:
    if seen is None:
        return None
    return seen.holder or (EMPTY if seen.value == "" else describe_value(seen.value))
