"""Whether a run can be undone, and what its undo leaves behind; the plan is made by its system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from core.actions.views import RunView
from core.errors import PlanConflictError
from core.plan.model import Diagnostic, DiagnosticSeverity, Plan
from core.units import pluralize

LEFT: Final = "undo_leaves"
"""Code of what an undo does not bring back, of a kind of step."""

MOVED: Final = "undo_leaves_moved"
"""Code of what moved since the run began, and by no step of it."""

MOVES_BACK: Final = "undo_moves_back"
"""Code of the same where it is planned back."""

_DETAILS: Final = frozenset({"undo_not_needed", "undo_by_brokers", MOVES_BACK})
"""Findings that leave nothing behind."""


def check_undo(view: RunView, cluster: str) -> None:
    """Check that a run can be undone on a cluster.

    Args:
        cluster: Trimtab's name of the cluster that the fresh snapshot is of.
    Raises:
        PlanConflictError: The run has not ended, or is of another cluster.
    """
    if cluster != view.cluster:
        raise PlanConflictError(
            f"Run {view.run_id} was on {view.cluster}, but the snapshot is of {cluster}.",
            hint=f"Take a snapshot of {view.cluster}.",
        )
    if not view.is_ended:
        raise PlanConflictError(
            f"Run {view.run_id} is {view.state} and cannot be undone before it ends.",
            hint="Stop it first.",
        )


def reason_of_undo(view: RunView) -> str:
    """Return the reason that a plan has by default when it undoes a run."""
    return f"Undoes run {view.run_id}: {view.reason}"


# -- what stays ------------------------------------------------------------------------------------


def left_behind(view: RunView, *, is_moved_back: bool = False) -> Iterator[Diagnostic]:
    """Yield the effects of a run that an undo does not revert, one sentence per kind of step.

    Args:
        is_moved_back: What others moved goes back as far as it can; what stays is named by itself.
    """
    done = [one.step for one in view.steps if one.step.has_taken_effect(one.executed)]
    left = [step for step in done if not (is_moved_back and step.lets_others_move)]
    for sentence in dict.fromkeys(step.not_undone for step in left if step.not_undone):
        yield Diagnostic(severity="info", code=LEFT, sentence=sentence)


def left_moved(
    run_id: str, what: str, began_at: datetime, *, back: int = 0, is_asked: bool = False
) -> Diagnostic:
    """Return the objects that moved since a run began.

    Args:
        what: Counted, with its verb: ``12 primaries moved``.
        began_at: When the snapshot that it is compared with was taken, aware UTC.
        back: How many moves the plan has for it.
        is_asked: Moves back were asked for.
    """
    head = f"Since {began_at:%H:%M:%S} UTC, the last snapshot before the run, {what}"
    if is_asked:
        moves = pluralize(back, "move")
        return Diagnostic(
            severity="info", code=MOVES_BACK, sentence=f"{head}: {moves} back are planned."
        )
    return Diagnostic(
        severity="info",
        code=MOVED,
        sentence=f"{head}, not reverted by the undo.",
        hint=f"To move back as well: `trimtab undo {run_id} --with-moves`, or the switch "
        '"Also move back" of the page.',
    )


def cannot_go_back(refused: Sequence[tuple[str, str]], thing: str) -> Iterator[Diagnostic]:
    """Yield the finding about what cannot go back, if anything cannot.

    Args:
        refused: Names, each with the reason, a sentence.
        thing: What each is, singular.
    """
    if not refused:
        return
    name, why = refused[0]
    which = f"{name} cannot be moved back"
    if len(refused) > 1:
        which = f"{pluralize(len(refused), thing)} cannot be moved back; the first, {name}"
    yield Diagnostic(
        severity="warning", code="undo_refused", sentence=f"{which}: {why}", subject=name
    )


def not_in_plan(count: int, thing: str, max_moves: int) -> Iterator[Diagnostic]:
    """Yield the finding about what a plan has no room for, if there is any.

    Args:
        count: How many more could go back.
        thing: What each is, singular.
        max_moves: Most moves back of a plan.
    """
    if count > 0:
        yield Diagnostic(
            severity="warning",
            code="undo_too_many",
            sentence=f"A plan can revert at most {max_moves:,} moves; {pluralize(count, thing)} "
            "more can be reverted.",
            hint="Apply this plan, then undo the run again with moves.",
        )


def left_unknown(view: RunView) -> Iterator[Diagnostic]:
    """Yield a note if moves since a run began are unknown."""
    if not any(one.step.lets_others_move for one in view.steps if one.state == "DONE"):
        return
    yield Diagnostic(
        severity="info",
        code=LEFT,
        sentence="The moves since the run began are unknown: no snapshot of that time is saved.",
    )


def not_brought_back(
    plan: Plan, severities: tuple[DiagnosticSeverity, ...] = ("warning", "info")
) -> list[str]:
    """Return the effects that an undo does not revert, one sentence each; empty for other plans.

    Args:
        plan: The plan that undoes a run.
        severities: Only of these.
    """
    if not plan.undoes:
        return []
    found = (
        f"{item.sentence} {item.hint}".rstrip()
        for item in plan.diagnostics
        if item.code.startswith("undo_")
        and item.code not in _DETAILS
        and item.severity in severities
    )
    return list(dict.fromkeys(found))


def is_left(item: Diagnostic) -> bool:
    """Return whether a finding is a :func:`not_brought_back` note and not a warning."""
    return item.code in (LEFT, MOVED)


# -- the moment before a run -----------------------------------------------------------------------


def began_at(view: RunView) -> datetime:
    """Return the start of a run's first step, else the time of its request."""
    return min((one.begun_at for one in view.steps if one.begun_at), default=view.requested_at)
