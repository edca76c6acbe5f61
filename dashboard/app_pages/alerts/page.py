"""Alerts: what people are told of now, what was, and what is silenced."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from dashboard import services
from dashboard.app_pages.alerts import model, thresholds, view
from dashboard.components import figures, frame, words
from dashboard.services import alerts

config = frame.open_journal("Alerts")
try:
    found, silences = alerts.current(config)
except OpsError as error:
    words.failed(error, what="The alerts cannot be read")
    st.stop()
now = services.now()
targets = len(config.alerts.targets)
figures.key_figures(model.key_figures(found, silences, targets, now), key="alerts")
words.answer(model.answer(found, silences, now))
view.draw_alerts(found, silences, now)
view.draw_actions(config, silences)
thresholds.draw(config)
