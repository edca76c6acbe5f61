"""Copies of runs: how much so far, how much was predicted, and how fast they are on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from core.actions.views import RunView
from core.plan.model import Plan
from core.plan.options import CopyRate
from core.units import format_mb

MAX_COPIES: Final = 20
"""So many of the latest copies of a cluster give its rate."""


def predicted_mb(plan: Plan) -> float | None:
    """Return the amount that a plan copies, MB; 0 for none, ``None`` if unknown."""
    if plan.expected.copied_mb is not None:
        return plan.expected.copied_mb
    return 0.0 if all(step.copied_mb == 0 for step in plan.steps) else None


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Copy progress of a run.

    Attributes:
        predicted_mb: By the plan; ``None`` if unknown, 0: it copies nothing.
        so_far_mb: By the steps that are done; ``None`` if the cluster copies by itself, uncounted.
        rate_mb_per_s: Of the copies that are done; ``None`` if none is.
    """

    predicted_mb: float | None
    so_far_mb: float | None
    rate_mb_per_s: float | None

    @classmethod
    def of(cls, view: RunView) -> CopyProgress:
        """Return the progress of a run."""
        predicted = predicted_mb(view.plan)
        done = list(_copies(view))
        size_mb, took_s = (sum(column) for column in zip((0.0, 0.0), *done, strict=True))
        return cls(
            predicted_mb=predicted,
            so_far_mb=size_mb if any(step.copied_replicas for step in view.plan.steps) else None,
            rate_mb_per_s=size_mb / took_s if took_s > 0 else None,
        )

    def describe(self) -> dict[str, str]:
        """Return the amount so far, what was predicted, and the rate if known, by label."""
        if self.predicted_mb == 0:
            return {"so far": "0 B", "predicted": "0 B"}
        described = {
            "so far": _amount(self.so_far_mb, "not counted"),
            "predicted": _amount(self.predicted_mb, "unknown"),
        }
        if self.rate_mb_per_s is not None:
            described["rate"] = f"{format_mb(self.rate_mb_per_s)}/s"
        return described


def _amount(size_mb: float | None, unknown: str) -> str:
    if size_mb is None:
        return unknown
    return "0 B" if size_mb == 0 else format_mb(size_mb)


def recent_copy_rate(views: Iterable[RunView]) -> CopyRate | None:
    """Return the rate of a cluster's latest copies, or ``None`` if there were none.

    Args:
        views: Its runs, the newest first.
    """
    rates: list[float] = []
    for view in views:
        rates += [size_mb / took_s for size_mb, took_s in _copies(view)]
        if len(rates) >= MAX_COPIES:
            break
    counted = rates[:MAX_COPIES]
    if not counted:
        return None
    basis = "the last copy here" if len(counted) == 1 else f"the last {len(counted)} copies here"
    return CopyRate(median(counted), basis)


def _copies(view: RunView) -> Iterator[tuple[float, float]]:
    """Yield megabytes and seconds of each copy that is done, the newest first."""
    for step in reversed(view.steps):
        size_mb = step.step.copied_mb if step.step.copied_replicas else None
        if step.state == "DONE" and step.took_ms and size_mb:
            yield size_mb, step.took_ms / 1000
