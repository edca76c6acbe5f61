"""Ownership: who owns what, what does not fit together, who leads, and a broker's failure."""

from __future__ import annotations

import streamlit as st

from core.pulsar.measures import BundleCounts
from dashboard import state
from dashboard.app_pages.pulsar.ownership import model, queries, view
from dashboard.components import figures, findings, frame, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.pulsar.settings import is_shedding

PANELS = {
    model.OWNERS: view.bundles,
    model.SESSIONS: view.sessions,
    model.SPREAD: view.spread,
    model.LEADER: view.leader,
    model.DEATH: view.failure,
}

page = frame.open_page("Ownership", PulsarPage)
snapshot = page.reading.snapshot
if snapshot.bundles.num_rows == 0:
    words.nothing("No bundles in this snapshot", snapshot.manifest)
    st.stop()
found = queries.owners(page.stored).found
figures.key_figures(
    model.key_figures(
        found,
        snapshot.manifest.leader,
        BundleCounts.of(page.reading.movable),
        page.reading.uncounted["heartbeat/SLA"],
        is_shedding=is_shedding(page.reading.settings),
    ),
    key="ownership",
)
if wrong := view.findings_of(page):
    findings.show(
        wrong, key="ownership", moment=page.stored.taken_at, max_rows=view.FINDINGS_IN_SIGHT
    )
tabs = st.tabs(model.VIEWS, key=state.VIEW, on_change="rerun", bind="query-params")
for tab, name in zip(tabs, model.VIEWS, strict=True):
    if tab.open:
        with tab:
            PANELS[name](page)
words.notes(found.notes)
