"""Contract of a system for the steps of runs: their values in the field's words."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol

from dashboard.systems import SYSTEMS

if TYPE_CHECKING:
    from core.actions.views import StepView
    from core.step import Step


class StepText(Protocol):
    """The texts of one step with structured values."""

    def requested(self) -> str:
        """Return the requested change of the step."""

    def value(self, value: str | None) -> str:
        """Return a value of its subject; ``None``: not set."""

    def before(self, view: StepView) -> str:
        """Return the value before the step; the planned one where nothing was read."""

    def changed(self, view: StepView) -> str:
        """Return the change of the step, as read before and after; empty: nothing was read."""


def step_text(step: Step) -> StepText | None:
    """Return the texts of a step; ``None``: its own description is enough."""
    described = (resolve_name(one.step_text)(step) for one in SYSTEMS.values() if one.step_text)
    return next((text for text in described if text is not None), None)
