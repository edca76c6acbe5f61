"""Execute a run: the one way in which Trimtab changes anything.

Event-sourced: whatever is known of a run is in its journal entries, so a worker that dies leaves
nothing behind that another one could not go on from. An intent is durable before anything is sent,
nothing is sent twice, and a result that cannot be determined is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from core.actions.balancer import pause_balancer, restore
from core.actions.events import RunClaimed, RunPaused, RunRefused, RunResumed
from core.actions.external_changes import note_external_changes
from core.actions.guards import WAITING_GUARDS, Effect, GuardResult, first_hold
from core.actions.model import Refusal, RunId, RunState
from core.actions.ports import Ports
from core.actions.preconditions import run_refusal
from core.actions.reconcile import (
    look_again,
    settle_begun,
)
from core.actions.run_summary import closing
from core.actions.session import LeaseLostError, Session
from core.actions.start_step import ASK_AGAIN_S, begin, skip, unreadable
from core.actions.temporary_settings import keep
from core.actions.views import RunView
from core.errors import RemoteError, SnapshotError
from core.plan.model import Diagnostic

__all__ = ["Ports", "execute_run", "reconcile_run", "restore_settings"]

_MAX_DOUBTS: Final = 3
"""How often a reading with holes in it is taken again before doubtful findings are believed."""


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
    with suppress(LeaseLostError):  # whoever has it now settles the step under way and the settings
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
    """Look once more at the steps that a run ended with as unknown, and settle what can be.

    Without the cluster's lease, or while the run is open, nothing happens.

    Returns:
        The run as it is known then; steps may still be unknown.
    Raises:
        InputError: There is no such run.
        RemoteError: The journal cannot be read or written.
    """
    session = Session(run_id, ports)
    if session.is_after_end and ports.lease.is_held():
        look_again(session)
    return session.view


def _carry(session: Session) -> None:
    view, ports = session.view, session.ports
    if view.is_ended or not ports.lease.is_held():
        return
    refusal = None if view.worker else run_refusal(session)
    if refusal is not None:
        session.record(RunRefused(code=refusal.code, sentence=refusal.sentence, hint=refusal.hint))
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
    settle_begun(session)
    while True:
        session.refresh()
        look_again(session)
        turn = session.turn
        if turn is not None:
            hold = first_hold(session) or begin(session, turn)
        elif session.steps_in("UNKNOWN"):
            hold = first_hold(session, WAITING_GUARDS)
        else:
            return True
        while hold is not None:
            if hold.effect == "leave":
                return False
            if hold.effect == "end":
                _skip_rest(session, hold.refusal)
                return True
            hold = _FOLLOW[hold.effect](session, hold)


def _renew(session: Session, _hold: GuardResult) -> GuardResult | None:
    """Take a new snapshot and skip the pending steps that no longer pass the plan's own checks."""
    cluster, pending = session.ports.cluster, session.steps_in("PENDING")
    try:
        fresh = cluster.snapshot()
    except (RemoteError, SnapshotError) as exc:
        return unreadable(session, exc)
    session.could_read()
    found: Mapping[int, Diagnostic] = {}
    if fresh is not session.snapshot:  # the very same one (a rehearsal) has nothing new
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
        session.ask_again_at_s = session.ports.clock.monotonic() + ASK_AGAIN_S
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


def _quiet(session: Session, _hold: GuardResult) -> GuardResult | None:
    try:
        pause_balancer(session)
    except RemoteError as exc:
        if exc.outcome != "refused":
            return unreadable(session, exc)
        return GuardResult(
            effect="end",
            refusal=Refusal(
                code="balancer_not_paused",
                sentence=f"The cluster's own shedding could not be paused: {exc.message}",
                hint=exc.hint or "Apply the plan without --pause-balancer.",
            ),
        )
    session.could_read()
    return None


def _keep(session: Session, _hold: GuardResult) -> GuardResult | None:
    try:
        refusal = keep(session)
    except RemoteError as exc:
        if exc.outcome != "refused":
            return unreadable(session, exc)
        refusal = Refusal(
            code="setting_not_reapplied",
            sentence=f"What the run had set could not be set again: {exc.message}",
            hint=exc.hint or "Check the settings, then plan the rest again.",
        )
    session.could_read()
    return None if refusal is None else GuardResult(effect="end", refusal=refusal)


def _pause(session: Session, hold: GuardResult) -> GuardResult | None:
    """Pause; the cluster's own shedding is not left off meanwhile."""
    restore(session)
    if session.view.state != "PAUSED":
        session.record(RunPaused(sentence=hold.refusal.sentence))
    session.idle(hold.wait_s)
    return None


def _resume(session: Session, hold: GuardResult) -> GuardResult | None:
    session.interrupted_at = session.ports.clock.now()
    session.record(RunResumed(sentence=hold.refusal.sentence))
    return None


def _wait(session: Session, hold: GuardResult) -> GuardResult | None:
    session.idle(hold.wait_s)
    return None


def _skip_turn(session: Session, hold: GuardResult) -> GuardResult | None:
    for step in session.steps_in("PENDING")[:1]:
        skip(session, step, hold.refusal)
    return None


_FOLLOW: Final[Mapping[Effect, Callable[[Session, GuardResult], GuardResult | None]]] = {
    "wait": _wait,
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
    if session.snapshot is not None and not session.is_shutting_down:
        with suppress(RemoteError, SnapshotError):  # the run's own steps are settled all the same
            note_external_changes(session, session.ports.cluster.snapshot())
    session.require_ours()
    started_at = session.view.started_at or session.view.requested_at
    took_s = (session.ports.clock.now() - started_at).total_seconds()
    session.record(closing(session.view, took_s))
