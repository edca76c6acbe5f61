"""Waiting steps of a run, and steps skipped for one reason.

No pandas here: the command line prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.actions.describe import describe_purpose
from core.actions.views import RunView, StepView
from core.systems import purpose_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Action that a run needs from a person, shown first.

    Attributes:
        title: At which step.
        text: What is lacking, and what to do.
        demo: The line that does it in the sandbox, without its options.
    """

    title: str
    text: str
    demo: str


def waiting_step(view: RunView) -> StepView | None:
    """Return the step with a pending precondition; ``None`` if there is none."""
    if view.is_ended:
        return None
    return next((step for step in view.steps if is_waiting(step)), None)


def is_waiting(step: StepView) -> bool:
    """Return whether a step's turn has come and its precondition does not hold yet."""
    return bool(step.waiting) and step.state == "PENDING"


def is_for_people(step: StepView) -> bool:
    """Return whether a step ends only when a person does something to a node."""
    return step.step.wait is not None and bool(step.step.wait.node_action)


def waiting_word(step: StepView) -> str:
    """Return the state of a step that waits, with its sign."""
    return "◔ action required" if is_for_people(step) else "◔ waiting"


def has_waits_to_come(view: RunView) -> bool:
    """Return whether a step that is not settled lasts as long as a state takes to come."""
    return any(
        step.step.wait is not None and step.state in ("PENDING", "RUNNING") for step in view.steps
    )


def notice(view: RunView) -> Notice | None:
    """Return the action that the run needs from a person; ``None`` if it needs none.

    What it waits for the cluster to do is in its sentence.
    """
    found = waiting_step(view)
    if found is None or view.state == "PAUSED" or not is_for_people(found):
        return None
    waiting, wait = found.step, found.step.wait
    assert wait is not None  # noqa: S101  # is_for_people
    reason = waiting.reason if wait.needs_operator else ""
    return Notice(
        title=f"Action required: step {found.index + 1} of {len(view.steps)}",
        text=f"{found.waiting} {reason}".strip(),
        demo=f"trimtab sandbox-node {waiting.subject} {wait.node_action}",
    )


@dataclass(frozen=True)
class SameReason:
    """Repeated reasons among the results of steps.

    Attributes:
        repeated: Indices of steps that were skipped for the reason of an earlier one.
        sentences: One for each reason that repeats.
    """

    repeated: frozenset[int]
    sentences: tuple[str, ...]


def same_reason(steps: Sequence[StepView]) -> SameReason:
    """Return the skipped steps that repeat the reason of an earlier one.

    Args:
        steps: In the order of the plan.
    """
    by_reason: dict[str, list[int]] = {}
    for step in steps:
        if step.state == "SKIPPED" and step.result is not None:
            by_reason.setdefault(step.result.sentence, []).append(step.index)
    repeated = [indices for indices in by_reason.values() if len(indices) > 1]
    return SameReason(
        frozenset(index for indices in repeated for index in indices[1:]),
        tuple(
            f"Skipped for the same reason as step {indices[0] + 1}: {_named(indices[1:])}."
            for indices in repeated
        ),
    )


def _named(indices: Sequence[int]) -> str:
    first, last = indices[0] + 1, indices[-1] + 1
    if first == last:
        return f"step {first}"
    if last - first == len(indices) - 1:
        return f"steps {first} to {last}"
    return f"{len(indices)} steps between {first} and {last}"


def purpose_words(view: RunView) -> str:
    """Return ``Purpose: n1:34801 holds no replicas. Achieved: yes.``; empty: it has no purpose."""
    if view.purpose is not None:
        return describe_purpose(view.purpose)
    purpose = purpose_of(view.plan)
    return f"Purpose: {purpose}." if purpose else ""
