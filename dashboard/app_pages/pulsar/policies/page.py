"""Policies and quotas: who is limited to what, who is at a limit, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.policies import calculator, model, view
from dashboard.components import figures, frame
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.pulsar import policy_edits
from dashboard.queries.pulsar import policies

DRAW = {
    model.NAMESPACES: view.draw_namespaces,
    model.RATES_TAB: view.draw_rates,
    model.GROUPS: view.draw_groups,
    model.QUOTAS: view.draw_quotas,
    model.TENANTS: view.draw_tenants,
    model.CALCULATOR: calculator.draw_calculator,
}
OPENED_BY = {
    state.CHANGE: policy_changes.TAB,
    state.RESOURCE_GROUP: model.GROUPS,
    state.BUNDLE: model.QUOTAS,
    state.TENANT: model.TENANTS,
    state.NAMESPACE: model.RATES_TAB,
}
"""Tab that an address without a tab opens, by the parameter that it has."""

page = frame.open_page("Policies", PulsarPage)
limits = policies.limits_of(page.stored)
figures.key_figures(model.key_figures(limits, page.reading.settings), key="policies")
view.draw_findings(page)
policy_changes.draw_pending()
planned = policy_changes.planned(page)

if state.VIEW not in {*st.query_params, *st.session_state}:
    opened = next((tab for key, tab in OPENED_BY.items() if key in st.query_params), None)
    if opened is not None:
        st.session_state[state.VIEW] = opened
*tabs, changes = st.tabs(
    [*DRAW, policy_changes.TAB], key=state.VIEW, on_change="rerun", bind="query-params"
)
for tab, draw in zip(tabs, DRAW.values(), strict=True):
    if tab.open:
        with tab:
            draw(page, limits)
if changes.open:
    with changes:
        policy_changes.draw_effects(planned)
if planned is not None:
    policy_changes.draw_bar(
        page,
        planned.plan,
        planned.preview,
        sentence=policy_edits.plan_sentence(planned.plan.steps),
    )
