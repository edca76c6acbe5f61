"""Charts and key figures on a page: all of them shown the same way.

A page shows its key figures right under its title, before the chart::

    figures.key_figures(
        [
            figures.KeyFigure(
                label="Max deviation", value="+122%", note="target ±20%", status="bad", trend=points
            ),
            figures.KeyFigure(label="Bundles", value="71", note="mean 50"),
        ],
        key="broker_figures",
    )

and every chart by :func:`chart` with the sentence that says what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import plotly.graph_objects as go
import streamlit as st

from dashboard.charts.template import CONFIG
from dashboard.components import words
from dashboard.legible import legible_values, needs_care, texts_of

_TEXTS: Final = (
    *("x", "y", "text", "hovertext", "labels", "parents", "ids", "name", "customdata"),
    "legendgroup",
)
_MAX_TICK: Final = 64
"""Letters at an axis; a longer name leaves no room for the chart."""


Status = Literal["", "ok", "warning", "bad", "unknown"]

_SIGNS: Final[dict[Status, str]] = {"ok": "● ", "warning": "▲ ", "bad": "✖ ", "unknown": "? "}
_COLORS: Final[dict[Status, Any]] = {"ok": "green", "warning": "orange", "bad": "red"}
_MAX_TREND: Final = 60
"""Points of a sparkline; there is no room for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """One figure of the row at the top of a page.

    Attributes:
        label: What it is, one to three words.
        value: As :mod:`core.units` writes it.
        note: What it is measured against, or whose it is: ``target ±20%``.
        status: Judged against its limit; empty: nothing judges it. Colour, shape and word show it.
        trend: Values of the last hours, oldest first; fewer than two draw no line.
        help: One sentence.
    """

    label: str
    value: str
    note: str = ""
    status: Status = ""
    trend: Sequence[float] = ()
    help: str = ""


def key_figures(found: Sequence[KeyFigure], *, key: str) -> None:
    """Show the row of key figures of a page; it wraps where the window is narrow.

    Args:
        found: At most seven.
        key: Unique on the page; values change in place.
    """
    with st.container(horizontal=True, gap="small", key=f"figures_{key}"):
        for at, one in enumerate(found):
            with st.container(key=f"figure_{one.status or 'plain'}_{key}_{at}"):
                trend = list(one.trend)[-_MAX_TREND:]
                st.metric(
                    words.plain(one.label),
                    words.plain(one.value),
                    words.plain(_SIGNS.get(one.status, "") + one.note) or None,
                    delta_color=_COLORS.get(one.status, "gray"),
                    delta_arrow="off",
                    help=words.plain(one.help) or None,
                    border=True,
                    chart_data=trend if len(trend) > 1 else None,
                )


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
