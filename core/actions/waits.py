"""Waits of a plan: what an earlier step noted for them, and how one that was in vain ends."""

from __future__ import annotations

from msgspec import structs

from core.actions.model import Ending, Observation
from core.actions.views import RunView
from core.plan.pegasus_steps import AwaitState
from core.plan.pegasus_words import awaited
from core.plan.steps import Step
from core.units import format_age


def with_start(view: RunView, index: int) -> Step:
    """Return a step of a run as it is carried out.

    A wait for a restart goes by the start of the process that the wait for ``running`` before it
    saw, as the journal has it. So a restart that is older than the node's turn does not count, and
    a worker that takes the run over goes by the same one.

    Args:
        view: The run.
        index: Place of the step in the plan, from 0.
    """
    step = view.steps[index].step
    if not isinstance(step, AwaitState) or step.state != "restarted":
        return step
    for earlier in reversed(view.steps[:index]):
        noted = earlier.step
        if isinstance(noted, AwaitState) and (noted.state, noted.node) == ("running", step.node):
            seen = earlier.before if earlier.state == "DONE" else None
            return structs.replace(step, started_at=None if seen is None else seen.value)
    return step


def not_reached(step: AwaitState, lacking: str, seen: Observation, hint: str = "") -> Ending:
    """Return how a wait ends whose time is up.

    Args:
        step: The wait.
        lacking: What was still lacking, a sentence.
        seen: The last look.
        hint: What to do; empty: the usual.
    """
    limit = "" if step.within_s is None else f", for {format_age(step.within_s)}"
    return Ending(
        state="FAILED",
        code="not_reached",
        sentence=f"It was awaited that {awaited(step)}{limit}, in vain: {lacking}",
        hint=hint or "Look why it takes so long, then plan the rest anew.",
        after=seen,
    )
