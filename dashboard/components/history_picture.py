"""The History page's picture: load and events on one time axis; a click looks at a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

import streamlit as st

from dashboard import state
from dashboard.charts.history_timeline import history_timeline
from dashboard.charts.template import CONFIG
from dashboard.components import words
from dashboard.components.history_minute import Looked, look_at
from dashboard.presenters import history as presenter
from dashboard.presenters.history_events import LANES, lane_of, lanes
from dashboard.presenters.history_measures import HistoryMeasure
from dashboard.reading_history import Asked, Picture

_KEY: Final = "history_picture"


def pick_lanes(picture: Picture) -> list[str]:
    """Draw the filter of events; return the wanted lanes, empty: all."""
    found = {
        lane.key: lane.name
        for kind, by in zip(
            picture.counts["kind"].to_pylist(), picture.counts["by"].to_pylist(), strict=True
        )
        if (lane := lane_of(kind, by)) is not None
    }
    if not found:
        return []
    names = {lane.key: lane.name for lane in LANES}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        chosen = st.pills(
            "Events",
            [lane.key for lane in LANES if lane.key in found],
            selection_mode="multi",
            format_func=lambda key: names[key],
            key=state.LANE,
            bind="query-params",
            label_visibility="collapsed",
            width="content",
        )
        st.caption(
            "Only the chosen events are shown."
            if chosen
            else "All events are shown; choose some to see only these.",
            width="content",
        )
    return [str(one) for one in chosen]


def draw_picture(
    asked: Asked, picture: Picture, measure: HistoryMeasure, looked: Looked, wanted: list[str]
) -> None:
    """Draw the picture, the minute that is looked at marked."""
    system = asked.history.system
    data = presenter.timeline(
        picture.grid,
        picture.evenness,
        measure,
        system,
        lanes=lanes(picture.counts, wanted),
        period=asked.period,
    )
    figure = history_timeline(replace(data, marked=looked.moment))
    words.section(measure.label, presenter.picture_note(picture.grid, system))
    st.plotly_chart(
        figure,
        key=_KEY,
        on_select=_clicked,
        selection_mode="points",
        config=CONFIG,
        theme="streamlit",
        alt=f"{measure.label} of each server over time, with everything that happened below; "
        f"the hottest on average is {data.rows[0] if data.rows else 'unknown'}.",
    )


def _clicked() -> None:
    """Look at the minute of the event that was clicked."""
    selection = st.session_state.get(_KEY, {}).get("selection", {})
    for point in selection.get("points", []):
        held = point.get("customdata")
        if isinstance(held, (list, tuple)) and len(held) == 3:
            look_at(datetime.fromisoformat(str(held[1])))
            return
