"""Execute a run: Trimtab changes clusters by nothing else.

Event-sourced: whatever is known of a run is in its journal entries, so a worker that dies leaves
nothing behind that another one could not go on from. An intent is durable before anything is sent,
nothing is sent twice, and a result that cannot be determined is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Final

from core.actions.approval import waits_for_approval
from core.actions.balancer import pause_balancer, restore
from core.actions.describe import describe_forged_settings, describe_unserved
from core.actions.events import (
    RunClaimed,
    RunEnded,
    RunPaused,
    RunRefused,
    RunResumed,
    StepStarted,
    StepWaiting,
)
from core.actions.external_changes import note_external_changes, note_moved_meanwhile
from core.actions.guards import WAITING_GUARDS, Effect, GuardResult, first_result, stop_flag
from core.actions.model import Observation, Refusal, RunId, RunState, StepResult
from core.actions.ports import Action, Ports
from core.actions.preconditions import run_refusal
from core.actions.purpose import check_purpose, reopen_undone, repeat_lost
from core.actions.reconcile import (
    answer_of,
    look_again,
    reconcile_begun,
    watch,
    with_answer,
    write_result,
)
from core.actions.session import (
    RETRY_AFTER_S,
    UNREADABLE_FOR_S,
    LeaseLostError,
    PendingStep,
    Session,
)
from core.actions.temporary_settings import cannot_be_restored, keep, save
from core.actions.views import RunView, StepView
from core.actions.waits import as_executed, gone_on, not_reached
from core.errors import GivenUpError, RemoteError, SnapshotError
from core.plan.model import Diagnostic
from core.units import format_age, pluralize

__all__ = ["Ports", "execute_run", "reconcile_run", "restore_settings"]

_MAX_DOUBTS: Final = 3
"""How often a reading with holes in it is taken again before doubtful findings are believed."""

CUT_SHORT: Final = frozenset(
    {
        "cluster_unreadable",
        "balancer_not_paused",
        "canary_failed",
        "max_failures",
        "forbidden",
        "moves_per_day",
        "not_approved",
        "not_awaited",
        "not_emptied",
        "not_signed",
        "plan_expired",
        "plan_lifetime",
        "read_only",
        "rejected",
        "frozen",
        "outside_maintenance",
        "setting_changed",
        "setting_not_reapplied",
        "setting_not_set",
        "result_unknown",
    }
)
"""Codes of what ends a run before all of its steps had their turn, besides a person's stop."""

REPORT_EVERY_S: Final = 5.0
"""Shortest time between two progress reports of a waiting step."""

MAX_WAIT_S: Final = 600.0
"""How long a precondition is waited for, where the step does not say it itself."""


def execute_run(run_id: RunId, ports: Ports) -> RunState:
    """Execute a run, or go on with one that another worker left, until there is no more to do.

    The caller holds the cluster's lease and gives it back afterwards; without it nothing happens.
    What is left open (the lease was lost, the process is shutting down, a setting could not be
    restored) continues by calling this again, here or anywhere.

    Args:
        run_id: A run that was requested.
        ports: The world.
    Returns:
        The run's state: an ended one, or the state in which it was left.
    Raises:
        InputError: There is no such run.
        RemoteError: The journal cannot be read or written. The run is left open; what it changed
            for its time has been restored as far as the cluster could be reached.
    """
    session = Session(run_id, ports)
    # whoever has it after a LeaseLostError reconciles the step under way and the settings
    with suppress(LeaseLostError), ports.unless(session.is_given_up):
        _carry(session)
    return session.view.state


def restore_settings(run_id: RunId, ports: Ports) -> bool:
    """Restore what an open run changed for its time, and do nothing else of it.

    For a run that can never be executed to its end; the caller holds the cluster's lease.

    Returns:
        Whether nothing is outstanding any more.
    Raises:
        InputError: There is no such run.
        RemoteError: The journal cannot be read or written.
    """
    session = Session(run_id, ports)
    with suppress(LeaseLostError):
        if not session.view.is_ended and ports.lease.is_held():
            _claim(session)
            restore(session)
    return not session.view.outstanding_settings


def reconcile_run(run_id: RunId, ports: Ports) -> RunView:
    """Look once more at the steps that a run ended with as unknown, and reconcile what can be.

    Without the cluster's lease, or while the run is open, nothing happens.

    Returns:
        The run as it is known then; steps may still be unknown.
    Raises:
        InputError: There is no such run.
        RemoteError: The journal cannot be read or written.
    """
    session = Session(run_id, ports)
    if session.is_after_end and ports.lease.is_held():
        with suppress(LeaseLostError):  # it is left to the next one
            look_again(session)
    return session.view


