"""History: what happened, minute by minute; any past minute, and what differs between two."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.errors import SnapshotError
from core.history.query import DEVIATION_OF
from core.units import datetime_to_ms
from dashboard import state
from dashboard.components import frame, history_states, history_views, words
from dashboard.components.history_compare import draw_compare
from dashboard.components.history_minute import draw_minute, draw_scrubber, looked_at
from dashboard.components.history_movers import draw_movers
from dashboard.components.history_picture import draw_picture, pick_lanes
from dashboard.components.history_range import pick_range
from dashboard.components.history_series import draw_series
from dashboard.presenters import history as presenter
from dashboard.reading_history import Asked, history_of, picture, weights_of

MINUTE, EVENTS, COMPARE, MOVERS = "This minute", "Events", "Compare", "Movers and flaps"
AGREEMENT, SERIES, EXPORT = "Agreement", "Series", "Export"
VIEWS = (MINUTE, EVENTS, COMPARE, MOVERS, AGREEMENT, SERIES, EXPORT)

config, choice = frame.open_history("History")
try:
    history = history_of(config, choice.cluster)
    span = history.span()
except SnapshotError as error:
    words.failed(error, what="The history cannot be read")
    st.stop()
if span is None:
    history_states.nothing_recorded(config, choice)
    st.stop()

newest = min(choice.shelved.taken_at, span[1]) if choice.is_past and choice.shelved else span[1]
answered = st.container()
period, measure = pick_range(span, newest, history.system)
weights = weights_of(choice.shelved, history.system)
asked = Asked(history, period, measure.key, DEVIATION_OF[history.system], weights)
try:
    shown = picture(asked)
except SnapshotError as error:
    words.failed(error, what="This range cannot be read")
    st.stop()
if not len(shown.minutes):
    with answered:
        words.answer("Nothing was recorded in this range.")
    history_states.outside(span)
    st.stop()
recorded = timedelta(milliseconds=int(shown.minutes.at_ms[-1] - shown.minutes.at_ms[0]))
with answered:
    told = presenter.Told.of(shown.counts)
    words.answer(
        presenter.answer(choice.cluster.name, history.system, told, shown.evenness, recorded)
    )
    history_states.tell_gap(config, choice, span[1])

lanes = pick_lanes(shown)
looked = looked_at(shown.minutes, datetime_to_ms(span[1]), newest)
draw_picture(asked, shown, measure, looked, lanes)
draw_scrubber(asked, shown, looked)

view = st.segmented_control(
    "Show",
    VIEWS,
    default=MINUTE,
    required=True,
    key=state.VIEW,
    bind="query-params",
    label_visibility="collapsed",
)
try:
    if view == EVENTS:
        history_views.draw_events(asked, lanes)
    elif view == COMPARE:
        draw_compare(config, choice, asked, shown, looked)
    elif view == MOVERS:
        draw_movers(asked, shown, config.history.minute_s)
    elif view == AGREEMENT:
        history_views.draw_agreement(asked)
    elif view == SERIES:
        draw_series(asked, shown)
    elif view == EXPORT:
        history_views.draw_export(config, asked)
    else:
        draw_minute(asked, measure, looked)
except SnapshotError as error:
    words.failed(error, what="This part of the history cannot be read")
