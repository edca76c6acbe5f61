"""Setting the meta level: what is observed, sent and judged.

The other half is :mod:`core.pegasus.steps.level`.
"""

from __future__ import annotations

from operator import eq
from typing import Protocol

from connectors.pegasus.acting.partition_reader import PartitionReader
from connectors.pegasus.acting.settings import ServerSettings
from core.actions.compare_and_set import PLAN_AGAIN, CompareAndSet
from core.actions.model import Observation, Refusal, StepResult
from core.errors import InputError
from core.pegasus.levels import clears_proposals, parse_level
from core.pegasus.steps.level import LEVEL_KEY, SetMetaLevel


class LevelPort(Protocol):
    """Its cluster interface."""

    @property
    def settings(self) -> ServerSettings:
        """Reads and sets the stored level."""
        ...

    @property
    def reader(self) -> PartitionReader:
        """Reads the level in effect."""
        ...


class LevelAction:
    """One change of the function level.

    Args:
        step: What to do.
        cluster: Where.
    """

    timeout_s = 0.0

    def __init__(self, step: SetMetaLevel, cluster: LevelPort) -> None:
        self._step = step
        self._cluster = cluster
        self._rule = CompareAndSet("The meta level", step.before, step.level, eq, str)
        self._is_answered = False

    def look(self) -> Observation:
        """Read the stored level."""
        return Observation(exists=True, value=self._cluster.settings.value(LEVEL_KEY))

    def check_precondition(self, seen: Observation) -> Refusal | None:
        """Return the reason it cannot be set as planned."""
        step = self._step
        try:
            parse_level(step.level)
        except InputError as exc:  # the meta server would store it, and die of it later
            return Refusal(code="unknown_level", sentence=exc.message, hint=exc.hint)
        if step.level == step.before:  # it is meant to clear what is pending
            return self._rule.check_unchanged(seen.value)
        return self._rule.check(seen.value)

    def send(self) -> None:
        """Set it, once."""
        self._cluster.settings.set_value(LEVEL_KEY, self._step.level)
        self._is_answered = True

    def result(self, before: Observation, now: Observation) -> StepResult | None:
        """Return the success, or ``None`` while it is not set."""
        step = self._step
        if now.value != step.level or self._is_ambiguous(before):
            return None
        effective = self._cluster.reader.cluster().level
        lower = (
            ""
            if effective.word == step.level
            else f" The effective level is {effective.word}: too few nodes."
        )
        cleared = " Pending proposals are discarded." if self._clears else ""
        return StepResult(
            state="DONE",
            code="set",
            sentence=f"The meta level was set to {step.level}; it was "
            f"{before.value or step.before}.{cleared}{lower}",
            hint="It returns to steady when another meta server takes over.",
            after=now,
        )

    def on_timeout(self, before: Observation, now: Observation) -> StepResult:
        """Return the result when it does not read as requested."""
        found = self.result(before, now)
        if found is not None:
            return found
        if now.value == self._step.level:
            return StepResult(
                state="FAILED",
                code="not_done",
                sentence=f"The meta level is still {now.value}; the request to discard pending "
                "changes got no response.",
                hint=PLAN_AGAIN,
                after=now,
            )
        return self._rule.failed(before, now, hint=PLAN_AGAIN)

    def _is_ambiguous(self, before: Observation) -> bool:
        """Whether the level does not show the effect of a request that discards proposals."""
        return before.value == self._step.level and self._clears and not self._is_answered

    @property
    def _clears(self) -> bool:
        return clears_proposals(parse_level(self._step.level))
