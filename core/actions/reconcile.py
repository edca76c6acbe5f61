"""The result of a step, from observing the cluster, never by sending it again."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from core.actions.events import SettingChanged, StepEnded
from core.actions.model import FINAL_STEPS, Observation, StepResult
from core.actions.ports import Action
from core.actions.session import Session, ShuttingDownError
from core.actions.views import RunView, StepView
from core.actions.waits import as_executed
from core.errors import GivenUpError, RemoteError
from core.plan.describe import whether

LOOK_EVERY_S: Final = 0.25
"""How often the effect of the step under way is looked for."""

LOOK_LATE_S: Final = 1.0
"""The same, once ``verify_within_s`` is over: copies take their time."""

LOOK_UNSERVED_S: Final = 5.0
"""The same for what is unserved: where brokers report owners, one look asks each of them."""

LOOK_WITHIN_S: Final = 20.0
"""How long a look may take, where more than that is not left anyway."""

LANDING_GRACE_S: Final = 10.0
"""How long a subject has to be seen without an owner, on end, before a step gets that result: one
single look cannot distinguish a bundle without clients from one that is moving."""

_ANSWER: Final = "Response to the request:"

RECONCILE_UNTIL_S: Final = 3600.0
"""How long after a run's end a step that it left unknown is looked at again."""


def needs_reconciling(view: RunView, now: datetime) -> bool:
    """Return whether a recently ended run has a step with an unknown result."""
    if view.ended_at is None or not view.unresolved:
        return False
    return now - view.ended_at <= timedelta(seconds=RECONCILE_UNTIL_S)


def watch(
    session: Session, step: StepView, action: Action | None = None, *, spent_s: float = 0.0
) -> StepResult:
    """Look until the effect of a step that was begun is visible or the time is up.

    The time is the run's ``verify_within_s`` or the action's own patience, whichever is longer.
    A process that is to end leaves the step to the next one after a moment, and at once when the
    cluster does not answer; a stop ends the wait for a cluster that does not answer.

    "Unassigned" is believed after :data:`LANDING_GRACE_S` on end only, also when that is after
    the time.

    Args:
        session: The run.
        step: The step, begun.
        action: The one that sent it; ``None`` if another worker, now gone, sent it.
        spent_s: How much of the time has passed already; once is looked in any case.
    Returns:
        How it ended; ``UNKNOWN`` when that cannot be determined.
    Raises:
        RemoteError: The journal cannot be read.
        ShuttingDownError: This process is to end, and the effect may still take long.
    """
    before = _seen_before(step)
    clock = session.ports.clock
    began_s = clock.monotonic() - spent_s
    min_s = timeout_s = session.view.options.verify_within_s
    ownerless_since_s = -math.inf if step.unserved else None  # it was seen so for long enough
    is_stopped = False  # a stop gave the last look up: the next one has a moment
    while True:
        now_s = clock.monotonic()
        is_last = now_s - began_s >= timeout_s
        try:
            planned = as_executed(session.view, step.index)
            left_s = max(timeout_s - (now_s - began_s), LOOK_WITHIN_S)
            with session.a_moment() if is_stopped else session.ports.within(left_s):
                action = action or session.ports.cluster.action(planned)
                timeout_s = max(min_s, action.timeout_s)
                is_last = now_s - began_s >= timeout_s
                now = action.look()
                result = action.result(before, now)
                if result is None and is_last:
                    result = action.on_timeout(before, now)
            ownerless_since_s = _since(ownerless_since_s, now, now_s)
            is_stopped = is_stopped and _answered(session)
        except RemoteError as exc:
            ownerless_since_s = None
            result = _unreadable(step, exc) if is_last or is_stopped else None
            is_stopped = isinstance(exc, GivenUpError) and session.notice_given_up()
        if result is not None and not _is_rash(step, result, ownerless_since_s, now_s):
            return result
        if session.is_to_leave and now_s - began_s < timeout_s:
            raise ShuttingDownError
        session.hold(_until_next_s(is_early=now_s - began_s < min_s, is_stopped=is_stopped))


def _until_next_s(*, is_early: bool, is_stopped: bool) -> float:
    """Return the time until the next observation, s."""
    if is_stopped:
        return 0.0
    return LOOK_EVERY_S if is_early else LOOK_LATE_S


