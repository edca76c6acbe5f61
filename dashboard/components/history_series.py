"""One broker, node or bundle over time, on the History page."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import streamlit as st

from core.units import ms_to_datetime
from dashboard import state
from dashboard.charts.lines import Series, history_lines
from dashboard.components import figures, words
from dashboard.presenters.history_events import events_frame
from dashboard.presenters.history_measures import HistoryMeasure, measures_of
from dashboard.reading_history import Asked, Picture

_BUNDLE_MEASURES = (
    HistoryMeasure("rate", "Message rate", "msgs/s"),
    HistoryMeasure("throughput", "Throughput", "bytes/s"),
)


def draw_series(asked: Asked, picture: Picture) -> None:
    """Draw the load of one subject over the period, with what happened to it."""
    is_pegasus = asked.history.system == "pegasus"
    _begin_with_busiest(state.NODE if is_pegasus else state.BROKER, picture)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        server = st.selectbox(
            "Node" if is_pegasus else "Broker",
            list(picture.grid.subjects),
            key=state.NODE if is_pegasus else state.BROKER,
            bind="query-params",
            width=320,
        )
        bundle = ""
        if not is_pegasus:
            text = st.text_input(
                "or a bundle",
                key=state.BUNDLE,
                bind="query-params",
                placeholder="tenant/namespace/0x00000000_0x40000000",
                width=420,
            )
            bundle = (text or "").strip()
    if bundle:
        _draw_bundle(asked, picture, bundle)
    elif server:
        table = asked.history.queries().server_series(
            str(server), asked.period, step_ms=picture.step_ms, weights=asked.weighed
        )
        _draw(asked, str(server), table, measures_of(asked.history.system))


def _begin_with_busiest(key: str, picture: Picture) -> None:
    """Show the one that carried most on average, unless somebody or the address chose another."""
    grid = picture.grid
    if key in st.session_state or key in st.query_params or not grid.subjects:
        return
    known = np.isfinite(grid.mean)
    means = np.where(known, grid.mean, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    st.session_state[key] = grid.subjects[int(means.argmax())]


def _draw_bundle(asked: Asked, picture: Picture, bundle: str) -> None:
    table = asked.history.queries().bundle_series(
        bundle, picture.minutes, asked.period, picture.step_ms
    )
    if not np.asarray(table["rate"].to_numpy()).any():
        st.caption(
            words.plain(
                f"{bundle} carried nothing in this time, or there is no bundle of that name: "
                "names are tenant/namespace/range."
            )
        )
        return
    _draw(asked, bundle, table, _BUNDLE_MEASURES)


def _draw(
    asked: Asked, subject: str, table: pa.Table, measures: tuple[HistoryMeasure, ...]
) -> None:
    if not table.num_rows:
        st.caption(words.plain(f"Nothing of {subject} was recorded in this range."))
        return
    times = [ms_to_datetime(int(at)) for at in table["at"].to_pylist()]
    happened = events_frame(asked.history.events().events(asked.period, subject=subject, most=60))
    marks: list[tuple[datetime, str]] = [
        (row["at"], f"{row['what']}: {row['before'] or 'none'} → {row['after'] or 'none'}")
        for row in happened.to_dict("records")
    ]
    columns = st.columns(2)
    drawn = 0
    for one in measures:
        values = np.asarray(table[one.key].to_numpy(), dtype=np.float64)
        if not np.isfinite(values).any():
            continue
        with columns[drawn % 2]:
            words.section(one.label)
            figures.chart(
                history_lines(
                    times, [Series(one.label, values)], one.unit, events=marks, height=200
                ),
                key=f"history_series_{one.key}",
                alt=f"{one.label} of {subject} over time, with what happened to it",
            )
        drawn += 1
