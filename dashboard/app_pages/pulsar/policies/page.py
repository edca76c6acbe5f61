"""Policies and quotas: who is limited to what, who is at a limit, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.policies import calculator, model, view
from dashboard.components import frame, words
from dashboard.components.pulsar import policy_changes
from dashboard.components.pulsar.page import PulsarPage
from dashboard.queries.pulsar import policies

DRAW = {
    "groups": view.draw_groups,
    "rates": view.draw_rates,
    "quotas": view.draw_quotas,
    "tenants": view.draw_tenants,
    "calculator": calculator.draw_calculator,
}

page = frame.open_page("Policies", PulsarPage)
limits = policies.limits_of(page.stored)
words.answer(model.answer(limits, page.reading.settings))
chosen = st.segmented_control(
    "View",
    list(DRAW),
    default="groups",
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
policy_changes.announce()
DRAW[chosen or "groups"](page, limits)
policy_changes.changes(page)
