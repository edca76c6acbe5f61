"""Numbers of the page of runs: its key figures, and filters over runs and entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pandas as pd

from core.actions import describe
from core.actions.views import RunView
from dashboard.legible import searchable
from dashboard.presenters.figures import KeyFigure

RUNS, JOURNAL = "Runs", "Journal"
TABS: Final = (RUNS, JOURNAL)
"""Labels of the tabs: an address names them."""

KINDS: Final = describe.KINDS
"""Kind of an entry in the journal to the word for people (and for the URL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFilter:
    """Filter of the journal's entries; empty matches everything.

    Attributes:
        cluster: Name.
        person: Actor.
        state: State of a run (runs only).
        kind: Word of :data:`KINDS` (entries only).
        text: Part of anything that is shown.
        since: Not before this, aware UTC.
        until: Not after this, aware UTC.
    """

    cluster: str = ""
    person: str = ""
    state: str = ""
    kind: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


def matching_runs(views: Sequence[RunView], journal_filter: JournalFilter) -> list[RunView]:
    """Return the runs that match, the newest first."""
    text = journal_filter.text.casefold()
    found = [
        view
        for view in views
        if journal_filter.cluster in ("", view.cluster)
        and journal_filter.person in ("", view.requested_by)
        and journal_filter.state in ("", view.state.lower())
        and _is_within(view.requested_at, journal_filter)
        and (not text or text in _run_text(view))
    ]
    return sorted(found, key=lambda view: (view.requested_at, view.run_id), reverse=True)


def _run_text(view: RunView) -> str:
    names = " ".join(f"{step.step.subject} {step.step.owner}" for step in view.steps)
    text = f"{view.run_id} {view.plan.plan_id} {view.reason} {view.sentence} {names}"
    return searchable(text).casefold()


def matching_rows(frame: pd.DataFrame, journal_filter: JournalFilter) -> pd.DataFrame:
    """Return the rows of :func:`entries_frame` that match, the newest first."""
    keep = pd.Series(data=True, index=frame.index)
    equals = (
        ("cluster", journal_filter.cluster),
        ("who", journal_filter.person),
        ("kind", journal_filter.kind),
    )
    for column, value in equals:
        if value:
            keep &= frame[column] == value
    if journal_filter.since is not None:
        keep &= frame["at"] >= journal_filter.since
    if journal_filter.until is not None:
        keep &= frame["at"] <= journal_filter.until
    if journal_filter.text:
        some = pd.Series(data=False, index=frame.index)
        for column in ("run", "what", "why", "before", "after"):
            some |= frame[column].str.contains(
                journal_filter.text, case=False, regex=False, na=False
            )
        keep &= some
    return frame[keep].sort_values("seq", ascending=False)


def _is_within(moment: datetime, journal_filter: JournalFilter) -> bool:
    if journal_filter.since is not None and moment < journal_filter.since:
        return False
    return journal_filter.until is None or moment <= journal_filter.until


def key_figures(views: Sequence[RunView], now: datetime) -> list[KeyFigure]:
    """Return the figures of the last 24 hours and of the runs in progress."""
    day = [view for view in views if (now - view.requested_at).total_seconds() < _DAY_S]
    going = [view for view in views if not view.is_ended]
    steps = [step.step for view in day for step in view.steps if step.state == "DONE"]
    bad = sum(view.state in ("FAILED", "REFUSED") for view in day)
    waiting = sum(view.state == "QUEUED" for view in going)
    people = len({view.requested_by for view in day})
    is_moves = all(step.is_placed_by_cluster for step in steps)
    return [
        KeyFigure(label="Runs, 24 h", value=f"{len(day):,}", note=f"{len(views):,} total"),
        KeyFigure(
            label="Moves, 24 h" if is_moves else "Steps, 24 h",
            value=f"{len(steps):,}",
            note=f"users: {people:,}",
        ),
        KeyFigure(
            label="Failed, 24 h",
            value=f"{bad:,}",
            note="including refused",
            status="bad" if bad else "ok",
        ),
        KeyFigure(
            label="In progress",
            value=f"{len(going):,}",
            note=f"{waiting:,} queued" if waiting else "",
        ),
    ]


_DAY_S: Final = 86_400
