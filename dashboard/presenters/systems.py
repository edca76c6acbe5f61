"""The systems that have texts of their own for their steps: the one list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dashboard.presenters.pulsar import steps as pulsar_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.step import Step
    from dashboard.presenters.step_text import StepText

STEP_TEXTS: Final[tuple[Callable[[Step], StepText | None], ...]] = (pulsar_steps.step_text,)


def step_text(step: Step) -> StepText | None:
    """Return the texts of a step; ``None``: its own description is enough."""
    found = (describe(step) for describe in STEP_TEXTS)
    return next((one for one in found if one is not None), None)
