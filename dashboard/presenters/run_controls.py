"""What may be asked of a run, and why not."""

from __future__ import annotations

from datetime import datetime

from core.actions.describe import why_nothing_lasts
from core.actions.model import Control
from core.actions.views import RunView
from core.plan.describe import things
from dashboard.presenters.runs import ago


def about_to_begin(view: RunView, now: datetime) -> str:
    """Return how a run stands that is asked for while its worker is there and free."""
    steps = things(view.plan.steps)
    asked = f"asked for by {view.requested_by} {ago(view.requested_at, now)}"
    return f"Run {view.run_id} is about to begin: {steps} on {view.cluster}, {asked}."


def pending_words(view: RunView, now: datetime) -> str:
    """Return what has been asked of the run and not been followed yet; empty: nothing."""
    if view.control is None or not view.is_control_pending:
        return ""
    asked = view.control
    why = f" ({asked.reason})" if asked.reason else ""
    return (
        f"{asked.control.capitalize()} asked for by {asked.asked_by} {ago(asked.asked_at, now)}"
        f"{why}; it acts once the step under way is settled."
    )


def why_no_control(view: RunView, control: Control) -> str | None:
    """Return why a control cannot be asked for now, ``None`` when it can."""
    if view.is_ended:
        return f"The run is {view.state.lower()}."
    if view.is_control_pending and view.control is not None:
        if view.control.control == "stop":
            return "It is stopping already."
        if view.control.control == control:
            return f"{control.capitalize()} has been asked for already."
    if control == "pause" and view.state == "QUEUED":
        return "It has not begun: stop it instead."
    return None


def why_no_undo(view: RunView, undone_by: RunView | None) -> str | None:
    """Return why there is nothing to undo, ``None`` when there is.

    Args:
        view: The run.
        undone_by: The latest run that was to take it back, if any.
    """
    if not view.is_ended:
        return "The run has not ended: stop it first."
    done = [one.step for one in view.steps if one.step.has_taken_effect(one.executed)]
    if not done:
        return "Nothing of it was done: there is nothing to take back."
    if nothing := why_nothing_lasts(view):
        return nothing
    if all(step.why_irreversible for step in done):
        return done[0].why_irreversible
    if undone_by is not None and not undone_by.is_ended:
        return f"Run {undone_by.run_id} is taking it back already."
    return None
