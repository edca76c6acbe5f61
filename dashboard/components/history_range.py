"""The History page's pickers: which stretch of time, which measure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import streamlit as st

from core.history.asking import Period
from dashboard import state
from dashboard.components import choice, misnamed
from dashboard.presenters.history import FREE, PRESETS, period_of
from dashboard.presenters.history_measures import HistoryMeasure, history_measure, measures_of

_FIRST_PRESET = "6 h"


def pick_range(
    span: tuple[datetime, datetime], newest: datetime, system: str
) -> tuple[Period, HistoryMeasure]:
    """Draw the pickers; return the period and the measure.

    Args:
        span: First and last recorded minute.
        newest: Where presets end.
        system: ``pulsar`` or ``pegasus``.
    """
    misnamed.check_times(state.START)
    misnamed.check_times(state.END, may_be_ahead=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        preset = st.segmented_control(
            "Range",
            [*PRESETS, FREE],
            default=_FIRST_PRESET,
            required=True,
            key=state.RANGE,
            bind="query-params",
            label_visibility="collapsed",
            help="Presets end at the minute that the header shows",
        )
        known = measures_of(system)
        key = choice.segmented(
            "Measure",
            [one.key for one in known],
            key=state.MEASURE,
            say=lambda key: history_measure(system, key).label,
        )
        free = _dates(span) if preset == FREE else (None, None)
    for name, end in ((state.START, free[0]), (state.END, free[1])):
        misnamed.draw(name, (preset, end))
    return (
        period_of(str(preset or _FIRST_PRESET), span[0], newest, free),
        history_measure(system, key),
    )


def _dates(span: tuple[datetime, datetime]) -> tuple[datetime | None, datetime | None]:
    first, last = (one.replace(tzinfo=None, second=0, microsecond=0) for one in span)
    last += timedelta(minutes=1)
    picked = [
        st.datetime_input(
            label,
            value,
            step=60,
            key=key,
            bind="query-params",
            width=210,
        )
        for label, value, key in (
            ("From (UTC)", first, state.START),
            ("To (UTC)", last, state.END),
        )
    ]
    start, end = (None if one is None else one.replace(tzinfo=UTC) for one in picked)
    return start, end
