"""Alerts: what fires now, what is silenced or over, and the thresholds."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard import services
from dashboard.app_pages.alerts import model, thresholds, view
from dashboard.components import figures, frame, words
from dashboard.services import alerts

config = frame.open_journal("Alerts")
try:
    every, silences = alerts.current(config)
except OpsError as error:
    words.failed(error, what="Could not read the alerts")
    st.stop()
now = services.now()
targets = len(config.alerts.targets)
unread = alerts.unread(config)
figures.key_figures(
    model.key_figures(every, silences, targets, now, unread=len(unread)), key="alerts"
)
firing = [one for one in every if model.is_open(one, silences, now)]
others = [one for one in every if not model.is_open(one, silences, now)]
words.section("Firing", "all clusters")
selected = view.draw_firing(config, firing, silences, now, unread)
view.draw_actions(config, silences, selected)
left, right = frame.columns([0.55, 0.45], key="alerts_below")
with left:
    words.section("Pending, silenced, resolved", "last 24 h")
    view.draw_others(config, others, silences, now)
with right:
    words.section("Thresholds")
    view.draw_thresholds(model.thresholds_table(alerts.limits(config), every, silences, now))
    thresholds.draw(config)