def _carry(session: Session) -> None:
    view, ports = session.view, session.ports
    if view.is_ended or not ports.lease.is_held():
        return
    if waits_for_approval(view, ports.cluster.approval, ports.clock.now()):
        return
    refusal = None if view.worker else run_refusal(session)
    if refusal is not None:
        left = describe_forged_settings(session.forged_settings)
        sentence = f"{refusal.sentence} {left}".rstrip()
        session.record(RunRefused(code=refusal.code, sentence=sentence, hint=refusal.hint))
        return
    _claim(session)
    is_over = is_restored = False
    try:
        is_over = _work(session)
    finally:
        with suppress(LeaseLostError):
            is_restored = session.is_ours() and restore(session)
    if is_over and is_restored:
        _finish(session)


def _claim(session: Session) -> None:
    view, ports = session.view, session.ports
    if view.worker:
        session.interrupted_at = ports.clock.now()
    if view.worker != ports.worker:
        session.record(
            RunClaimed(worker=ports.worker, lease=ports.lease.place, is_takeover=bool(view.worker))
        )


def _work(session: Session) -> bool:
    """Do the steps; return whether the run is over (else it is left to the next worker)."""
    reconcile_begun(session)
    while True:
        session.refresh()
        look_again(session)
        repeat_lost(session)
        turn = session.turn
        if turn is not None:
            found = first_result(session) or begin(session, turn)
        else:
            found = first_result(session, WAITING_GUARDS) or _verify(session)
            if found is None and session.turn is None:
                return True
        while found is not None:
            if found.effect == "leave":
                return False
            if found.effect == "end":
                _skip_rest(session, found.refusal)
                check_purpose(session, is_patient=False)
                return True
            found = _FOLLOW[found.effect](session, found)


def _verify(session: Session) -> GuardResult | None:
    """Check the purpose of the run; ``None`` if already recorded, or if steps are open."""
    refusal = check_purpose(session)
    if refusal is None:
        return None
    session.retry_at_s = session.ports.clock.monotonic() + refusal.retry_s
    return GuardResult(effect="wait", refusal=refusal, wait_s=refusal.retry_s)


def _renew(session: Session, _result: GuardResult) -> GuardResult | None:
    """Take a new snapshot and skip the pending steps that no longer pass the plan's own checks."""
    cluster = session.ports.cluster
    try:
        fresh = cluster.snapshot()
    except (RemoteError, SnapshotError) as exc:
        return unreadable(session, exc)
    session.could_read()
    found: Mapping[int, Diagnostic] = {}
    is_begun = any(step.begun_at is not None for step in session.view.steps)
    if session.snapshot is None and not is_begun:
        session.ports.keep_start(session.plan, fresh)
    is_new = fresh is not session.snapshot  # the very same one (a rehearsal) has nothing new
    if is_new:
        reopen_undone(session, fresh)
    pending = session.steps_in("PENDING")
    if is_new:
        found = cluster.system.recheck(
            fresh,
            session.plan,
            cluster.exclusions,
            session.ports.clock.now(),
            steps=[step.index for step in pending],
        )
    is_doubtful = any(
        session.view.steps[index].step.flags_of(item.code).is_doubtful
        for index, item in found.items()
    )
    if is_doubtful and not cluster.system.is_complete(fresh) and session.doubts < _MAX_DOUBTS:
        session.doubts += 1
        session.retry_at_s = session.ports.clock.monotonic() + RETRY_AFTER_S
        return None
    note_external_changes(session, fresh)
    session.snapshot_at_s, session.doubts = session.ports.clock.monotonic(), 0
    session.has_checked_settings = False  # a new leading meta server has lost what was set
    for step in pending:
        problem = found.get(step.index)
        if problem is not None:
            refusal = Refusal(code=problem.code, sentence=problem.sentence, hint=problem.hint)
            skip(session, step, refusal)
    return None


def _quiet(session: Session, _result: GuardResult) -> GuardResult | None:
    try:
        pause_balancer(session)
    except RemoteError as exc:
        if exc.outcome != "refused":
            return unreadable(session, exc)
        return GuardResult(
            effect="end",
            refusal=Refusal(
                code="balancer_not_paused",
                sentence=f"The cluster's load shedding could not be paused: {exc.message}",
                hint=exc.hint or "Apply the plan without --pause-balancer.",
            ),
        )
    session.could_read()
    return None


