"""Ownership: who owns what, what does not fit together, who leads, and what a death would cost."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.ownership import model, queries, view
from dashboard.components import frame, words
from dashboard.components.pulsar.page import PulsarPage

PANELS = {
    model.OWNERS: view.bundles,
    model.SESSIONS: view.sessions,
    model.SPREAD: view.spread,
    model.LEADER: view.leader,
    model.DEATH: view.failure,
}

page = frame.open_page("Ownership", PulsarPage)
if page.reading.snapshot.bundles.num_rows == 0:
    words.nothing("No bundle is in this snapshot", page.reading.snapshot.manifest)
    st.stop()
found = queries.ownership(page.stored)
words.answer(found.sentence)
chosen = st.segmented_control(
    "Show",
    model.VIEWS,
    default=model.OWNERS,
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
PANELS[chosen or model.OWNERS](page)
words.notes(found.notes)
