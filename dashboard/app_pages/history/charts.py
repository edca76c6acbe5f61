"""Figures of the History page: load and events on one time axis, moves by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Unit, scale_of, texts_of
from dashboard.charts.template import ACCENT, FAINT, LINE, NEAR, NEUTRAL, SERIES, styled

if TYPE_CHECKING:
    from core.history.queries.profile import Profile

# -- load and events on one time axis --------------------------------------------------------------

Floats = NDArray[np.float64]

_ROW_PX: Final = 13
_MIN_PX, _MAX_PX = 104, 300
_MEAN_PX, _EVEN_PX, _LANE_PX = 50, 46, 16
_GAP_PX: Final = 18
_QUIET: Final = "no events"
_HEADROOM: Final = 1.25
"""For the name of a panel, above its lines."""


@dataclass(frozen=True, eq=False)
class Lane:
    """Events of one sort over time; every sequence has the same length.

    Attributes:
        name: For people.
        key: Stable word.
        times: When, aware UTC.
        sizes: How many events stand behind each mark.
        texts: What hovering says.
        symbol: Plotly's name of the mark.
        color: Of the marks; never the only sign.
    """

    name: str
    key: str
    times: Sequence[datetime]
    sizes: Sequence[int]
    texts: Sequence[str]
    symbol: str
    color: str


@dataclass(frozen=True, eq=False)
class Timeline:
    """Data of the timeline.

    Attributes:
        rows: Names of the servers drawn; length ``n``.
        times: Aware UTC, ascending; length ``m``.
        values: Shape ``(n, m)``, NaN where nothing was recorded.
        peaks: Shape ``(n, m)``: the largest of each stretch.
        mean: Shape ``(m,)``, over all servers, as the next two.
        low: Smallest.
        high: Largest.
        even_times: Aware UTC; length ``k``.
        even: Shape ``(k,)``: how uneven the load was, in ``even_unit``.
        even_unit: Its unit.
        even_label: What it is called.
        bound: What ``even`` should stay below; NaN: there is no such line.
        unit: Of the values.
        label: Name of the measure.
        lanes: Events, from the top.
        start: Where the axis begins.
        end: Where it ends.
        marked: The minute that is looked at; ``None``: none.
    """

    rows: Sequence[str]
    times: Sequence[datetime]
    values: Floats
    peaks: Floats
    mean: Floats
    low: Floats
    high: Floats
    even_times: Sequence[datetime]
    even: Floats
    even_unit: Unit
    even_label: str
    bound: float
    unit: Unit
    label: str
    lanes: Sequence[Lane]
    start: datetime
    end: datetime
    marked: datetime | None = None


@drawn_once
def history_timeline(data: Timeline) -> go.Figure:
    """Return the figure; marks of events can be clicked, their custom data begin with the lane."""
    grid_px = min(_MAX_PX, max(_MIN_PX, _ROW_PX * len(data.rows)))
    lanes_px = _LANE_PX * max(1, len(data.lanes)) + 8
    heights = [_MEAN_PX, _EVEN_PX, grid_px, lanes_px]
    total = sum(heights) + 3 * _GAP_PX
    figure = make_subplots(
        rows=4,
        cols=1,
        shared_xaxes=True,
        row_heights=[px / sum(heights) for px in heights],
        vertical_spacing=_GAP_PX / total,
    )
    _add_range(figure, data)
    _add_evenness(figure, data)
    _add_grid(figure, data)
    _add_lanes(figure, data)
    styled(figure, height=total + 44)
    scale = scale_of(data.unit)
    top = (_MEAN_PX + _EVEN_PX + 2 * _GAP_PX) / total
    figure.update_layout(
        coloraxis={
            "colorbar": {
                "thickness": 8,
                "len": grid_px / total,
                "y": 1 - top - grid_px / total / 2,
                "outlinewidth": 0,
                "ticksuffix": scale.suffix,
                "tickfont": {"size": 10},
            },
            "cmin": 0,
            "cmax": scale.end_of(data.values),
        },
        margin={"r": 4},
    )
    figure.update_yaxes(
        ticksuffix=scale.suffix,
        range=[0, _HEADROOM * scale.end_of(data.high)],
        nticks=4,
        row=1,
        col=1,
    )
    even = scale_of(data.even_unit)
    figure.update_yaxes(
        ticksuffix=even.suffix,
        range=[0, _HEADROOM * even.end_of(data.even)],
        nticks=3,
        row=2,
        col=1,
    )
    figure.update_yaxes(
        autorange="reversed", type="category", nticks=max(2, grid_px // _ROW_PX), row=3, col=1
    )
    figure.update_xaxes(range=[data.start, data.end], tickformat=span_format(data.start, data.end))
    figure.update_xaxes(title_text="UTC", row=4, col=1)
    _name_panels(figure, data)
    if data.marked is not None:
        figure.add_vline(x=data.marked, line={"color": NEAR, "width": 1.5})
    return figure


def _name_panels(figure: go.Figure, data: Timeline) -> None:
    """Write the label of each panel above its upper left corner, clear of the lines."""
    for number, text in ((1, f"{data.label}: mean and range"), (2, data.even_label)):
        axis = "" if number == 1 else str(number)
        figure.add_annotation(
            text=text,
            xref="paper",
            x=0.004,
            yref=f"y{axis} domain",
            y=1.0,
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
            font={"size": 11},
        )


def span_format(start: datetime, end: datetime) -> str:
    """Return the format of a time axis by the length of its span."""
    span_s = (end - start).total_seconds()
    if span_s < 900:
        return "%H:%M:%S"
    return "%H:%M" if span_s <= 26 * 3600 else "%d %b %H:%M"


def _add_range(figure: go.Figure, data: Timeline) -> None:
    factor = scale_of(data.unit).factor
    for values, name in ((data.high, "hottest"), (data.low, "coolest"), (data.mean, "mean")):
        is_mean = name == "mean"
        figure.add_trace(
            go.Scatter(
                x=list(data.times),
                y=values * factor,
                mode="lines" if len(data.times) > 1 else "markers",
                line={"width": 2 if is_mean else 0.8, "color": ACCENT if is_mean else LINE},
                fill="tonexty" if name == "coolest" else None,
                fillcolor=FAINT,
                name=name,
                customdata=texts_of(values, data.unit),
                hovertemplate="%{x|%d %b %H:%M:%S}<br>%{customdata}<extra>" + name + "</extra>",
            ),
            row=1,
            col=1,
        )


def _add_evenness(figure: go.Figure, data: Timeline) -> None:
    factor = scale_of(data.even_unit).factor
    figure.add_trace(
        go.Scatter(
            x=list(data.even_times),
            y=data.even * factor,
            mode="lines" if len(data.even_times) > 1 else "markers",
            line={"width": 1.5, "color": SERIES[1]},
            name=data.even_label,
            customdata=texts_of(data.even, data.even_unit),
            hovertemplate="%{x|%d %b %H:%M:%S}<br>%{customdata}<extra>"
            + data.even_label
            + "</extra>",
        ),
        row=2,
        col=1,
    )
    if np.isfinite(data.bound):
        figure.add_hline(
            y=data.bound * factor, line={"color": LINE, "width": 1, "dash": "dot"}, row=2, col=1
        )


def _add_grid(figure: go.Figure, data: Timeline) -> None:
    scale = scale_of(data.unit)
    figure.add_trace(
        go.Heatmap(
            x=list(data.times),
            y=list(data.rows),
            z=data.values * scale.factor,
            customdata=data.peaks * scale.factor,
            hovertemplate="%{y}<br>%{x|%d %b %H:%M:%S} UTC<br><b>%{z:,.4~g}"
            + scale.suffix
            + "</b>, max %{customdata:,.4~g}"
            + scale.suffix
            + "<extra></extra>",
            coloraxis="coloraxis",
            hoverongaps=False,
            ygap=1,
        ),
        row=3,
        col=1,
    )


def _add_lanes(figure: go.Figure, data: Timeline) -> None:
    names = [lane.name for lane in data.lanes] or [_QUIET]
    if not data.lanes:  # an axis without anything on it is not drawn
        figure.add_trace(
            go.Scatter(
                x=[data.start], y=[_QUIET], mode="markers", marker={"size": 0.1}, hoverinfo="skip"
            ),
            row=4,
            col=1,
        )
    for lane in data.lanes:
        figure.add_trace(
            go.Scatter(
                x=list(lane.times),
                y=[lane.name] * len(lane.times),
                mode="markers",
                marker={
                    "symbol": lane.symbol,
                    "color": lane.color,
                    "size": [6 + min(7.0, 2.0 * np.log2(size)) for size in lane.sizes],
                    "line": {"width": 0.5, "color": LINE},
                },
                name=lane.name,
                customdata=[
                    [lane.key, moment.isoformat(), text]
                    for moment, text in zip(lane.times, lane.texts, strict=True)
                ],
                hovertemplate="%{x|%d %b %H:%M:%S}<br>%{customdata[2]}<extra></extra>",
            ),
            row=4,
            col=1,
        )
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=names[::-1],
        range=[-0.7, max(0.7, len(names) - 0.3)],
        row=4,
        col=1,
    )


# -- moves by time ---------------------------------------------------------------------------------

_COLORS: Final = {"the cluster": NEUTRAL, "Trimtab": ACCENT}


@dataclass(frozen=True, eq=False)
class MovesByTime:
    """Numbers of moves over time.

    Attributes:
        times: Beginnings of equal stretches, aware UTC, ascending.
        counts: By whom, the moves of each stretch.
        each: How long a stretch is, for people.
        start: Where the axis begins.
        end: Where it ends.
    """

    times: Sequence[datetime]
    counts: Mapping[str, Sequence[int]]
    each: str
    start: datetime
    end: datetime


@drawn_once
def moves_by_time(data: MovesByTime) -> go.Figure:
    """Return stacked bars."""
    figure = go.Figure()
    for rank, (who, counts) in enumerate(data.counts.items()):
        figure.add_trace(
            go.Bar(
                x=list(data.times),
                y=list(counts),
                name=f"by {who}",
                marker_color=_COLORS.get(who, SERIES[rank % len(SERIES)]),
                hovertemplate="%{x|%d %b %H:%M}<br><b>%{y:,} moves</b><extra>by "
                + who
                + "</extra>",
            )
        )
    styled(figure, height=190, legend=True)
    figure.update_layout(barmode="stack", bargap=0.15)
    figure.update_yaxes(title_text=f"moves in {data.each}", rangemode="tozero", nticks=5)
    figure.update_xaxes(
        range=[data.start, data.end],
        tickformat=span_format(data.start, data.end),
        title_text="UTC",
    )
    return figure


_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def weekly_profile(profile: Profile, unit: Unit) -> go.Figure:
    """Return the heatmap of a profile: weekday by hour of the day; grey: not recorded."""
    scale = scale_of(unit)
    figure = go.Figure(
        go.Heatmap(
            x=[f"{hour:02}" for hour in range(24)],
            y=list(_WEEKDAYS),
            z=(profile.level * scale.factor).astype(np.float32),
            customdata=np.dstack([profile.spread * scale.factor, profile.weeks]),
            hovertemplate="%{y} %{x}:00 UTC<br><b>"
            + scale.hover("z")
            + "</b><br>spread "
            + scale.hover("customdata[0]")
            + "<br>weeks %{customdata[1]}<extra></extra>",
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=1,
            ygap=1,
        )
    )
    styled(figure, height=230)
    figure.update_layout(
        coloraxis={
            "colorbar": {"thickness": 8, "outlinewidth": 0, "ticksuffix": scale.suffix},
            "cmin": 0,
            "cmax": scale.end_of(profile.level),
        },
        margin={"r": 4},
    )
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(type="category")
    return figure
