"""Isolation and domains: who may serve what, what is wrong with it, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.isolation import model, view
from dashboard.app_pages.pulsar.isolation.queries import isolation_of
from dashboard.components import figures, frame, words
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.page import PulsarPage

DRAW = {
    model.POLICIES: view.draw_policies,
    model.GROUPS: view.draw_groups,
    model.DOMAINS: view.draw_domains,
    model.EDITOR: view.policy_form,
}

page = frame.open_page("Isolation", PulsarPage)
reading = page.reading
if not reading.view.brokers:
    words.nothing("No brokers in this snapshot", reading.snapshot.manifest)
    st.stop()
found = isolation_of(page.stored)
figures.key_figures(
    model.key_figures(found.serving, found.wrong, len(reading.view.groups), len(found.domains)),
    key="isolation",
)
policy_changes.draw_pending()
answer = view.planned(page)
view.draw_violations(page, found.wrong)

if state.VIEW not in {*st.query_params, *st.session_state}:
    st.session_state[state.VIEW] = view.opened_by(st.query_params)
*tabs, changes = st.tabs(
    [*DRAW, policy_changes.TAB], key=state.VIEW, on_change="rerun", bind="query-params"
)
for tab, draw in zip(tabs, DRAW.values(), strict=True):
    if tab.open:
        with tab:
            draw(page, found)
if changes.open:
    with changes:
        view.draw_changes(page, answer)
if answer is not None:
    policy_changes.draw_bar(
        page,
        answer.change.plan,
        answer.preview,
        effects=view.effects(answer.change),
        sentence=view.sentence(answer),
    )
