"""Settings that steps change for the time of the run (``is_restored``): saved, checked, restored.

What a setting was is on record before the step is begun; :mod:`core.actions.balancer` puts it back
in every exit path. Where that has happened meanwhile (a pause, a worker that shut down), or a
new leading meta server has forgotten it, it is set again before the next step is begun.
"""

from __future__ import annotations

from core.actions.balancer import change, give_up, outstanding, text_of
from core.actions.events import SettingChanged, SettingSaved
from core.actions.model import Observation, Refusal
from core.actions.session import Session
from core.actions.views import SettingView
from core.step import Step


def cannot_be_restored(step: Step, seen: Observation) -> Refusal | None:
    """Return the refusal of a temporary setting that could not be restored, or ``None``."""
    if step.temporary_value is None or seen.value is not None:
        return None
    return Refusal(
        code="setting_unknown",
        sentence=f"The current value of {step.subject} is unknown, so it could not be restored.",
        hint="Check it manually, or change it permanently.",
    )


def save(session: Session, step: Step, seen: Observation) -> None:
    """Put on record what a setting is, before a step changes it for the time of the run.

    Raises:
        RemoteError: The journal cannot be written.
        LeaseLostError: The run is not ours any more.
    """
    value = step.temporary_value
    if value is None:
        return
    saved = outstanding(session, step.subject)
    if saved is not None and not saved.is_known(seen.value):
        give_up(session, saved, seen.value)
    session.record(SettingSaved(key=step.subject, before=seen.value, during=value))


def keep(session: Session) -> Refusal | None:
    """Set again what the run's steps had set and what is not set so any more.

    Returns:
        Why the run cannot go on: it was changed externally, and is left so.
    Raises:
        RemoteError: The cluster did not do it; whatever it did is still outstanding.
        LeaseLostError: The run is not ours any more.
    """
    for key, value in session.view.temporary_values.items():
        current = session.ports.cluster.dynamic_setting(key)
        saved = next(item for item in session.view.settings if item.key == key)
        if current == value:
            if (
                saved.result == "not_restored"
            ):  # by a pause: whether it can be restored is checked again at the end
                session.record(SettingSaved(key=key, before=saved.before, during=value))
                session.record(SettingChanged(key=key))
            continue
        reset = ""
        if not saved.is_known(current):
            reset = session.ports.cluster.system.why_reset(key, current)
            if not reset:
                return _theirs(session, saved, current)
        why = f" ({reset})" if reset else ""
        sentence = (
            f"{key} changed back to {text_of(current)}{why}; set to {value} again for the run."
        )
        session.record(SettingSaved(key=key, before=current, during=value, sentence=sentence))
        change(session, key, value)
    session.has_checked_settings = True
    return None


def _theirs(session: Session, saved: SettingView, current: str | None) -> Refusal:
    if saved.is_outstanding:
        give_up(session, saved, current)
    return Refusal(
        code="setting_changed",
        sentence=f"{saved.key} of {session.view.cluster} is {text_of(current)}: it was changed "
        f"externally, and the run needs {saved.during}. The current value stays.",
        hint="Find out who changed it and why, then plan the remaining steps again.",
    )
