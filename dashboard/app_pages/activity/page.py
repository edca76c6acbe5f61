"""Runs: who applied what, when and why, and the result; the journal, filtered and verified."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard import services, state
from dashboard.app_pages.activity import model, view
from dashboard.components import figures, frame, words
from dashboard.queries import runs

config = frame.open_journal("Runs")
try:
    views, entries = runs.every(config), runs.audit(config)
except OpsError as error:
    words.failed(error, what="Could not read the journal")
    st.stop()
if not views:
    words.answer("No runs. The journal is empty.")
    st.caption(
        "To start a run, select Apply plan… on a plan, or use `trimtab apply`. The journal "
        "records every request, step, setting and result."
    )
    st.stop()
figures.key_figures(model.key_figures(views, services.now()), key="activity")
runs_tab, journal_tab = st.tabs(model.TABS, key=state.VIEW, on_change="rerun", bind="query-params")
if runs_tab.open:
    with runs_tab:
        view.runs_tab(views, entries)
if journal_tab.open:
    with journal_tab:
        view.journal_tab(config, views, entries)
