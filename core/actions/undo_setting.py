"""Taking back what a run set: the value that was there before, unless somebody changed it since."""

from __future__ import annotations

from core.actions.views import StepView
from core.plan.checks import Basis
from core.plan.model import Diagnostic, SetDynamicSetting
from core.plan.setting import is_same, stored_settings
from core.plan.words import NOT_SET
from core.pulsar.settings import SETTING_BY_KEY


def is_set(step: StepView) -> bool:
    """Return whether a setting was changed, also where not every broker follows it."""
    after = step.ending.after if step.ending else None
    asked = step.step
    return (
        step.state in ("DONE", "FAILED")
        and isinstance(asked, SetDynamicSetting)
        and after is not None
        and after.value == asked.value
    )


def setting_hindrance(basis: Basis, step: StepView) -> Diagnostic | None:
    """Return why a setting is not put back; nothing for one that never was changed."""
    asked = step.step
    if not isinstance(asked, SetDynamicSetting):
        return None
    if step.state == "UNKNOWN":
        return not_undone(
            step,
            "undo_unknown",
            f"Whether {asked.key} was changed is unknown: it is left as it is.",
            "Look at its dynamic value, and set it by hand if need be.",
        )
    if not is_set(step) or step.before is None:
        return None
    held = stored_settings(basis.snapshot).get(asked.key)
    setting = SETTING_BY_KEY[asked.key]
    if is_same(setting, held, step.before.value):
        return Diagnostic(
            severity="info",
            code="undo_not_needed",
            sentence=f"{asked.key} is {held or NOT_SET} already, as it was.",
            subject=asked.key,
        )
    if is_same(setting, held, asked.value):
        return None
    return not_undone(
        step,
        "undo_changed_since",
        f"{asked.key} is {held or NOT_SET} now; the run left it at {asked.value or NOT_SET}: "
        "somebody changed it since.",
        "Ask who did, and set it by hand if it still has to go back.",
    )


def not_undone(step: StepView, code: str, sentence: str, hint: str) -> Diagnostic:
    """Return that a step stays as it is."""
    return Diagnostic(
        severity="warning", code=code, sentence=sentence, subject=step.step.subject, hint=hint
    )
