"""Beginning the step whose turn it is: look, wait for its precondition, write the intent, send."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final

from core.actions.events import StepStarted, StepWaiting
from core.actions.external_changes import note_moved_meanwhile
from core.actions.guards import GuardResult
from core.actions.model import Observation, Refusal, StepResult
from core.actions.ports import Action
from core.actions.reconcile import answer_of, watch, with_answer, write_result
from core.actions.session import PATIENCE_S, Session, Turn
from core.actions.temporary_settings import cannot_be_restored, save
from core.actions.views import StepView
from core.actions.waits import as_executed, not_reached
from core.errors import RemoteError, SnapshotError
from core.units import format_age

ASK_AGAIN_S: Final = 2.0

REPORT_EVERY_S: Final = 5.0
"""How often at most a waiting step tells how far it is."""

MAX_WAIT_S: Final = 600.0
"""How long a precondition is waited for, where the step does not say it itself."""


def begin(session: Session, step: StepView) -> GuardResult | None:
    """Look, write the intent, send once, and look until the effect is there."""
    turn = session.turn_of(step.index)
    rest_s = turn.again_at_s - session.ports.clock.monotonic()
    if turn.refusal is not None and rest_s > 0:
        return GuardResult(effect="wait", refusal=turn.refusal, wait_s=rest_s)
    try:
        planned = as_executed(session.view, step.index)
        action = turn.action = turn.action or session.ports.cluster.action(planned)
        seen = action.look()
        refusal = action.check_precondition(seen) or cannot_be_restored(step.step, seen)
    except RemoteError as exc:
        return unreadable(session, exc)
    session.could_read()
    if refusal is not None and refusal.retry_s > 0:
        return _not_yet(session, turn, refusal, seen)
    if refusal is not None:
        skip(session, step, refusal, seen)
        if step.step.flags_of(refusal.code).is_external_change:
            note_moved_meanwhile(session, step, seen.holder)
        return None
    _execute(session, step, action, seen)
    return None


def skip(
    session: Session, step: StepView, refusal: Refusal, seen: Observation | None = None
) -> None:
    """Put on record that a step is not begun."""
    result = StepResult(
        state="SKIPPED",
        code=refusal.code,
        sentence=refusal.sentence,
        hint=refusal.hint,
        after=seen,
    )
    write_result(session, step, result)


def unreadable(session: Session, exc: RemoteError | SnapshotError) -> GuardResult:
    """Wait for a cluster that cannot be read, and end when that lasts."""
    is_hopeless = session.is_out_of_patience()
    session.ask_again_at_s = session.ports.clock.monotonic() + ASK_AGAIN_S
    return GuardResult(
        effect="end" if is_hopeless else "wait",
        refusal=Refusal(
            code="cluster_unreadable",
            sentence=f"{session.view.cluster} cannot be read (it is asked again for up to "
            f"{format_age(PATIENCE_S)}): {exc.message}",
            hint=exc.hint or "Plan the rest again when it can be read.",
        ),
    )


def _execute(session: Session, step: StepView, action: Action, seen: Observation) -> None:
    session.require_ours()
    save(session, step.step, seen)
    session.record(StepStarted(step=step.index, observed=seen, is_paced=step.step.is_paced))
    session.require_ours()
    begun = session.view.steps[step.index]
    result = _send(action, begun)
    if not isinstance(result, StepResult):
        found = watch(session, begun, action)
        result = with_answer(begun, found, result)
    write_result(session, begun, result)
    if step.step.wait is not None:  # what comes after it was planned for now
        session.snapshot_at_s = -math.inf


def _send(action: Action, step: StepView) -> StepResult | str:
    """Send; return the ending when the request certainly was not followed, else what was heard."""
    try:
        action.send()
    except RemoteError as exc:
        if exc.outcome == "unknown":
            return answer_of(exc)
        is_refused = exc.outcome == "refused"
        what = "was refused" if is_refused else "could not be sent"
        return StepResult(
            state="FAILED",
            code="refused" if is_refused else "not_sent",
            sentence=f"{step.step.describe_progress()} {what}: {exc.message}",
            hint=exc.hint,
            after=_look_after(action),
        )
    return ""


def _look_after(action: Action) -> Observation | None:
    try:
        return action.look()
    except RemoteError:
        return None


def _not_yet(
    session: Session, turn: Turn, refusal: Refusal, seen: Observation
) -> GuardResult | None:
    """Keep the step pending and tell how far it is, as long as its wait may last."""
    clock = session.ports.clock
    turn.refusal, turn.again_at_s = refusal, clock.monotonic() + refusal.retry_s
    step = session.view.steps[turn.index]
    is_due = clock.monotonic() - turn.reported_at_s >= REPORT_EVERY_S
    if is_due and refusal.sentence != step.waiting:
        turn.reported_at_s = clock.monotonic()
        session.record(StepWaiting(step=turn.index, sentence=refusal.sentence))
        step = session.view.steps[turn.index]
    since = step.waiting_since or clock.now()
    wait = step.step.wait
    limit_s = MAX_WAIT_S if wait is None else wait.within_s
    if limit_s is None or clock.now() - since < timedelta(seconds=limit_s):
        return GuardResult(effect="wait", refusal=refusal, wait_s=refusal.retry_s)
    if wait is None:
        skip(session, step, refusal, seen)
        return None
    session.require_ours()
    session.record(StepStarted(step=step.index, observed=seen, is_paced=step.step.is_paced))
    result = not_reached(wait, refusal.sentence, seen, refusal.hint)
    write_result(session, session.view.steps[step.index], result)
    return None
