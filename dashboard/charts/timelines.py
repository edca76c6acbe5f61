"""Candidates of a back-test over time: how far off the mean, and how many moves by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from core.history.backtest.wording import PULSAR, Wording
from dashboard.charts.heatmap import clock_format
from dashboard.charts.template import FAR, LINE, SERIES, styled


@dataclass(frozen=True, eq=False)
class Line:
    """One candidate.

    Attributes:
        name: Its label.
        times: Aware UTC, ascending.
        deviation: Shape ``(n,)``: farthest server from the mean, share of it; NaN unknown.
        unloads: Shape ``(n,)``: unloads so far.
        farthest: The server that is farthest, by time.
        is_record: What really happened.
    """

    name: str
    times: Sequence[datetime]
    deviation: NDArray[np.float64]
    unloads: NDArray[np.float64]
    farthest: Sequence[str]
    is_record: bool = False


def timeline_chart(
    lines: Sequence[Line], *, target: float | None = None, nouns: Wording = PULSAR
) -> go.Figure:
    """Return deviation above and moves so far below, on one time axis.

    Args:
        lines: At least one.
        target: Deviation that is good enough, share of the mean.
        nouns: Of the system that they are of.
    """
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.66, 0.34], vertical_spacing=0.06
    )
    colors = iter(SERIES)
    for line in lines:
        style = {
            "color": FAR if line.is_record else next(colors, SERIES[-1]),
            "width": 1.8,
            "dash": "dot" if line.is_record else "solid",
        }
        is_short = len(line.times) < 40
        figure.add_trace(
            go.Scattergl(
                x=list(line.times),
                y=line.deviation * 100,
                mode="lines+markers" if is_short else "lines",
                name=line.name[:60],
                legendgroup=line.name,
                line=style,
                customdata=list(line.farthest),
                hovertemplate="%{x|%m-%d %H:%M:%S} UTC<br><b>%{y:.1f} %</b> %{customdata}",
            ),
            row=1,
            col=1,
        )
        figure.add_trace(
            go.Scattergl(
                x=list(line.times),
                y=line.unloads,
                mode="lines",
                name=line.name[:60],
                legendgroup=line.name,
                showlegend=False,
                line={**style, "shape": "hv"},
                hovertemplate="%{x|%m-%d %H:%M:%S} UTC<br><b>%{y:,.0f}</b> "
                + nouns.moves
                + " so far",
            ),
            row=2,
            col=1,
        )
    styled(figure, height=430, legend=True)
    if target is not None:
        figure.add_hline(
            y=target * 100, line={"color": LINE, "width": 1, "dash": "dash"}, row=1, col=1
        )
    figure.update_yaxes(
        ticksuffix=" %", rangemode="tozero", title_text="off the mean", row=1, col=1
    )
    figure.update_yaxes(rangemode="tozero", title_text=f"{nouns.moves} so far", row=2, col=1)
    times = lines[0].times if lines else []
    figure.update_xaxes(tickformat=clock_format(times), title_text="UTC", row=2, col=1)
    return figure
