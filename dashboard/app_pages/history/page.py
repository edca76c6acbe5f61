"""History: what happened, minute by minute; any past minute, and what differs between two."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.errors import SnapshotError
from core.history.queries.query import servers_of
from core.units import datetime_to_ms
from dashboard import state
from dashboard.app_pages.history import model, states, view
from dashboard.app_pages.history.timeline import (
    draw_minute,
    draw_picture,
    draw_scrubber,
    looked_at,
    pick_lanes,
    pick_range,
)
from dashboard.app_pages.history.view import draw_compare, draw_movers, draw_series
from dashboard.app_pages.systems import HISTORY
from dashboard.components import frame, words
from dashboard.queries.history import HistoryQuery, history_of, picture

MINUTE, EVENTS, COMPARE, MOVERS = "This minute", "Events", "Compare", "Movers and flaps"
AGREEMENT, SERIES, EXPORT = "Agreement", "Series", "Export"
VIEWS = (MINUTE, EVENTS, COMPARE, MOVERS, AGREEMENT, SERIES, EXPORT)

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
answered = st.container()
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
    with answered:
        words.answer("Nothing was recorded in this range.")
    states.outside(span)
    st.stop()
recorded = timedelta(milliseconds=int(shown.minutes.at_ms[-1] - shown.minutes.at_ms[0]))
with answered:
    events_seen = model.EventCounts.of(shown.counts)
    words.answer(model.answer(choice.cluster.name, system, events_seen, shown.evenness, recorded))
    states.tell_gap(config, choice, span[1])

lanes = pick_lanes(shown)
looked = looked_at(shown.minutes, datetime_to_ms(span[1]), newest)
draw_picture(query, shown, system, measure, looked, lanes)
draw_scrubber(query, shown, looked)

chosen = st.segmented_control(
    "Show",
    VIEWS,
    default=MINUTE,
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
try:
    if chosen == EVENTS:
        view.draw_events(query, lanes)
    elif chosen == COMPARE:
        draw_compare(config, choice, system, shown, looked)
    elif chosen == MOVERS:
        draw_movers(query, system, shown, config.history.minute_s)
    elif chosen == AGREEMENT:
        view.draw_agreement(config, query, system)
    elif chosen == SERIES:
        draw_series(query, system, shown)
    elif chosen == EXPORT:
        view.draw_export(config, query)
    else:
        draw_minute(query, system, measure, looked)
except SnapshotError as error:
    words.failed(error, what="This part of the history cannot be read")
