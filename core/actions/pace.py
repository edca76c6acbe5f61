"""How fast a run begins its steps: slowly at first, faster while all goes well, slower at trouble.

Additive increase, multiplicative decrease, as congestion control has it (RFC 5681). The pace is
computed from the run's journal alone, so a worker that takes a run over goes on at the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.actions.views import RunView, StepView
from core.units import format_age

STEP_SHARE: Final = 0.25
"""A run begins at this share of its limit, and each step that goes well adds as much."""

LEAST_SHARE: Final = 1 / 16
"""Trouble halves the pace, down to this share of the limit."""

SLOW_SHARE: Final = 0.5
"""A step that needs more than this share of the time in which it must be visible is trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Rate limit of the next steps.

    Attributes:
        per_min: Steps a minute.
        limit_per_min: What the run's options allow at most.
        why: Why it is slower than the limit, a clause; empty: it is not.
    """

    per_min: float
    limit_per_min: float
    why: str = ""

    @property
    def sentence(self) -> str:
        """The pace for people, without its end: ``2.5 of at most 10 steps a minute: ...``."""
        if not self.why:
            return f"{self.limit_per_min:g} steps/min"
        return f"{self.per_min:g} of at most {self.limit_per_min:g} steps/min ({self.why})"


def pace_of(view: RunView) -> Pace:
    """Return the rate limit of a run's next steps."""
    limit = view.options.pace_per_min
    if not view.options.is_gradual:
        return Pace(per_min=limit, limit_per_min=limit)
    share, why = STEP_SHARE, "rising with each successful step"
    for step in _moves(view):
        trouble = _trouble(step, view.options.verify_within_s)
        if trouble:
            share, why = max(share / 2, LEAST_SHARE), trouble
        elif step.state == "DONE":
            share = min(share + STEP_SHARE, 1.0)
    return Pace(per_min=limit * share, limit_per_min=limit, why="" if share == 1.0 else why)


def _moves(view: RunView) -> list[StepView]:
    """The steps that count against the pace and were begun, in the order of the plan."""
    return [step for step in view.steps if step.step.is_paced and step.begun_at is not None]


def _trouble(step: StepView, within_s: float) -> str:
    """Return the reason that a step slows down the run, or ""."""
    number = f"step {step.index + 1}"
    if step.state in ("FAILED", "UNKNOWN"):
        return f"{number} {'failed' if step.state == 'FAILED' else 'is unknown'}"
    took_s = (step.took_ms or 0.0) / 1000
    if took_s > SLOW_SHARE * within_s:
        return f"{number} took {format_age(took_s)} of {format_age(within_s)}"
    return ""
