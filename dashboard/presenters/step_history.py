"""The past of one object: the steps of runs in which it took part."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.actions.views import RunView, StepView
from dashboard.presenters.runs import after_words, before_words, landed, step_words


def touching(views: Sequence[RunView], subject: str, limit: int = 50) -> pd.DataFrame:
    """Return the steps of runs that a bundle or broker took part in, the newest run first.

    Args:
        views: Runs, the newest first.
        subject: Name of a bundle, partition or node, or broker id.
        limit: Most rows.
    """
    rows: list[dict[str, object]] = []
    for view in views:
        rows += [_row_of(view, step) for step in view.steps if subject in _parts(step)]
        if len(rows) >= limit:
            break
    return pd.DataFrame(
        rows[:limit], columns=["run", "at", "state", "bundle", "from", "to", "who", "why"]
    )


def _parts(step: StepView) -> tuple[str | None, ...]:
    return (step.step.subject, step.step.owner, step.step.destination, landed(step))


def _row_of(view: RunView, step: StepView) -> dict[str, object]:
    return {
        "run": view.run_id,
        "at": step.begun_at or view.requested_at,
        "state": step_words(step),
        "bundle": step.step.subject,
        "from": before_words(step),
        "to": after_words(step),
        "who": view.requested_by,
        "why": view.reason,
    }
