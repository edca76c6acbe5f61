"""What became of a step: told by looking at the cluster, never by doing it again."""

from __future__ import annotations

from typing import Final

from core.actions.events import StepEnded
from core.actions.model import SETTLED_STEPS, Ending, Observation
from core.actions.ports import Action
from core.actions.session import Session
from core.actions.views import StepView
from core.errors import InvariantError, RemoteError
from core.units import format_age

LOOK_EVERY_S: Final = 0.25
"""How often the effect of the step under way is looked for."""


def watch(session: Session, action: Action, step: StepView, within_s: float) -> Ending:
    """Look until the effect of a step that was begun is visible or the time is up.

    Args:
        session: The run.
        action: The step's action; only its looking half is used.
        step: The step, begun.
        within_s: How long; once is looked in any case.
    Returns:
        How it ended; ``UNKNOWN`` when nobody can tell.
    Raises:
        RemoteError: The journal cannot be read.
    """
    before = _seen_before(step)
    clock = session.ports.clock
    until_s = clock.monotonic() + within_s
    while True:
        is_last = clock.monotonic() >= until_s
        try:
            ending = _glance(action, before, is_last=is_last)
        except RemoteError as exc:
            ending = _unreadable(step, exc, within_s) if is_last else None
        if ending is not None:
            return ending
        session.hold(LOOK_EVERY_S)


def settle_begun(session: Session) -> None:
    """Settle what another worker, or an earlier life of this one, left ``RUNNING``.

    The intent is on record, so the request may have been sent: it is not sent again.
    """
    for step in session.steps_in("RUNNING"):
        action = session.ports.cluster.action(step.step)
        age_s = _age_s(session, step)
        within_s = session.view.options.verify_within_s
        ending = watch(session, action, step, min(max(within_s - age_s, 0.0), within_s))
        write_ending(session, step, ending, is_by_looking=True)


def look_again(session: Session) -> None:
    """Look once at each step that nobody knows the outcome of, and settle what can be."""
    for step in session.steps_in("UNKNOWN"):
        action = session.ports.cluster.action(step.step)
        try:
            ending = _glance(action, _seen_before(step), is_last=True)
        except RemoteError:
            continue
        if ending is not None and ending.state in SETTLED_STEPS:
            write_ending(session, step, ending, is_by_looking=True)


def write_ending(
    session: Session, step: StepView, ending: Ending, *, is_by_looking: bool = False
) -> None:
    """Put on record what became of a step."""
    took_ms = None if ending.state == "SKIPPED" else 1000.0 * _age_s(session, step)
    session.record(
        StepEnded(step=step.index, ending=ending, is_by_looking=is_by_looking, took_ms=took_ms)
    )


def _glance(action: Action, before: Observation, *, is_last: bool) -> Ending | None:
    now = action.look()
    ending = action.ending(before, now)
    if ending is None and is_last:
        ending = action.ending_at_last(before, now)
    return ending


def _seen_before(step: StepView) -> Observation:
    if step.before is None:
        raise InvariantError(f"Step {step.index} was begun without a look at its subject.")
    return step.before


def _age_s(session: Session, step: StepView) -> float:
    """Seconds since the intent, never negative: clocks of two workers may differ."""
    begun_at = step.begun_at or session.ports.clock.now()
    return max((session.ports.clock.now() - begun_at).total_seconds(), 0.0)


def _unreadable(step: StepView, exc: RemoteError, within_s: float) -> Ending:
    return Ending(
        state="UNKNOWN",
        code="timed_out",
        sentence=f"Whether {step.step.bundle} moved is unknown: the cluster could not be looked at "
        f"within {format_age(within_s)}: {exc.message}",
        hint="It is settled by looking as soon as the cluster can be read; it is not sent again.",
    )
