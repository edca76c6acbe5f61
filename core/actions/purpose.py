"""What a run is for: whether it holds at the end, and what has to be done again for it.

A step that ended ``DONE`` says what was so when it ended. A cluster that loses its leader may
forget what kept it so; the run then executes the step again, as another attempt of its own in the
journal, :data:`MAX_ATTEMPTS` times at most.
"""

from __future__ import annotations

import math
from typing import Final

from core.actions.events import PurposeChecked, StepReopened
from core.actions.model import Refusal
from core.actions.session import RETRY_AFTER_S, Session
from core.actions.views import StepView
from core.errors import GivenUpError, RemoteError, SnapshotError
from core.system import Snapshot

MAX_ATTEMPTS: Final = 4
"""How often one step is executed at most: three lost leaders in one run are survived."""


def repeat_lost(session: Session) -> None:
    """Reopen steps that failed because the cluster has certainly lost what was requested."""
    for step in session.steps_in("FAILED"):
        result = step.result
        if result is not None and step.step.flags_of(result.code).is_repeatable:
            _reopen(session, step, result.sentence)


def reopen_undone(session: Session, fresh: Snapshot) -> None:
    """Reopen steps whose effect, which the run still needs, is gone.

    Args:
        session: The run.
    """
    found = session.ports.cluster.system.undone(session.view, fresh)
    for index, why in sorted(found.items()):
        _reopen(session, session.view.steps[index], why)


def _reopen(session: Session, step: StepView, why: str) -> None:
    if step.attempt >= MAX_ATTEMPTS:
        return
    session.require_ours()
    session.record(StepReopened(step=step.index, sentence=why))
    session.forget_turn()
    session.snapshot_at_s = -math.inf  # settings are checked with a fresh snapshot before it is due


def check_purpose(session: Session, *, is_patient: bool = True) -> Refusal | None:
    """Put on record whether what the run is for holds; reopen what has to be done again for it.

    Args:
        session: The run, none of whose steps is pending.
        is_patient: A cluster that cannot be read now is read again later.
    Returns:
        Reason to check it again after ``retry_s``; ``None`` if recorded, or if steps are
        pending again.
    Raises:
        RemoteError: The journal cannot be read or written.
        LeaseLostError: The run is not ours any more.
    """
    cluster = session.ports.cluster
    purpose = cluster.system.purpose(session.plan)
    is_untouched = all(step.begun_at is None for step in session.view.steps)
    if not purpose or (is_untouched and not is_patient):  # it was cut short before it did anything
        return None
    try:
        fresh = _snapshot(session)
        lacking = cluster.system.lacking(session.view, fresh)
    except (RemoteError, SnapshotError) as exc:
        return _unread(session, purpose, exc, is_patient=is_patient)
    if fresh is session.snapshot:  # a dry run: nothing was done
        return None
    session.could_read()
    if is_patient:
        reopen_undone(session, fresh)
        if session.turn is not None:
            return None
    if is_patient and not session.lasts(lacking, cluster.system.transfer_s):
        return Refusal(code="purpose", sentence=lacking, retry_s=RETRY_AFTER_S)
    session.last_snapshot = fresh
    _record(session, PurposeChecked(purpose=purpose, holds=not lacking, sentence=lacking))
    return None


def _snapshot(session: Session) -> Snapshot:
    """Return a fresh snapshot; a stopped run has a moment for it.

    Raises:
        RemoteError, SnapshotError: Nothing could be read.
    """
    cluster = session.ports.cluster
    if session.stop is None:
        return cluster.snapshot()
    try:
        with session.a_moment():
            return cluster.snapshot()
    except (RemoteError, SnapshotError) as exc:
        if isinstance(exc, GivenUpError):
            session.notice_given_up()
        raise SnapshotError("The cluster did not respond when the run was stopped.") from exc


def _unread(
    session: Session, purpose: str, exc: RemoteError | SnapshotError, *, is_patient: bool
) -> Refusal | None:
    if isinstance(exc, GivenUpError):
        session.notice_given_up()
    why = exc.message
    if is_patient and not session.is_unreadable_for_long():
        return Refusal(code="cluster_unreadable", sentence=why, retry_s=RETRY_AFTER_S)
    _record(session, PurposeChecked(purpose=purpose, holds=None, sentence=why))
    return None


def _record(session: Session, checked: PurposeChecked) -> None:
    session.require_ours()
    session.record(checked)
