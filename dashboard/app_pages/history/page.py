"""History: load and events over time, any past minute, and the effect of every move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.history.queries.query import servers_of
from core.units import datetime_to_ms
from dashboard import services, state
from dashboard.app_pages.history import minute, model, states, view
from dashboard.app_pages.history.long_term import draw_long_term
from dashboard.app_pages.history.system import HistorySystem
from dashboard.app_pages.history.timeline import (
    draw_timeline,
    looked_at,
    pick_lanes,
    pick_range,
)
from dashboard.components import figures, frame, words
from dashboard.presenters.load import LONG_TERM
from dashboard.queries.history import HistoryQuery, history_of, period_load
from dashboard.systems import page_part

config, choice = frame.open_history("History")
system: HistorySystem = page_part(choice.cluster.kind, "history")
try:
    history = history_of(config, choice.cluster)
    span = history.span()
except SnapshotError as error:
    states.draw_damage(history_of(config, choice.cluster))
    words.failed(error, what="Could not read the history")
    st.stop()
states.draw_damage(history)
if span is None:
    states.nothing_recorded(config, choice)
    st.stop()

newest = min(choice.stored.taken_at, span[1]) if choice.is_past and choice.stored else span[1]
figures_place = st.container()
with st.container(key="history_controls", horizontal=True, vertical_alignment="bottom"):
    period, measure = pick_range(span, newest, system)
    lanes_place = st.container(width="content")
    export_place = st.container(width="content")
weights = system.weights(choice.stored)
servers = servers_of(history.store, history.system)
query = HistoryQuery(history, period, measure.key, servers.evenness, weights)
try:
    shown = period_load(query)
except SnapshotError as error:
    words.failed(error, what="Could not read this range")
    st.stop()
if not len(shown.minutes):
    with figures_place:
        words.answer("No records in this range.")
    states.outside(span)
    st.stop()
target = services.target_ratio(config, choice.cluster)
words.title("History", model.subtitle(shown.grid, period, system))
recorded = timedelta(milliseconds=int(shown.minutes.at_ms[-1] - shown.minutes.at_ms[0]))
with figures_place:
    seen = model.EventCounts.of(shown.counts)
    figures.key_figures(
        model.key_figures(system, seen, shown.evenness, recorded, target), key="history"
    )
    states.draw_gap(config, choice, span[1])
with lanes_place:
    lanes = pick_lanes(shown)
with export_place:
    view.draw_export(config, query)

looked = looked_at(shown.minutes, datetime_to_ms(span[1]), newest)
draw_timeline(query, shown, system, measure, looked, lanes, target)

DRAWN: dict[str, Callable[[], None]] = {
    model.EVENTS: lambda: view.draw_events(config, query, system, shown, lanes),
    model.MINUTE: lambda: minute.draw_minute(config, choice, query, system, measure, shown, looked),
    model.SERIES: lambda: view.draw_series(query, system, shown),
    LONG_TERM: lambda: draw_long_term(history, newest),
    model.PREDICTIONS: lambda: view.draw_predictions(config, query, system),
}
tabs = st.tabs(list(DRAWN), key=state.VIEW, on_change="rerun", bind="query-params")
for tab, draw in zip(tabs, DRAWN.values(), strict=True):
    if tab.open:
        with tab:
            try:
                draw()
            except OpsError as error:
                words.failed(error, what="Could not read this view")