def _keep(session: Session, _result: GuardResult) -> GuardResult | None:
    try:
        refusal = keep(session)
    except RemoteError as exc:
        if exc.outcome != "refused":
            return unreadable(session, exc)
        refusal = Refusal(
            code="setting_not_reapplied",
            sentence=f"The run's temporary settings could not be reapplied: {exc.message}",
            hint=exc.hint or "Check the settings, then plan the remaining steps again.",
        )
    session.could_read()
    return None if refusal is None else GuardResult(effect="end", refusal=refusal)


def _pause(session: Session, found: GuardResult) -> GuardResult | None:
    """Pause; the cluster's own shedding is not left off meanwhile."""
    restore(session)
    if session.view.state != "PAUSED":
        session.record(RunPaused(sentence=found.refusal.sentence))
    session.idle(found.wait_s)
    return None


def _resume(session: Session, found: GuardResult) -> GuardResult | None:
    session.interrupted_at = session.ports.clock.now()
    session.record(RunResumed(sentence=found.refusal.sentence))
    return None


def _wait(session: Session, found: GuardResult) -> GuardResult | None:
    session.idle(found.wait_s)
    return None


def _report(session: Session, found: GuardResult) -> GuardResult | None:
    step = session.turn
    if step is not None and step.waiting != found.refusal.sentence:
        session.record(StepWaiting(step=step.index, sentence=found.refusal.sentence))
    session.idle(found.wait_s)
    return None


def _skip_turn(session: Session, found: GuardResult) -> GuardResult | None:
    for step in session.steps_in("PENDING")[:1]:
        skip(session, step, found.refusal)
    return None


_FOLLOW: Final[Mapping[Effect, Callable[[Session, GuardResult], GuardResult | None]]] = {
    "wait": _wait,
    "report": _report,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip_turn,
    "renew": _renew,
    "quiet": _quiet,
    "keep": _keep,
}


def _skip_rest(session: Session, refusal: Refusal) -> None:
    for step in session.steps_in("PENDING"):
        skip(session, step, refusal)


def _finish(session: Session) -> None:
    """Notice what moved to the last, and end the run."""
    is_read = session.snapshot is not None and not session.is_shutting_down
    if is_read and (session.stop is None or session.is_answering):
        # the run's own steps are reconciled all the same
        moment = nullcontext() if session.stop is None else session.a_moment()
        with suppress(RemoteError, SnapshotError), moment:
            last = session.last_snapshot or session.ports.cluster.snapshot()
            note_external_changes(session, last)
    session.require_ours()
    started_at = session.view.started_at or session.view.requested_at
    stop = stop_flag(session)
    why = stop.refusal.sentence if stop is not None else ""
    session.record(closing(session.view, session.age_s(started_at), why))


def closing(view: RunView, ended_after_s: float, stop: str = "") -> RunEnded:
    """Return the end of a run none of whose steps is pending or under way.

    ``DONE``: what the run is for holds, every step was done or found needless, and one at least was
    done or all were needless because all was as requested already. ``STOPPED``: a person's stop
    left steps undone, or ended the wait for what the run is for. ``FAILED``: all else.

    Args:
        ended_after_s: Seconds since it was claimed first.
        stop: Who stopped it, a sentence; empty: no stop was requested.
    """
    state = _state(view, is_stopped=bool(stop))
    sentence = _sentence(view, ended_after_s)
    if state == "STOPPED" and stop not in sentence:
        sentence = f"{sentence} {stop}"
    return RunEnded(state=state, sentence=sentence)


def _state(view: RunView, *, is_stopped: bool) -> RunState:
    codes = {step.result.code for step in _in(view, "SKIPPED") if step.result}
    is_lacking = view.purpose is not None and not view.purpose.holds
    if "stopped" in codes or (is_stopped and is_lacking):
        return "STOPPED"
    if is_lacking:
        return "FAILED"
    if _is_needless(view):
        return "DONE"
    if _in(view, "FAILED") or _in(view, "UNKNOWN") or codes & CUT_SHORT or not _in(view, "DONE"):
        return "FAILED"
    return "DONE"


def _is_needless(view: RunView) -> bool:
    """Whether all was as requested before anything was done."""
    return all(
        step.state == "SKIPPED" and step.step.flags_of(_code(step)).is_needless
        for step in view.steps
    )


