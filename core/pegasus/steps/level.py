"""Set the meta level: everything Trimtab knows about this kind of step but how to send it.

The other half is :mod:`connectors.pegasus.actions.level`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Self

from msgspec import structs

from core.access import Role
from core.errors import InputError
from core.pegasus.levels import FunctionLevel, clears_proposals, parse_level
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.base import PegasusStep, PlanBuilder, ProjectedState
from core.step import Diagnostic, Executed, Inverse, Phrase, SettingChange
from core.values import inverse_value

LEVEL_KEY: Final = "meta level"
"""How the function level is called where settings are saved and put back."""

_RECORDED_AS: Final = "level"
"""Subject of the events that history records when the level has changed."""


class SetMetaLevel(PegasusStep, frozen=True, kw_only=True, tag="set_meta_level"):
    """Set the function level of the meta server; steady or below discards what is pending.

    Attributes:
        before: Stored level when the plan was made, ``steady``: the precondition.
        level: What it shall be.
        is_restored: Restored when the run ends, however it ends.
    """

    phrase: ClassVar[Phrase] = Phrase("set", "meta level", "set", "was set", order=0)

    before: str
    level: str
    is_restored: bool = False

    @property
    def subject(self) -> str:
        """The level."""
        return LEVEL_KEY

    @property
    def recorded_as(self) -> tuple[str, ...]:
        """The level, by both of its names."""
        return (_RECORDED_AS, LEVEL_KEY)

    # -- capabilities ---------------------------------------------------------------------------

    @property
    def is_paced(self) -> bool:
        """It moves nothing."""
        return False

    @property
    def is_prerequisite(self) -> bool:
        """No proposal is executed at a level that is too low."""
        return True

    @property
    def setting(self) -> SettingChange:
        """The level."""
        return SettingChange(self.before, self.level, is_temporary=self.is_restored)

    @property
    def role(self) -> Role:
        """An operator: whoever is on call freezes and frees the balancer."""
        return "operator"

    @property
    def starts_balancer(self) -> bool:
        """Return whether the meta server balances at the level."""
        return self.sets_level is FunctionLevel.LIVELY

    def value_in(self, facts: PegasusFacts) -> str | None:
        """Return the stored level."""
        return None if facts.stored_level is None else facts.stored_level.word

    @property
    def discards_queued(self) -> bool:
        """Whether the meta server discards pending proposals at the level."""
        return self.sets_level is not None and clears_proposals(self.sets_level)

    @property
    def sets_level(self) -> FunctionLevel | None:
        """The level, where there is one of that name."""
        return next((one for one in FunctionLevel if one.word == self.level), None)

    @property
    def confirmation(self) -> str:
        """Below steady, that nothing is repaired."""
        if self.sets_level is not None and self.sets_level >= FunctionLevel.STEADY:
            return ""
        return f"at level {self.level} nothing is repaired"

    @property
    def not_undone(self) -> str:
        """Changes by the meta server at the level: moves, discards, missing repairs."""
        if self.starts_balancer:
            return "Replicas that the balancer moved at lively stay where they are."
        if self.discards_queued:
            return "Pending proposals that the level discarded are not queued again."
        return ""

    # -- text -----------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return ``Set the meta level from steady to lively``."""
        until = ", until the run ends" if self.is_restored else ""
        return f"Set the meta level from {self.before} to {self.level}{until}"

    def describe_progress(self) -> str:
        """Return ``Setting the meta level to lively``."""
        return f"Setting the meta level to {self.level}"

    @classmethod
    def summarize(cls, steps: Sequence[Self]) -> str:
        """Return ``sets the level to lively``, once for each step."""
        return ", ".join(
            f"sets the level to {step.level}{' until the run ends' * step.is_restored}"
            for step in steps
        )

    def command_lines(self) -> tuple[str, ...]:
        """Return the line of Pegasus' shell."""
        return (f"set_meta_level {self.level}",)

    def restore_lines(self, before: str | None) -> tuple[str, ...]:
        """Return the line that sets the former level."""
        return structs.replace(self, level=before or "").command_lines()

    # -- precondition, effect and inverse -------------------------------------------------------

    def check(self, state: ProjectedState) -> Diagnostic | None:
        """Refuse a word that is no level: the meta server would store it, and die of it later."""
        try:
            level = parse_level(self.level)
        except InputError as exc:
            return Diagnostic(
                severity="error",
                code="unknown_level",
                sentence=exc.message,
                subject=self.subject,
                hint=exc.hint,
            )
        state.store_level(level)
        return None

    def add_to(self, plan: PlanBuilder) -> None:
        """Add it with the level before as of now."""
        plan.set_level(parse_level(self.level), is_restored=self.is_restored)

    def inverse(self, done: Executed, plan: PlanBuilder) -> Iterator[Inverse]:
        """Yield the step that sets the level of before, unless it was changed since."""
        held = None if plan.facts.stored_level is None else plan.facts.stored_level.word
        before = (done.before.value if done.before else None) or self.before
        finding = inverse_value(self.subject, held=held, left_at=self.level, before=before)
        if finding is not None:
            yield Inverse(finding=finding)
        else:
            level = parse_level(before).word
            yield Inverse(SetMetaLevel(before=held or self.level, level=level))
