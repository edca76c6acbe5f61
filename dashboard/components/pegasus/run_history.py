"""Runs on a Pegasus cluster from here: newer than the snapshot, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from dashboard.components import tables, words
from dashboard.components.activity import run_link
from dashboard.presenters.pegasus import run_history
from dashboard.presenters.step_history import touching
from dashboard.queries import runs
from dashboard.queries.pegasus.snapshots import moments
from dashboard.queries.snapshots import thinned, within

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.components.pegasus.page import PegasusPage

_HOUR: Final = timedelta(hours=1)


def note_newer_runs(page: PegasusPage) -> None:
    """Render a note if a run has changed the cluster since the snapshot on the page."""
    if page.is_past:
        return
    sentence = run_history.newer_sentence(_views(page), page.stored.taken_at)
    if sentence:
        st.info(words.plain(sentence), icon=":material/update:")


def level_past(page: PegasusPage) -> None:
    """Render the changes of the primary meta server and of the level in the last hour."""
    entries = within(page.saved.entries, page.stored.taken_at, _HOUR)
    words.notes(run_history.level_changes(moments(thinned(entries))))


def settings_past(page: PegasusPage) -> None:
    """Render the changes of the level and of settings from here, with their results."""
    rows = run_history.settings_past(_views(page))
    words.section("Changes by Trimtab", "Level and settings, newest first.")
    if rows.empty:
        st.caption("No runs changed the level or a setting.")
        return
    tables.table(
        rows,
        {
            "run": tables.opener("Run", "_settings_run", run_link),
            "at": st.column_config.DatetimeColumn("When (UTC)", format="YYYY-MM-DD HH:mm:ss"),
            "state": tables.words("State"),
            "what": tables.words("Object"),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "who": tables.words("User"),
            "why": tables.words("Reason"),
        },
        key="settings_runs",
        alt="Runs that changed the level or a setting",
        height=min(300, tables.height_of(len(rows))),
        missing="",
    )


def past_of(page: PegasusPage, subject: str, *, key: str) -> None:
    """Draw the steps of runs with a node or a partition, the newest first.

    Args:
        subject: Registered name of a node, or a partition's gpid.
        key: Unique on the page.
    """
    rows = touching(_views(page), subject)
    if rows.empty:
        st.caption(f"No runs for {words.plain(subject)}.")
        return
    tables.table(
        rows,
        {
            "run": tables.opener("Run", f"_{key}_run", run_link),
            "at": st.column_config.DatetimeColumn("When (UTC)", format="YYYY-MM-DD HH:mm:ss"),
            "state": tables.words("State"),
            "bundle": tables.words("Object"),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "who": tables.words("User"),
            "why": tables.words("Reason"),
        },
        key=f"{key}_runs",
        alt=f"Runs for {subject}",
        height=min(300, tables.height_of(len(rows))),
        missing="",
    )


def _views(page: PegasusPage) -> Sequence[RunView]:
    """The cluster's runs; an unreadable journal is said where something would be applied."""
    try:
        return runs.of_cluster(page.config, page.name)
    except OpsError:
        return ()
