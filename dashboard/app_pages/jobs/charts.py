"""Result tables of jobs as lines over time or as bars."""

from __future__ import annotations

from typing import Final

import pandas as pd
import plotly.graph_objects as go

from dashboard.charts.template import ACCENT, SERIES, styled

SUFFIXES: Final = {
    "percent": "%",
    "megabytes": " MB/s",
    "rate": " msg/s",
    "requests": " req/s",
    "seconds": " s",
    "milliseconds": " s",
}
"""By the form of a column."""


def shape_lines(wide: pd.DataFrame, *, suffix: str = "") -> go.Figure:
    """Return one line a column over the index, which holds times."""
    figure = go.Figure()
    for rank, name in enumerate(wide.columns):
        figure.add_trace(
            go.Scatter(
                x=wide.index,
                y=wide[name],
                mode="lines" if len(wide) > 40 else "lines+markers",
                name=str(name)[:60],
                line={"width": 1.8, "color": SERIES[rank % len(SERIES)]},
                hovertemplate="%{x|%Y-%m-%d %H:%M} UTC<br><b>%{y:,.4g}" + suffix + "</b>",
            )
        )
    styled(figure, height=300, legend=len(wide.columns) > 1)
    figure.update_yaxes(ticksuffix=suffix, rangemode="tozero")
    figure.update_xaxes(title_text="UTC")
    return figure


def shape_bars(values: pd.Series, *, suffix: str = "") -> go.Figure:
    """Return one bar a group, the greatest first."""
    names = [str(name)[:48] for name in values.index]
    figure = go.Figure(
        go.Bar(
            x=list(range(len(names))),
            y=values.to_numpy(),
            marker={"color": ACCENT},
            customdata=names,
            hovertemplate="%{customdata}<br><b>%{y:,.4g}" + suffix + "</b><extra></extra>",
        )
    )
    styled(figure, height=300)
    figure.update_yaxes(ticksuffix=suffix, rangemode="tozero")
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=[name[-22:] for name in names])
    return figure
