"""Steps of a run that were skipped for one reason, told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.actions.views import StepView


@dataclass(frozen=True)
class SameReason:
    """What repeats among the endings of steps.

    Attributes:
        repeated: Indices of steps that were skipped for the reason of an earlier one.
        sentences: One for each reason that repeats.
    """

    repeated: frozenset[int]
    sentences: tuple[str, ...]


def same_reason(steps: Sequence[StepView]) -> SameReason:
    """Return which skipped steps repeat the reason of an earlier one.

    Args:
        steps: In the order of the plan.
    """
    by_reason: dict[str, list[int]] = {}
    for step in steps:
        if step.state == "SKIPPED" and step.result is not None:
            by_reason.setdefault(step.result.sentence, []).append(step.index)
    repeated = [indices for indices in by_reason.values() if len(indices) > 1]
    return SameReason(
        frozenset(index for indices in repeated for index in indices[1:]),
        tuple(
            f"{_named(indices[1:])} skipped for the same reason as step {indices[0] + 1}."
            for indices in repeated
        ),
    )


def _named(indices: Sequence[int]) -> str:
    first, last = indices[0] + 1, indices[-1] + 1
    if first == last:
        return f"Step {first} was"
    if last - first == len(indices) - 1:
        return f"Steps {first} to {last} were"
    return f"{len(indices)} steps between {first} and {last} were"
