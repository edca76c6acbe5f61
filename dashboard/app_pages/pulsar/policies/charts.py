"""A resource group's limit over time: what gets through at each broker, and what it allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dashboard.charts.once import drawn_once
from dashboard.charts.template import FAINT, FAR, LINE, SERIES, styled

Floats = NDArray[np.float64]

MAX_LINES: Final = len(SERIES)
_HEIGHT_PX: Final = 460


@dataclass(frozen=True, eq=False)
class ShareTimelineData:
    """Shares over time; rows are periods, columns brokers.

    Attributes:
        seconds: Begin of each period, shape ``(n,)``.
        brokers: Names.
        wanted: What clients would send, per second.
        used: What gets through, per second.
        share: What each broker allows itself in the period, per second; NaN: no limit.
        reports: Whether the broker reported at the end of the period.
        limit: Of the whole cluster; NaN: none.
    """

    seconds: Floats
    brokers: Sequence[str]
    wanted: Floats
    used: Floats
    share: Floats
    reports: NDArray[np.bool_]
    limit: float


@drawn_once
def timeline_figure(data: ShareTimelineData) -> go.Figure:
    """Return two charts on one time axis: the sums above, each broker's share below.

    Lines are steps, as a share holds for a whole period; a circle is a report.
    """
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.1, row_heights=[0.42, 0.58]
    )
    minutes = np.append(data.seconds, data.seconds[-1] + _period(data)) / 60
    wanted, used = data.wanted.sum(axis=1), data.used.sum(axis=1)
    _steps(figure, minutes, wanted, "client demand", {"color": LINE, "dash": "dot"}, row=1)
    _steps(figure, minutes, used, "accepted", {"color": LINE}, row=1)
    figure.data[-1].update(fill="tozeroy", fillcolor=FAINT)
    if np.isfinite(data.limit):
        limit = np.full(len(used), data.limit)
        _steps(figure, minutes, limit, "group limit", {"color": FAR, "dash": "dash"}, row=1)
    for rank, broker in enumerate(data.brokers[:MAX_LINES]):
        line = {"color": SERIES[rank % len(SERIES)]}
        _steps(figure, minutes, data.share[:, rank], f"{broker} share", line, row=2)
        _reports(figure, minutes, data, rank)
    styled(figure, height=_HEIGHT_PX, legend=True)
    figure.update_yaxes(rangemode="tozero", title_text="all brokers (1/s)", row=1, col=1)
    figure.update_yaxes(rangemode="tozero", title_text="share (1/s)", row=2, col=1)
    figure.update_xaxes(title_text="minutes", row=2, col=1)
    return figure


def _period(data: ShareTimelineData) -> float:
    return float(data.seconds[1] - data.seconds[0]) if len(data.seconds) > 1 else 60.0


def _steps(
    figure: go.Figure,
    minutes: Floats,
    values: Floats,
    name: str,
    line: dict[str, str],
    *,
    row: int,
) -> None:
    figure.add_trace(
        go.Scatter(
            x=minutes,
            y=np.append(values, values[-1]),
            mode="lines",
            line={"width": 1.8, "shape": "hv", **line},
            name=name,
            hovertemplate="%{x:g} min<br><b>%{y:,.0f}/s</b><extra>" + name + "</extra>",
        ),
        row=row,
        col=1,
    )


def _reports(figure: go.Figure, minutes: Floats, data: ShareTimelineData, rank: int) -> None:
    at = np.flatnonzero(data.reports[:, rank])
    figure.add_trace(
        go.Scatter(
            x=minutes[at + 1],
            y=data.share[at, rank],
            mode="markers",
            marker={"size": 6, "symbol": "circle-open", "color": SERIES[rank % len(SERIES)]},
            showlegend=False,
            name=f"{data.brokers[rank]} reports",
            hovertemplate="%{x:g} min<extra>" + data.brokers[rank] + " reports</extra>",
        ),
        row=2,
        col=1,
    )
