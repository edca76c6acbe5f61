"""Charts on a page: all of them shown the same way."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st

from dashboard.charts.template import CONFIG
from dashboard.legible import legible_values, needs_care, texts_of

_TEXTS: Final = (
    *("x", "y", "text", "hovertext", "labels", "parents", "ids", "name", "customdata"),
    "legendgroup",
)
_MAX_TICK: Final = 64
"""Letters at an axis; a longer name leaves no room for the chart."""


def chart(figure: go.Figure, *, key: str, alt: str) -> None:
    """Show a chart; ``alt`` says its takeaway in one plain sentence."""
    plot(figure, key=key, alt=alt)


def plot(figure: go.Figure, **options: Any) -> Any:
    """Show a chart as ``st.plotly_chart`` does, with the names of others made legible."""
    return st.plotly_chart(legible_figure(figure), config=CONFIG, theme="streamlit", **options)


def legible_figure(figure: go.Figure) -> go.Figure:
    """Make the names in a figure legible, in place; long ones at an axis are cut to its room."""
    ends: dict[str, dict[str, None]] = {}
    for trace in figure.data:
        for name in _TEXTS:
            if name in trace and needs_care(trace[name]):
                trace[name] = legible_values(trace[name])
        if isinstance(trace.name, str):
            trace.name = _tick(trace.name)
        for letter in "xy":
            names = texts_of(trace[letter]) if letter in trace else []
            if any(len(one) > _MAX_TICK for one in names):
                axis = getattr(trace, f"{letter}axis", None) or letter
                ends.setdefault(axis, {}).update(dict.fromkeys(names))
    for axis, labels in ends.items():
        layout = figure.layout[f"{axis[0]}axis{axis[1:]}"]
        layout.tickmode, layout.tickvals = "array", list(labels)
        layout.ticktext = [_tick(one) for one in labels]
    return figure


def _tick(name: str) -> str:
    return name if len(name) <= _MAX_TICK else f"{name[:20]}…{name[-12:]}"
