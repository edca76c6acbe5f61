"""History: what happened, minute by minute; any past minute, and what differs between two."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.history.queries.query import servers_of
from core.units import datetime_to_ms
from dashboard import services, state
from dashboard.app_pages.history import model, states, view
from dashboard.app_pages.history.systems import HISTORY
from dashboard.app_pages.history.timeline import (
    draw_minute,
    draw_picture,
    draw_scrubber,
    looked_at,
    pick_lanes,
    pick_range,
)
from dashboard.components import figures, frame, words
from dashboard.queries.history import HistoryQuery, history_of, picture

config, choice = frame.open_history("History")
system = HISTORY[choice.cluster.kind]
try:
    history = history_of(config, choice.cluster)
    span = history.span()
except SnapshotError as error:
    states.tell_damage(history_of(config, choice.cluster))
    words.failed(error, what="The history cannot be read")
    st.stop()
states.tell_damage(history)
if span is None:
    states.nothing_recorded(config, choice)
    st.stop()

newest = min(choice.stored.taken_at, span[1]) if choice.is_past and choice.stored else span[1]
figures_place = st.container()
period, measure = pick_range(span, newest, system)
weights = system.weights(choice.stored)
servers = servers_of(history.store, history.system)
query = HistoryQuery(history, period, measure.key, servers.evenness, weights)
try:
    shown = picture(query)
except SnapshotError as error:
    words.failed(error, what="This range cannot be read")
    st.stop()
if not len(shown.minutes):
    with figures_place:
        words.answer("Nothing was recorded in this range.")
    states.outside(span)
    st.stop()
target = services.target_ratio(config, choice.cluster)
recorded = timedelta(milliseconds=int(shown.minutes.at_ms[-1] - shown.minutes.at_ms[0]))
with figures_place:
    seen = model.EventCounts.of(shown.counts)
    figures.key_figures(
        model.key_figures(system, seen, shown.evenness, recorded, target), key="history"
    )
    states.tell_gap(config, choice, span[1])

lanes = pick_lanes(shown)
looked = looked_at(shown.minutes, datetime_to_ms(span[1]), newest)
draw_picture(query, shown, system, measure, looked, lanes, target)
draw_scrubber(query, shown, looked)

TABS: dict[str, Callable[[], None]] = {
    "This minute": lambda: draw_minute(query, system, measure, looked),
    "Events": lambda: view.draw_events(query, lanes),
    "Alerts": lambda: view.draw_alerts(config, query),
    "Compare": lambda: view.draw_compare(config, choice, system, shown, looked),
    "Movers and flaps": lambda: view.draw_movers(query, system, shown, config.history.minute_s),
    "Effect": lambda: view.draw_effect(query, system, shown, config.history.minute_s),
    "Agreement": lambda: view.draw_agreement(config, query, system),
    "Series": lambda: view.draw_series(query, system, shown),
    "Export": lambda: view.draw_export(config, query),
}
tabs = st.tabs(list(TABS), key=state.VIEW, on_change="rerun", bind="query-params")
for tab, draw in zip(tabs, TABS.values(), strict=True):
    if tab.open:
        with tab:
            try:
                draw()
            except OpsError as error:
                words.failed(error, what="This part of the history cannot be read")
