"""Isolation and domains: who may serve what, what is wrong with it, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.components import frame, isolation, isolation_changes, words
from dashboard.isolating import isolation_of
from dashboard.presenters import isolation as presenter

DRAW = {
    "policies": isolation.draw_policies,
    "groups": isolation.draw_groups,
    "domains": isolation.draw_domains,
}

page = frame.open_page("Isolation & domains")
reading = page.reading
if not reading.view.brokers:
    words.nothing("No broker is in this snapshot", reading.snapshot.manifest)
    st.stop()
found = isolation_of(page.shelved)
wrong = found.wrong
words.answer(presenter.answer(found.serving, wrong, len(reading.view.groups), len(found.domains)))
isolation_changes.draw_changes(page)
isolation.draw_violations(wrong)
view = st.segmented_control(
    "View",
    list(presenter.VIEWS),
    default="policies",
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
DRAW[view or "policies"](page, found)
