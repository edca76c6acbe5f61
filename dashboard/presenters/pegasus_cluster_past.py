"""What was applied to a Pegasus cluster from here, as its pages show it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import pandas as pd

from core.actions.views import RunView, StepView
from core.plan.pegasus_steps import SetMetaLevel, SetServerSetting
from core.units import counted
from dashboard.presenters.naming import clock, listed
from dashboard.presenters.runs import after_words, before_words, step_words

MOST_ROWS: Final = 50
_COLUMNS: Final = ("run", "at", "state", "what", "from", "to", "who", "why")


def settings_past(views: Sequence[RunView]) -> pd.DataFrame:
    """Return the steps of runs that set the level or a setting, the newest run first."""
    rows = [
        _row(view, step)
        for view in views
        for step in view.steps
        if isinstance(step.step, SetMetaLevel | SetServerSetting)
    ]
    return pd.DataFrame(rows[:MOST_ROWS], columns=list(_COLUMNS))


def _row(view: RunView, step: StepView) -> dict[str, object]:
    return {
        "run": view.run_id,
        "at": step.begun_at or view.requested_at,
        "state": step_words(step),
        "what": step.step.subject,
        "from": before_words(step),
        "to": after_words(step),
        "who": view.requested_by,
        "why": view.reason,
    }


def newer_sentence(views: Sequence[RunView], taken_at: datetime) -> str:
    """Return which runs changed something after a snapshot was taken; empty: none did."""
    newer = [view for view in views if _last_change(view) > taken_at]
    if not newer:
        return ""
    names = listed([view.run_id for view in newer])
    verb = "has" if len(newer) == 1 else "have"
    last = max(_last_change(view) for view in newer)
    return (
        f"{counted(len(newer), 'run')} {verb} changed the cluster since this snapshot, at "
        f"{clock(last)} at last: {names}. What came of it shows in the next one."
    )


def _last_change(view: RunView) -> datetime:
    """Return when a run last did a step; the beginning of time where it did none."""
    moments = [step.ended_at for step in view.steps if step.ended_at and step.state == "DONE"]
    return max(moments, default=datetime.min.replace(tzinfo=view.requested_at.tzinfo))
