"""Set a dynamic setting: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pulsar.actions.setting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final
from urllib.parse import quote

from msgspec import UNSET, UnsetType, structs

from core.pulsar.presets import upstream_words
from core.pulsar.setting_values import is_same_setting
from core.pulsar.settings import SETTING_BY_KEY
from core.pulsar.steps.base import AdminRequest, Checks, PulsarStep
from core.step import Diagnostic, Executed, Inverse, Phrase, SettingChange, Step

NOT_SET: Final = "not set dynamically"
"""Label of a setting that has no dynamic value."""

_SWITCHES: Final = {
    "loadBalancerEnabled": "brokers then balance automatically",
    "loadBalancerSheddingEnabled": "the leader then sheds bundles automatically",
    "loadBalancerAutoBundleSplitEnabled": "bundles are then split, which cannot be undone",
}
"""What follows when a switch that is off is set to true."""


def setting_request(key: str, value: str | None) -> AdminRequest:
    """Return the request that sets a dynamic setting, or removes it with ``None``."""
    path = f"brokers/configuration/{quote(key, safe='')}"
    if value is None:
        return AdminRequest("DELETE", path)
    return AdminRequest("POST", f"{path}/{quote(value, safe='')}")


class SetDynamicSetting(PulsarStep, frozen=True, kw_only=True, tag="set_dynamic_setting"):
    """Set a dynamic setting of all brokers, or remove it so that their own files count again.

    Attributes:
        key: Upstream key.
        before: Its dynamic value when the plan was made, ``None`` if it had none. The precondition.
        value: What it shall be, as the brokers write it; ``None`` if removed.
        running: What the brokers followed when the plan was made; unset: unknown. It is left out of
            plans and journals then, so that those of before it was there keep their seals.
    """

    phrase: ClassVar[Phrase] = Phrase("change", "setting", "changed", "was changed", order=2)

    key: str
    before: str | None = None
    value: str | None = None
    running: str | UnsetType = UNSET

    @property
    def subject(self) -> str:
        """The key."""
        return self.key

    @property
    def setting(self) -> SettingChange:
        """The dynamic value."""
        return SettingChange(self.before, self.value, is_persistent=True)

    @property
    def confirmation(self) -> str:
        """The balancing that it enables, where that was off or is not known to be on."""
        was = self.before or self.running
        is_on = was is not UNSET and str(was).lower() == "true"
        sets_going = (self.value or "").lower() == "true" and not is_on
        return _SWITCHES.get(self.key, "") if sets_going else ""

    @property
    def lets_others_move(self) -> bool:
        """Brokers do, as the value has it."""
        return self.temporary_value is None

    @property
    def not_undone(self) -> str:
        """Changes by brokers while the value was set."""
        if self.temporary_value is not None:
            return ""
        return "Bundles that brokers moved or split while the setting was changed are not reverted."

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Set loadBalancerEnabled to false (until now true)``."""
        if self.value is None:
            return f"Remove {self.key}, which is {self.before} dynamically"
        return f"Set {self.key} to {self.value} ({self._describe_before()})"

    def describe_progress(self) -> str:
        """Return ``Setting loadBalancerEnabled to false``."""
        if self.value is None:
            return f"Removing the dynamic value {self.before} of {self.key}"
        return f"Setting {self.key} to {self.value}"

    def describe_dry_run(self, holder: str | None = None) -> str:
        """Return the value that would be set or removed."""
        del holder
        if self.value is None:
            return f"The dynamic value {self.before} of {self.key} would be removed."
        return f"{self.key} would be set to {self.value} ({self._describe_before()})."

    def _describe_before(self) -> str:
        """Return the value when the plan was made, as far as it was known."""
        if self.before is not None:
            return f"currently {self.before}"
        if self.running is not UNSET:
            return f"currently {self.running or 'empty'}, {NOT_SET}"
        known = SETTING_BY_KEY.get(self.key)
        if known is None or known.default in (None, "", ()):
            return f"currently {NOT_SET}"
        released = upstream_words(known.default)
        return f"currently {NOT_SET}; {released} unless broker.conf has another value"

    def admin_words(self) -> list[str]:
        """Return ``brokers update-dynamic-config``, or ``delete-dynamic-config``."""
        verb = "delete" if self.value is None else "update"
        words = ["brokers", f"{verb}-dynamic-config", "--config", self.key]
        return words if self.value is None else [*words, "--value", self.value]

    def restore_lines(self, before: str | None) -> tuple[str, ...]:
        """Return the line that sets the former value, or removes the setting."""
        return structs.replace(self, value=before).command_lines()

    def request(self) -> AdminRequest:
        """Return the ``POST`` with the value in its path, or the ``DELETE``."""
        return setting_request(self.key, self.value)

    # -- precondition and inverse ---------------------------------------------------------------

    def check(self, checks: Checks) -> Diagnostic | None:
        """Check the value; what it is now is read right before it is changed."""
        if self.key in SETTING_BY_KEY:
            return checks.setting(self.key, self.value)
        return Diagnostic(
            severity="error",
            code="setting_unknown",
            sentence=f"{self.key} is not a load-balancer setting.",
            subject=self.key,
            hint="Create a new plan with a valid setting.",
        )

    def has_taken_effect(self, done: Executed) -> bool:
        """Return whether it is stored, even if not every broker uses it."""
        return done.state == "DONE" or self._is_stored(done)

    def _is_stored(self, done: Executed) -> bool:
        after = done.after
        return done.state in ("DONE", "FAILED") and after is not None and after.value == self.value

    def inverse(self, done: Executed, checks: Checks) -> Inverse:
        """Return the step that sets the value of before, unless it was changed since."""
        if done.state == "UNKNOWN":
            return self._stays(
                "undo_unknown",
                f"Whether {self.key} was changed is unknown: it is not reverted.",
                "Check its dynamic value, and set it manually if needed.",
            )
        if not self._is_stored(done) or done.before is None:
            return Inverse()
        before = done.before.value
        held = checks.stored_setting(self.key)
        known = SETTING_BY_KEY[self.key]
        if is_same_setting(known, held, before):
            return Inverse(
                finding=Diagnostic(
                    severity="info",
                    code="undo_not_needed",
                    sentence=f"{self.key} is already {held or NOT_SET}, as before.",
                    subject=self.key,
                )
            )
        if is_same_setting(known, held, self.value):
            return Inverse(SetDynamicSetting(key=self.key, before=held, value=before))
        return self._stays(
            "undo_changed_since",
            f"{self.key} is now {held or NOT_SET}; the run left it at "
            f"{self.value or NOT_SET}: it was changed externally.",
            "Find out who changed it, and set it manually if it still has to be reverted.",
        )

    def _stays(self, code: str, sentence: str, hint: str) -> Inverse:
        return Inverse(
            finding=Diagnostic(
                severity="warning", code=code, sentence=sentence, subject=self.key, hint=hint
            )
        )


def setting_values(steps: Iterable[Step]) -> dict[str, str | None]:
    """Return the values that the steps of a plan set: key to value, ``None`` if removed."""
    return {step.key: step.value for step in steps if isinstance(step, SetDynamicSetting)}