def _answered(session: Session) -> bool:
    """Note that the cluster answered after a stop; return that no look is the last one any more."""
    session.could_read()
    return False


def _since(since_s: float | None, now: Observation, now_s: float) -> float | None:
    """Return the start of its current unassigned time, or ``None`` if it has an owner."""
    is_ownerless = now.exists and now.holder is None
    return (now_s if since_s is None else since_s) if is_ownerless else None


def _is_rash(
    step: StepView, result: StepResult, ownerless_since_s: float | None, now_s: float
) -> bool:
    if not step.step.flags_of(result.code).needs_grace or ownerless_since_s is None:
        return False
    return now_s - ownerless_since_s < LANDING_GRACE_S


def reconcile_begun(session: Session) -> None:
    """Reconcile what another worker, or an earlier life of this one, left ``RUNNING``.

    The intent is on record, so the request may have been sent: it is not sent again.
    """
    for step in session.steps_in("RUNNING"):
        result = watch(session, step, spent_s=_age_s(session, step))
        write_result(session, step, result, is_reconciled=True)


def look_again(session: Session) -> None:
    """Observe each step of unknown outcome, and reconcile what can be.

    The end of a stopped run does not wait for a cluster that does not answer: it is done later.
    """
    if session.stop is not None and not session.is_answering:
        return
    for step in session.steps_in("UNKNOWN"):
        if step.unserved and not session.is_due(step.index, LOOK_UNSERVED_S):
            continue
        result = watch(session, step, spent_s=math.inf)
        # unknown as before, but read by now: the run pauses for it, and alerts name it
        is_new_gap = bool(step.step.flags_of(result.code).unserved) and not step.unserved
        if result.state in FINAL_STEPS or is_new_gap:
            write_result(session, step, with_answer(step, result, _heard(step)), is_reconciled=True)


def write_result(
    session: Session, step: StepView, result: StepResult, *, is_reconciled: bool = False
) -> None:
    """Put on record what became of a step."""
    took_ms = None if result.state == "SKIPPED" else 1000.0 * _age_s(session, step)
    session.record(
        StepEnded(step=step.index, result=result, is_reconciled=is_reconciled, took_ms=took_ms)
    )
    key = step.step.subject
    if result.state == "DONE" and any(
        item.key == key and not item.is_changed for item in session.view.outstanding_settings
    ):
        session.record(SettingChanged(key=key))
    if step.step.is_assumed and result.state != "DONE":
        session.snapshot_at_s = -math.inf  # what follows was checked as if it had been set


def answer_of(exc: RemoteError) -> str:
    """Return the sentence about a request that may have been followed all the same."""
    return f"{_ANSWER} {exc.message}"


def with_answer(step: StepView, result: StepResult, answer: str) -> StepResult:
    """Add the response of the request to an unexpected result: it may explain it."""
    needs_grace = step.step.flags_of(result.code).needs_grace
    if not answer or (result.state == "DONE" and not needs_grace):
        return result
    return replace(result, sentence=f"{result.sentence} {answer}")


def _heard(step: StepView) -> str:
    """Return the response recorded in an earlier result of the step."""
    sentence = step.result.sentence if step.result else ""
    _, prefix, words = sentence.partition(_ANSWER)
    return prefix + words


def _seen_before(step: StepView) -> Observation:
    """Return the state observed at the intent, else the step's precondition.

    Of what was seen unassigned since, the owner is left out: the same one may have it again.
    """
    planned = step.step
    after = step.result.after if step.result else None
    if step.before is not None and step.unserved and after is not None and after.holder is None:
        return replace(step.before, holder=None)
    value = getattr(planned, "before", None)  # of settings and levels
    return step.before or Observation(exists=True, holder=planned.owner, value=value)


def _age_s(session: Session, step: StepView) -> float:
    """Seconds since the intent."""
    return 0.0 if step.begun_at is None else session.age_s(step.begun_at)


def _unreadable(step: StepView, exc: RemoteError) -> StepResult:
    return StepResult(
        state="UNKNOWN",
        code="timed_out",
        sentence=f"It is unknown {whether(step.step)}; the cluster could not be read: "
        f"{exc.message}",
        hint="The step is reconciled as soon as the cluster can be read. The request is not "
        "sent again.",
    )
