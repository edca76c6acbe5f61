"""Lines over time, with the moments at which something changed hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.charts.heatmap import clock_format
from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Unit, moments_of, scale_of, text_of
from dashboard.charts.template import FAR, LINE, SERIES, styled


@dataclass(frozen=True, eq=False)
class LineSeries:
    """One line: ``values`` has the length of the chart's times, NaN where unknown."""

    name: str
    values: NDArray[np.float64]


_LIMIT_PX = 84
"""Room for the name of a limit."""


_MAX_RULES = 24
"""At most so many events have a line to the axis."""


@drawn_once
def history_lines(
    times: Sequence[datetime],
    series: Sequence[LineSeries],
    unit: Unit,
    *,
    events: Sequence[tuple[datetime, str]] = (),
    limit: tuple[float, str] | None = None,
    height: int = 240,
) -> go.Figure:
    """Return lines over time; each event is a triangle with its text on hover.

    Args:
        times: Oldest first.
        series: One line each.
        unit: Of the values and of ``limit``.
        events: Moment and text.
        limit: Value of a dashed line, and its name.
        height: Pixels.
    """
    scale = scale_of(unit)
    figure, moments = go.Figure(), moments_of(times)
    for rank, line in enumerate(series):
        figure.add_trace(
            go.Scatter(
                x=moments,
                y=(line.values * scale.factor).astype(np.float32),
                mode="lines" if len(times) > 2 else "lines+markers",
                name=line.name,
                line={"width": 1.8, "color": SERIES[rank % len(SERIES)]},
                hovertemplate="%{x|%d %b %H:%M:%S} UTC<br><b>"
                + scale.hover("y")
                + f"</b><extra>{line.name}</extra>",
            )
        )
    top = max((float(np.nanmax(line.values, initial=0.0)) for line in series), default=0.0)
    if events:
        figure.add_trace(
            go.Scatter(
                x=[moment for moment, _ in events],
                y=[top * scale.factor * 1.04] * len(events),
                mode="markers",
                marker={"symbol": "triangle-down", "size": 9, "color": LINE},
                name="event",
                customdata=[text for _, text in events],
                hovertemplate="%{x|%d %b %H:%M:%S} UTC<br>%{customdata}<extra></extra>",
            )
        )
        if len(events) <= _MAX_RULES:  # more would hide the lines
            for moment, _ in events:
                figure.add_vline(x=moment, line={"color": LINE, "width": 1, "dash": "dot"})
    if limit is not None:
        figure.add_hline(
            y=limit[0] * scale.factor,
            line={"color": FAR, "width": 1.2, "dash": "dash"},
            annotation={
                "text": f"{limit[1]}<br>{text_of(limit[0], unit)}",
                "font": {"color": FAR, "size": 11},
                "align": "left",
            },
            annotation_position="right",  # next to the plot: in it a line may run through
        )
    styled(figure, height=height, legend=len(figure.data) > 1)
    if limit is not None:
        figure.update_layout(margin={"r": _LIMIT_PX})
    figure.update_yaxes(ticksuffix=scale.suffix, rangemode="tozero")
    figure.update_xaxes(type="date", tickformat=clock_format(times), title_text="UTC")
    return figure
