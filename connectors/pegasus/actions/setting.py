"""Setting a server setting: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.setting`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from connectors.pegasus.acting.settings import DEFAULT, ServerSettings, is_same
from core.actions.compare_and_set import CompareAndSet
from core.actions.model import Observation, Refusal, StepResult
from core.pegasus.server_settings import BLACK_LIST, LIVE_PERCENTAGE, changeable, dangers
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.setting import SetServerSetting
from core.values import by_server

_UNTOLD: Final = "unknown"
_RISKY: Final = frozenset(
    {"balance_cluster", BLACK_LIST, LIVE_PERCENTAGE, "min_live_node_count_for_unfreeze"}
)


class SettingPort(Protocol):
    """Its cluster interface."""

    @property
    def settings(self) -> ServerSettings:
        """Reads and sets values."""
        ...

    def facts(self) -> PegasusFacts:
        """Read the cluster, for values that would harm its current state."""
        ...


class SettingAction:
    """One change of a setting of servers.

    Args:
        step: What to do.
        cluster: Where.
    """

    timeout_s = 0.0

    def __init__(self, step: SetServerSetting, cluster: SettingPort) -> None:
        self._step = step
        self._cluster = cluster
        self._is_same = partial(is_same, step.subject)
        self._rule = CompareAndSet(step.subject, step.before, step.value, self._is_same, _shown)
        self._is_answered = False

    def look(self) -> Observation:
        """Read the value."""
        return Observation(exists=True, value=self._cluster.settings.value(self._step.subject))

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason it cannot be changed as planned."""
        refusal = self._rule.check_unset(seen.value)
        if refusal is None and self._step.before is not None:
            refusal = self._rule.check_unchanged(seen.value)
        return refusal or self._harm()

    def _harm(self) -> Refusal | None:
        """Return the harm of the value for the current cluster."""
        step = self._step
        if step.key not in _RISKY:
            return None
        found = dangers(changeable(step.key), step.value, self._cluster.facts())
        refused = next((one for one in found if one.weight == "refused"), None)
        if refused is None:
            return None
        return Refusal(code=refused.code, sentence=refused.sentence, hint=refused.hint)

    def send(self) -> None:
        """Request the change, each server once."""
        self._cluster.settings.set_value(self._step.subject, self._step.value)
        self._is_answered = True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the success, or ``None`` while it is not set."""
        step = self._step
        is_default = step.value == DEFAULT and self._is_answered
        if not is_default and not self._is_same(now.value, step.value):
            return None
        return StepResult(
            state="DONE",
            code="set",
            sentence=f"{step.subject} was set to {_shown(now.value)}; it was "
            f"{_shown(before.value)}.",
            hint="It is lost when its server restarts.",
            after=now,
        )

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when it does not read as requested."""
        step = self._step
        found = self.result(before, now)
        if found is not None:
            return found
        if now.value is None:
            return StepResult(
                state="UNKNOWN",
                code="timed_out",
                sentence=f"Whether {step.subject} was set is unknown: no server reports its value.",
                hint="The step is reconciled by observation.",
                after=now,
            )
        hint = "Check the log of that server, then plan again."
        failed = self._rule.failed(before, now, hint=hint)
        each = by_server(now.value) or {}
        behind = [node for node, text in each.items() if not is_same(step.key, text, step.value)]
        if self._is_same(now.value, before.value) or not 0 < len(behind) < len(each):
            return failed
        names = ", ".join(f"{node} ({each[node]})" for node in behind)
        return replace(
            failed,
            code="partly",
            sentence=f"{step.subject} was set on {len(each) - len(behind)} of {len(each)} nodes, "
            f"not on {names}.",
        )


def _shown(value: str | None) -> str:
    return _UNTOLD if value is None else value or "empty"
