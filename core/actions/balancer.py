"""What a run changes for its time is back in every exit path; its balancer paused, if requested.

What the setting was is on record before it is changed, and it is restored only while it still is
what the run made of it: what others set meanwhile is theirs.
"""

from __future__ import annotations

from typing import Final

from core.actions.events import RestoreResult, SettingChanged, SettingRestored, SettingSaved
from core.actions.model import Refusal
from core.actions.session import Session
from core.actions.views import SettingView
from core.errors import GivenUpError, InvariantError, OpsError, RemoteError, SnapshotError
from core.units import format_age

RESTORE_WITHIN_S: Final = 20.0
"""How long one worker tries to put a setting back before it leaves that to the next attempt."""

LATE_WITHIN_S: Final = 10.0
"""How long after a request without an answer the change may still come."""

_TRY_EVERY_S: Final = 1.0


def pause_balancer(session: Session) -> None:
    """Switch the cluster's own shedding off, unless it is.

    Raises:
        RemoteError: The cluster did not do it; whatever it did is still outstanding.
        LeaseLostError: The run is not ours any more.
    """
    switch = session.ports.cluster.system.balancer
    if isinstance(switch, Refusal):
        raise InvariantError(switch.sentence)
    current = session.ports.cluster.dynamic_setting(switch.key)
    saved = outstanding(session, switch.key)
    if current == switch.paused:  # by this run's earlier worker, or it was off before
        session.is_quiet = True
        return
    if saved is not None and current != saved.before:
        give_up(session, saved, current)
        saved = None
    if saved is None:
        session.record(SettingSaved(key=switch.key, before=current, during=switch.paused))
    change(session, switch.key, switch.paused)
    session.is_quiet = True


def change(session: Session, key: str, value: str) -> None:
    """Give a setting that was saved its value for the run.

    Raises:
        RemoteError: The cluster did not do it; whatever it did is still outstanding.
        LeaseLostError: The run is not ours any more.
    """
    session.require_ours()
    try:
        session.ports.cluster.set_dynamic_setting(key, value)
    except RemoteError as exc:
        if exc.outcome != "unknown" or not _comes_late(session, key, value):
            raise
    session.record(SettingChanged(key=key))


def _comes_late(session: Session, key: str, value: str) -> bool:
    """Check whether a change without an answer still comes: read too soon, it is never restored.

    Raises:
        RemoteError: It cannot be read at the end of it.
    """
    clock = session.ports.clock
    until_s = clock.monotonic() + LATE_WITHIN_S
    while True:
        is_last = clock.monotonic() >= until_s
        try:
            if session.ports.cluster.dynamic_setting(key) == value:
                return True
        except RemoteError as exc:
            if is_last:
                raise
            if isinstance(exc, GivenUpError):
                session.notice_given_up()
        if is_last or session.is_shutting_down:
            return False
        session.hold(_TRY_EVERY_S)


def restore(session: Session) -> bool:
    """Restore whatever the run changed, latest first; return whether nothing is outstanding.

    Raises:
        RemoteError: The journal cannot be written; the setting may have been restored.
        LeaseLostError: The run is not ours any more.
    """
    session.is_quiet = session.has_checked_settings = False
    found = [_restore(session, saved) for saved in session.view.outstanding_settings[::-1]]
    return all(found)


def _restore(session: Session, saved: SettingView) -> bool:
    clock = session.ports.clock
    until_s = clock.monotonic() + RESTORE_WITHIN_S
    while True:
        session.require_ours()
        try:
            result, sentence = _try(session, saved)
        except (RemoteError, SnapshotError) as exc:
            session.idle(0.0)
            if isinstance(exc, GivenUpError):
                session.refresh()  # a stop does not keep a setting from being restored
            if clock.monotonic() < until_s and not session.is_shutting_down:
                clock.hold(_TRY_EVERY_S)
                continue
            _complain(session, saved, exc)
            return False
        _write(session, saved, result, sentence)
        return True


def _try(session: Session, saved: SettingView) -> tuple[RestoreResult, str]:
    cluster = session.ports.cluster
    current = cluster.dynamic_setting(saved.key)
    if saved.is_as_before(current):
        return "restored", (
            f"{saved.key} is unchanged from before the run: {text_of(saved.before)}."
        )
    if not saved.is_ours(current):
        return "changed_by_others", _theirs(session, saved, current)
    why_not = cluster.system.why_left(saved, _by_hand(session, saved), cluster.snapshot)
    if why_not:
        return "not_restored", why_not
    session.require_ours()
    cluster.set_dynamic_setting(saved.key, saved.before)
    return (
        "restored",
        f"{saved.key} was restored from {text_of(current)} to {text_of(saved.before)}.",
    )


def _complain(session: Session, saved: SettingView, exc: OpsError) -> None:
    remedy = _by_hand(session, saved)
    sentence = (
        f"{saved.key} of {session.view.cluster} may still be {saved.during} instead of "
        f"{text_of(saved.before)}. It could not be restored within "
        f"{format_age(RESTORE_WITHIN_S)}: {exc.message} The worker retries. To restore it "
        f"manually: {remedy}"
    )
    if not (saved.result == "failed" and saved.sentence == sentence):
        _write(session, saved, "failed", sentence)


def _by_hand(session: Session, saved: SettingView) -> str:
    for step in session.plan.steps:
        if step.subject == saved.key and step.setting is not None:
            return "; ".join(step.restore_lines(saved.before))
    switch = session.ports.cluster.system.balancer
    return "" if isinstance(switch, Refusal) else switch.restore_line(saved.before)


def give_up(session: Session, saved: SettingView, current: str | None) -> None:
    """Record an external change of a setting; the current value stays."""
    _write(session, saved, "changed_by_others", _theirs(session, saved, current))


def _theirs(session: Session, saved: SettingView, current: str | None) -> str:
    return (
        f"{saved.key} of {session.view.cluster} is {text_of(current)}: it was changed externally "
        f"during the run, which set it to {saved.during} from {text_of(saved.before)}. The "
        "current value stays."
    )


def _write(session: Session, saved: SettingView, result: RestoreResult, sentence: str) -> None:
    session.record(SettingRestored(key=saved.key, result=result, sentence=sentence))


def outstanding(session: Session, key: str) -> SettingView | None:
    """Return a setting that the run still has to restore, or ``None``."""
    found = (item for item in session.view.outstanding_settings if item.key == key)
    return next(found, None)


def text_of(value: str | None) -> str:
    """Return a setting's value for people."""
    return "not set dynamically" if value is None else value or "empty"
