"""Setting a value that must still be what the plan found: the rule and its words, for every kind.

Used for the meta level, settings of brokers and of servers, and policies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.actions.model import Observation, Refusal, StepResult

PLAN_AGAIN = "Take a fresh snapshot and plan again."


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """One value that is to be set.

    Attributes:
        name: Of what is set, with its article: ``The meta level``.
        before: What the plan found.
        wanted: What it is to be.
        is_same: Whether two values mean the same.
        format: A value for people.
    """

    name: str
    before: str | None
    wanted: str | None
    is_same: Callable[[str | None, str | None], bool]
    format: Callable[[str | None], str]

    def check(self, seen: str | None) -> Refusal | None:
        """Return ``already_set`` or ``changed_meanwhile``, or ``None`` if it can be set."""
        return self.check_unset(seen) or self.check_unchanged(seen)

    def check_unset(self, seen: str | None) -> Refusal | None:
        """Return ``already_set``, or ``None`` if it has another value."""
        if not self.is_same(seen, self.wanted):
            return None
        return Refusal(
            code="already_set",
            sentence=f"{self.name} is already {self.format(seen)}.",
            hint="Nothing has to be done.",
        )

    def check_unchanged(self, seen: str | None) -> Refusal | None:
        """Return ``changed_meanwhile``, or ``None`` if it still has the planned value."""
        if self.is_same(seen, self.before):
            return None
        return Refusal(
            code="changed_meanwhile",
            sentence=f"{self.name} is {self.format(seen)}; it was {self.format(self.before)} when "
            "the plan was made.",
            hint=PLAN_AGAIN,
        )

    def failed(
        self, before: Observation, now: Observation, *, hint: str, others: str = ""
    ) -> StepResult:
        """Return ``not_done`` or ``changed_by_others``, when the time is up.

        Args:
            before: Seen when it was begun.
            now: Seen last; it is not what is wanted.
            hint: What to do.
            others: Added after an external change.
        """
        is_as_before = self.is_same(now.value, before.value)
        sentence = f"{self.name} is {self.format(now.value)}, not {self.format(self.wanted)}."
        return StepResult(
            state="FAILED",
            code="not_done" if is_as_before else "changed_by_others",
            sentence=sentence if is_as_before else f"{sentence}{others}",
            hint=hint,
            after=now,
        )
