"""The cluster's own shedding: off for a run where it asks for that, and back in every exit path.

What the setting was is on record before it is changed, and it is put back only while it still is
what the run made of it: what others set meanwhile is theirs.
"""

from __future__ import annotations

from typing import Final

from core.actions.events import SettingChanged, SettingFate, SettingRestored, SettingSaved
from core.actions.guards import PAUSED_KEY
from core.actions.session import Session
from core.actions.views import SettingView
from core.errors import RemoteError
from core.units import format_age

KEY: Final = PAUSED_KEY
DURING: Final = "false"

RESTORE_WITHIN_S: Final = 20.0
"""How long one worker tries to put a setting back before it leaves that to the next attempt."""

LATE_WITHIN_S: Final = 10.0
"""How long after a request without an answer the change may still come."""

_TRY_EVERY_S: Final = 1.0


def silence(session: Session) -> None:
    """Switch the cluster's own shedding off, unless it is.

    Raises:
        RemoteError: The cluster did not do it; whatever it did is still outstanding.
        LostError: The run is not ours any more.
    """
    cluster = session.ports.cluster
    current = cluster.dynamic_setting(KEY)
    saved = _outstanding(session, KEY)
    if current == DURING:  # by this run's earlier worker, or it was off before: nothing to change
        session.is_quiet = True
        return
    if saved is not None and current != saved.before:
        _write(session, saved, "changed_by_others", _theirs(session, saved, current))
        saved = None
    if saved is None:
        session.record(SettingSaved(key=KEY, before=current, during=DURING))
    session.require_ours()
    try:
        cluster.set_dynamic_setting(KEY, DURING)
    except RemoteError as exc:
        if exc.outcome != "unknown" or not _comes_late(session):
            raise
    session.record(SettingChanged(key=KEY))
    session.is_quiet = True


def _comes_late(session: Session) -> bool:
    """Look whether a change without an answer still comes: what is read too soon is put back never.

    Raises:
        RemoteError: It cannot be read at the end of it.
    """
    clock = session.ports.clock
    until_s = clock.monotonic() + LATE_WITHIN_S
    while True:
        is_last = clock.monotonic() >= until_s
        try:
            if session.ports.cluster.dynamic_setting(KEY) == DURING:
                return True
        except RemoteError:
            if is_last:
                raise
        if is_last:
            return False
        clock.hold(_TRY_EVERY_S)


def restore(session: Session) -> bool:
    """Put back whatever the run changed; return whether nothing is outstanding any more.

    Raises:
        RemoteError: The journal cannot be written; the setting may have been put back.
        LostError: The run is not ours any more.
    """
    session.is_quiet = False
    return all(_put_back(session, saved) for saved in session.view.outstanding_settings)


def _put_back(session: Session, saved: SettingView) -> bool:
    clock = session.ports.clock
    until_s = clock.monotonic() + RESTORE_WITHIN_S
    while True:
        session.require_ours()
        try:
            fate, sentence = _try(session, saved)
        except RemoteError as exc:
            if clock.monotonic() < until_s:
                clock.hold(_TRY_EVERY_S)
                continue
            _complain(session, saved, exc)
            return False
        _write(session, saved, fate, sentence)
        return True


def _try(session: Session, saved: SettingView) -> tuple[SettingFate, str]:
    cluster = session.ports.cluster
    current = cluster.dynamic_setting(saved.key)
    if current == saved.before:
        return "restored", f"{saved.key} is as it was before the run: {_text(saved.before)}."
    if current != saved.during:
        return "changed_by_others", _theirs(session, saved, current)
    session.require_ours()
    cluster.set_dynamic_setting(saved.key, saved.before)
    return (
        "restored",
        f"{saved.key} was put back from {saved.during} to {_text(saved.before)}.",
    )


def _complain(session: Session, saved: SettingView, exc: RemoteError) -> None:
    remedy = (
        f"pulsar-admin brokers delete-dynamic-config --config {saved.key}"
        if saved.before is None
        else f"pulsar-admin brokers update-dynamic-config --config {saved.key} "
        f"--value {saved.before}"
    )
    sentence = (
        f"{saved.key} of {session.view.cluster} may still be {saved.during}; it was "
        f"{_text(saved.before)}. It could not be put back within "
        f"{format_age(RESTORE_WITHIN_S)}: {exc.message} The worker tries again; by hand: {remedy}"
    )
    if not (saved.fate == "failed" and saved.sentence == sentence):
        _write(session, saved, "failed", sentence)


def _theirs(session: Session, saved: SettingView, current: str | None) -> str:
    return (
        f"{saved.key} of {session.view.cluster} is {_text(current)}: somebody changed it during "
        f"the run, which had set it to {saved.during} from {_text(saved.before)}. It is left so."
    )


def _write(session: Session, saved: SettingView, fate: SettingFate, sentence: str) -> None:
    session.record(SettingRestored(key=saved.key, fate=fate, sentence=sentence))


def _outstanding(session: Session, key: str) -> SettingView | None:
    found = (item for item in session.view.outstanding_settings if item.key == key)
    return next(found, None)


def _text(value: str | None) -> str:
    return "not set dynamically" if value is None else value
