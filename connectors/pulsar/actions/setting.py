"""Setting a dynamic setting: what is observed, sent and judged.

The other half is :mod:`core.pulsar.steps.setting`.

Brokers store any value and continue with the old one where they cannot read the new
one. So a change counts as done when it is stored and every broker that answers runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, Protocol

from core.actions.compare_and_set import CompareAndSet
from core.actions.model import Observation, Refusal, StepResult
from core.pulsar.setting_values import is_same_setting
from core.pulsar.settings import known_setting
from core.pulsar.steps.base import AdminRequest
from core.pulsar.steps.setting import NOT_SET, SetDynamicSetting

_MAX_NAMED: Final = 4


class SettingPort(Protocol):
    """Its cluster interface."""

    def dynamic_setting(self, key: str) -> str | None:
        """Return the dynamic value of a setting, ``None`` when it has none."""
        ...

    def send_to_any(self, request: AdminRequest) -> None:
        """Send a request to one broker, once."""
        ...

    def brokers(self) -> Collection[str]:
        """Return the ids of the brokers that may be contacted."""
        ...

    def running(self, key: str, brokers: Collection[str]) -> Mapping[str, str | None]:
        """Return the brokers' running values, or ``None`` if one does not answer."""
        ...


class SettingAction:
    """One change of a dynamic setting.

    Args:
        step: What to do.
        cluster: Where.
    """

    def __init__(self, step: SetDynamicSetting, cluster: SettingPort) -> None:
        self._step = step
        self._cluster = cluster
        self._setting = known_setting(step.key)
        self._rule = CompareAndSet(
            step.key, step.before, step.value, partial(is_same_setting, self._setting), _text
        )
        self._followers: set[str] = set()
        self._behind: dict[str, str | None] = {}

    @property
    def timeout_s(self) -> float:
        """The run's own."""
        return 0.0

    def look(self) -> Observation:
        """Read the stored value and, where it is the wanted one, what the brokers run."""
        step = self._step
        value = self._cluster.dynamic_setting(step.key)
        self._behind = {}
        if value is not None and self._is_wanted(value):
            brokers = self._cluster.brokers()
            waiting = [name for name in brokers if name not in self._followers]
            running = self._cluster.running(step.key, waiting)
            self._behind = {
                name: text for name, text in running.items() if not self._is_wanted(text)
            }
            self._followers |= running.keys() - self._behind.keys()
        return Observation(exists=True, value=value, detail=self._describe_behind())

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason the setting cannot be changed as planned."""
        return self._rule.check(seen.value)

    def send(self) -> None:
        """Request the change, once."""
        self._cluster.send_to_any(self._step.request())

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the success, or ``None`` while it is not set or a broker is behind."""
        if not self._is_wanted(now.value) or self._behind:
            return None
        return self._set(before, now)

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when the change was not seen everywhere in time."""
        step = self._step
        if not self._is_wanted(now.value):
            return self._rule.failed(
                before,
                now,
                hint="Check the log of the brokers, then plan again.",
                others=" It was changed externally after the step began.",
            )
        if any(text is not None for text in self._behind.values()):
            return StepResult(
                state="FAILED",
                code="not_followed",
                sentence=f"{step.key} is stored as {_text(step.value)}, but not in effect. "
                f"{now.detail}",
                hint="Undo the run to restore it, or restart these brokers.",
                after=now,
            )
        return self._set(before, now)

    def _set(self, before: Observation, now: Observation) -> StepResult:
        step = self._step
        was = _text(before.value)
        if step.value is None:
            sentence = f"The dynamic value of {step.key}, {was}, was removed."
        else:
            count = len(self._followers)
            run = f"; {count} of {count + len(self._behind)} brokers use it"
            sentence = f"{step.key} was set to {step.value} (was {was}){run}."
        if now.detail:
            sentence = f"{sentence} {now.detail}"
        return StepResult(state="DONE", code="set", sentence=sentence, hint=self._hint(), after=now)

    def _hint(self) -> str:
        if self._setting.takes_effect == "restart":
            return "It takes effect after a restart of the brokers."
        return ""

    def _is_wanted(self, value: str | None) -> bool:
        return is_same_setting(self._setting, value, self._step.value)

    def _describe_behind(self) -> str:
        behind = [
            f"{name} uses {text}" if text is not None else f"{name} does not respond"
            for name, text in sorted(self._behind.items())
        ]
        more = f" and {len(behind) - _MAX_NAMED} more" if behind[_MAX_NAMED:] else ""
        return f"{', '.join(behind[:_MAX_NAMED])}{more}." if behind else ""


def _text(value: str | None) -> str:
    return NOT_SET if value is None else value
