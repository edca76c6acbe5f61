"""Policies and quotas: who is limited to what, who is at a limit, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import planning_policies as kernel
from dashboard import state
from dashboard.components import (
    frame,
    policies,
    policies_calculator,
    policies_quotas,
    policies_rates,
    policies_tenants,
    policy_changes,
    words,
)
from dashboard.presenters import policies as presenter

DRAW = {
    "groups": policies.draw_groups,
    "rates": policies_rates.draw_rates,
    "quotas": policies_quotas.draw_quotas,
    "tenants": policies_tenants.draw_tenants,
    "calculator": policies_calculator.draw_calculator,
}

page = frame.open_page("Policies & quotas")
limits = kernel.limits_of(page.shelved)
words.answer(presenter.answer(limits, page.reading.settings))
view = st.segmented_control(
    "View",
    list(DRAW),
    default="groups",
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
policy_changes.announce()
DRAW[view or "groups"](page, limits)
policy_changes.changes(page)
