"""Ownership: who owns what, what does not fit together, who leads, and what a death would cost."""

from __future__ import annotations

import streamlit as st

from dashboard import owning, state
from dashboard.components import frame, ownership, words
from dashboard.components.ownership_death import drill
from dashboard.presenters import ownership as presenter

PANELS = {
    presenter.OWNERS: ownership.bundles,
    presenter.SESSIONS: ownership.sessions,
    presenter.SPREAD: ownership.spread,
    presenter.LEADER: ownership.leader,
    presenter.DEATH: drill,
}

page = frame.open_page("Ownership")
if page.reading.snapshot.bundles.num_rows == 0:
    words.nothing("No bundle is in this snapshot", page.reading.snapshot.manifest)
    st.stop()
found = owning.ownership(page.shelved)
words.answer(found.sentence)
view = st.segmented_control(
    "Show",
    presenter.VIEWS,
    default=presenter.OWNERS,
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
PANELS[view or presenter.OWNERS](page)
words.notes(found.notes)
