"""A run that waits: for which step, for whom, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from core.actions.views import RunView, StepView


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a run waits for, to be read first.

    Attributes:
        title: For whom it waits, and at which step.
        text: What is lacking, and what to do.
        demo: The line that does it in the sandbox, without its options; empty: there is none.
    """

    title: str
    text: str
    demo: str


def waiting_step(view: RunView) -> StepView | None:
    """Return the step whose precondition is waited for, ``None``: none is."""
    if view.is_ended:
        return None
    return next((one for one in view.steps if is_waiting(one)), None)


def is_waiting(step: StepView) -> bool:
    """Return whether a step's turn has come and its precondition does not hold yet."""
    return bool(step.waiting) and step.state == "PENDING"


def is_for_people(step: StepView) -> bool:
    """Return whether a step ends only when somebody does something to a node."""
    return step.step.wait is not None and bool(step.step.wait.node_action)


def waiting_word(step: StepView) -> str:
    """Return the state of a step that waits, with its sign."""
    return "◔ waits for you" if is_for_people(step) else "◔ waits"


def has_waits_to_come(view: RunView) -> bool:
    """Return whether a step that is not settled lasts as long as a state takes to come."""
    return any(
        one.step.wait is not None and one.state in ("PENDING", "RUNNING") for one in view.steps
    )


def notice(view: RunView) -> Notice | None:
    """Return what the run waits for; ``None``: nothing."""
    found = waiting_step(view)
    if found is None or view.state == "PAUSED":
        return None
    asked, wait = found.step, found.step.wait
    is_ours = is_for_people(found)
    where = f"step {found.index + 1} of {len(view.steps)}"
    reason, demo = "", ""
    if is_ours and wait is not None:
        demo = f"trimtab sandbox-node {asked.subject} {wait.node_action}"
        reason = asked.reason if wait.needs_operator else ""
    return Notice(
        title=f"It waits for you: {where}" if is_ours else f"It waits: {where}",
        text=f"{found.waiting} {reason}".strip(),
        demo=demo,
    )
