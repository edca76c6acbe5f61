"""Steps of a run that go by earlier ones, and how a wait that was in vain ends."""

from __future__ import annotations

from core.actions.model import Observation, StepResult
from core.actions.views import RunView
from core.step import Step, Wait
from core.units import format_age


def as_executed(view: RunView, index: int) -> Step:
    """Return a step as it is executed, with the observations of earlier steps.

    Args:
        index: Place of the step in the plan, from 0.
    """
    earlier = ((one.step, one.executed) for one in reversed(view.steps[:index]))
    return view.steps[index].step.resolve(earlier)


def not_reached(wait: Wait, lacking: str, seen: Observation, hint: str = "") -> StepResult:
    """Return the result of a wait that timed out.

    Args:
        wait: What it waited for.
        lacking: What was still lacking, a sentence.
        seen: The last look.
        hint: What to do; empty: the usual.
    """
    limit = "" if wait.within_s is None else f" ({format_age(wait.within_s)})"
    return StepResult(
        state="FAILED",
        code="not_reached",
        sentence=f"Timed out waiting until {wait.description}{limit}: {lacking}",
        hint=hint or "Find the cause of the delay, then plan the remaining steps again.",
        after=seen,
    )


def gone_on(wait: Wait, lacking: str, seen: Observation, hint: str = "") -> StepResult:
    """Return the result of a timed-out wait after which the run continues.

    Args:
        wait: What it waited for.
        lacking: What was still lacking, a sentence.
        seen: The last look.
        hint: What to do; empty: nothing.
    """
    limit = "" if wait.within_s is None else f" within {format_age(wait.within_s)}"
    return StepResult(
        state="DONE",
        code="gone_on",
        sentence=f"Not reached{limit}: {wait.description}. {lacking} The run continues without it.",
        hint=hint,
        after=seen,
    )
