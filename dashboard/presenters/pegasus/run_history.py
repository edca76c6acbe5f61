"""Runs on a Pegasus cluster from here, as its pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

import pandas as pd

from core.actions.views import RunView, StepView
from core.errors import UnknownNameError
from core.pegasus.levels import level_of
from core.units import listed
from dashboard.presenters.naming import clock
from dashboard.presenters.runs import after_words, before_words, step_words

MAX_ROWS: Final = 50
_COLUMNS: Final = ("run", "at", "state", "what", "from", "to", "who", "why")


def settings_past(views: Sequence[RunView]) -> pd.DataFrame:
    """Return the steps of runs that set the level or a setting, the newest run first."""
    rows = [
        _row(view, step) for view in views for step in view.steps if step.step.setting is not None
    ]
    return pd.DataFrame(rows[:MAX_ROWS], columns=list(_COLUMNS))


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
    """Return the runs with changes after a snapshot was taken; empty: none."""
    newer = [view for view in views if _last_change(view) > taken_at]
    if not newer:
        return ""
    names = listed([view.run_id for view in newer])
    last = max(_last_change(view) for view in newer)
    return (
        f"Runs with changes since this snapshot: {names} (latest change {clock(last)}). "
        "The next snapshot shows the result."
    )


def _last_change(view: RunView) -> datetime:
    """Return the time of the last step of a run; the minimum where there is none."""
    moments = [step.ended_at for step in view.steps if step.ended_at and step.state == "DONE"]
    return max(moments, default=datetime.min.replace(tzinfo=view.requested_at.tzinfo))


# -- the level over time ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LevelMoment:
    """One saved snapshot: leader, and number of the stored level; ``None`` if not reported."""

    taken_at: datetime
    leader: str | None
    level: str | None


def level_changes(moments: Sequence[LevelMoment], limit: int = 5) -> list[str]:
    """Return the changes of the leading meta server and of the level, the newest first.

    Args:
        moments: Oldest first; those that tell nothing are passed over.
        limit: Sentences.
    """
    known = [moment for moment in moments if moment.leader is not None and moment.level is not None]
    found = [
        _change_words(before, after)
        for before, after in pairwise(known)
        if (before.leader, before.level) != (after.leader, after.level)
    ]
    return found[::-1][:limit]


def _change_words(before: LevelMoment, after: LevelMoment) -> str:
    when = f"Between {clock(before.taken_at)} and {clock(after.taken_at)}"
    was, became = _level_word(before.level), _level_word(after.level)
    if before.leader == after.leader:
        return f"{when}: level changed from {was} to {became}."
    leader = f"{when}: leader changed from {before.leader} to {after.leader}"
    if was == became:
        return f"{leader}; level unchanged ({became})."
    return f"{leader}, level from {was} to {became}."


def _level_word(number: str | None) -> str:
    try:
        return level_of(int(number or "")).word
    except (ValueError, UnknownNameError):
        return f"unknown ({number})"