def _sentence(view: RunView, ended_after_s: float) -> str:
    if view.purpose is not None and not view.purpose.holds:
        head = "Not achieved" if view.purpose.holds is False else "Unknown whether achieved"
        what = f"{head}: {view.purpose.purpose}. {view.purpose.sentence}"
        return f"{what} {_steps(view, ended_after_s)}"
    return _steps(view, ended_after_s)


def _steps(view: RunView, ended_after_s: float) -> str:
    if _is_needless(view):
        first = view.steps[0].result
        others = len(view.steps) - 1
        more = f" The same holds for {pluralize(others, 'more step')}." if others else ""
        return f"Nothing to do: {first.sentence if first else ''}{more}"
    done, total = len(_in(view, "DONE")), len(view.steps)
    parts = [f"{done:,} of {pluralize(total, 'step')} done in {format_age(ended_after_s)}"]
    parts += [f"{count:,} {words}" for words, count in view.differing.items()]
    is_lacking = view.purpose is not None and view.purpose.holds is False
    if view.unserved and not is_lacking:  # what is lacking names them already
        parts.append(describe_unserved(view.unserved))
    for state, word in (("FAILED", "failed"), ("UNKNOWN", "unknown"), ("SKIPPED", "skipped")):
        found = [step for step in _in(view, state) if not step.unserved]
        if found:
            parts.append(f"{len(found):,} {word} ({_reasons(found)})")
    return "; ".join(parts) + "." + _first_trouble(view)


def _first_trouble(view: RunView) -> str:
    """The first thing that went wrong, in its own words: one sentence more."""
    for state in ("UNKNOWN", "FAILED", "SKIPPED"):
        found = _in(view, state)
        if found and (result := found[0].result) is not None:
            return f" First: {result.sentence}"
    return ""


def _reasons(steps: list[StepView]) -> str:
    codes = [_code(step) for step in steps]
    return ", ".join(dict.fromkeys(code.replace("_", " ") for code in codes if code))


def _code(step: StepView) -> str:
    return step.result.code if step.result else ""


def _in(view: RunView, state: str) -> list[StepView]:
    return [step for step in view.steps if step.state == state]


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
    if isinstance(exc, GivenUpError):
        session.notice_given_up()
    is_hopeless = session.is_unreadable_for_long()
    session.retry_at_s = session.ports.clock.monotonic() + RETRY_AFTER_S
    return GuardResult(
        effect="end" if is_hopeless else "wait",
        refusal=Refusal(
            code="cluster_unreadable",
            sentence=f"{session.view.cluster} cannot be read (retried for up to "
            f"{format_age(UNREADABLE_FOR_S)}): {exc.message}",
            hint=exc.hint or "Plan the remaining steps again when it can be read.",
        ),
    )


def _execute(session: Session, step: StepView, action: Action, seen: Observation) -> None:
    session.require_ours()
    save(session, step.step, seen)
    session.record(StepStarted(step=step.index, observed=seen, is_paced=step.step.is_paced))
    session.require_ours()
    begun = session.view.steps[step.index]
    with session.ports.begun_within(session.ports.lease.lasts_s):
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
    session: Session, turn: PendingStep, refusal: Refusal, seen: Observation
) -> GuardResult | None:
    """Leave the step pending and report how far it is, as long as its wait may last."""
    clock = session.ports.clock
    turn.refusal, turn.again_at_s = refusal, clock.monotonic() + refusal.retry_s
    step = session.view.steps[turn.index]
    is_due = clock.monotonic() - turn.reported_at_s >= REPORT_EVERY_S
    if is_due and refusal.sentence != step.waiting:
        turn.reported_at_s = clock.monotonic()
        session.record(StepWaiting(step=turn.index, sentence=refusal.sentence))
        step = session.view.steps[turn.index]
    since = step.waiting_since
    waited_s = 0.0 if since is None else session.age_s(since)
    wait = step.step.wait
    limit_s = MAX_WAIT_S if wait is None else wait.within_s
    if limit_s is None or waited_s < limit_s:
        return GuardResult(effect="wait", refusal=refusal, wait_s=refusal.retry_s)
    if wait is None:
        skip(session, step, refusal, seen)
        return None
    session.require_ours()
    session.record(StepStarted(step=step.index, observed=seen, is_paced=step.step.is_paced))
    give_up = gone_on if wait.is_optional else not_reached
    result = give_up(wait, refusal.sentence, seen, refusal.hint)
    write_result(session, session.view.steps[step.index], result)
    return None
