"""Isolation and domains: who may serve what, what is wrong with it, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.isolation import model, view
from dashboard.app_pages.pulsar.isolation.queries import isolation_of
from dashboard.components import frame, words
from dashboard.components.pulsar.page import PulsarPage

DRAW = {
    "policies": view.draw_policies,
    "groups": view.draw_groups,
    "domains": view.draw_domains,
}

page = frame.open_page("Isolation", PulsarPage)
reading = page.reading
if not reading.view.brokers:
    words.nothing("No broker is in this snapshot", reading.snapshot.manifest)
    st.stop()
found = isolation_of(page.stored)
wrong = found.wrong
words.answer(model.answer(found.serving, wrong, len(reading.view.groups), len(found.domains)))
view.draw_changes(page)
view.draw_violations(wrong)
chosen = st.segmented_control(
    "View",
    list(model.VIEWS),
    default="policies",
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
DRAW[chosen or "policies"](page, found)
