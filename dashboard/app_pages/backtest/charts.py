"""Figures of the back-test page: candidates by evenness and moves, and their series over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from core.history.backtest.wording import Wording
from dashboard.charts.heatmap import clock_format
from dashboard.charts.template import ACCENT, FAINT, FAR, LINE, NEUTRAL, SERIES, styled

# -- candidates by evenness and moves --------------------------------------------------------------

Range = tuple[float, float]

_NEAR_X: Final = 0.09
_NEAR_Y: Final = 0.05
"""Shares of the axes within which two labels print over each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoPoint:
    """One candidate.

    Attributes:
        name: Its label.
        mark: Written next to it: its rank.
        unloads_per_day: Mean over seeds.
        deviation: Farthest node from the mean, 95th percentile of the minutes, share of the mean.
        unloads_range: Least and greatest over seeds.
        deviation_range: The same.
        is_record: What really happened.
        is_replay: The recorded settings, replayed.
        is_pareto: None is better in both.
        is_enough: It meets the target.
    """

    name: str
    mark: str
    unloads_per_day: float
    deviation: float
    unloads_range: Range
    deviation_range: Range
    is_record: bool = False
    is_replay: bool = False
    is_pareto: bool = False
    is_enough: bool = False


def readable(points: Sequence[ParetoPoint]) -> list[ParetoPoint]:
    """Return the points; those with overlapping labels share one, ``1, 3``."""
    width = max((one.unloads_per_day for one in points), default=0.0) * _NEAR_X or 1.0
    height = max((one.deviation for one in points), default=0.0) * _NEAR_Y or 1.0
    heads: list[tuple[ParetoPoint, list[str]]] = []
    pareto_points: list[ParetoPoint] = []
    for point in points:
        if not point.mark:
            pareto_points.append(point)
            continue
        for head, marks in heads:
            beside = abs(head.unloads_per_day - point.unloads_per_day) < width
            if beside and abs(head.deviation - point.deviation) < height:
                marks.append(point.mark)
                pareto_points.append(replace(point, mark=""))
                break
        else:
            heads.append((point, [point.mark]))
            pareto_points.append(point)
    marks_of = {id(head): ", ".join(marks) for head, marks in heads}
    return [
        replace(one, mark=marks_of[id(one)]) if id(one) in marks_of else one
        for one in pareto_points
    ]


def pareto_chart(
    points: Sequence[ParetoPoint],
    *,
    target: tuple[float, float] | None = None,
    nouns: Wording,
) -> go.Figure:
    """Return the candidates, the front, the actual run and the target.

    Args:
        points: At least one.
        target: Unloads a day and deviation that are good enough.
        nouns: Of the system that they are of.
    """
    figure = go.Figure()
    if target is not None:
        figure.add_shape(
            type="rect",
            x0=0,
            y0=0,
            x1=target[0],
            y1=target[1] * 100,
            fillcolor=FAINT,
            line={"color": LINE, "width": 1, "dash": "dot"},
            layer="below",
            name="target",
            showlegend=True,
        )
    front = sorted(
        (point for point in points if point.is_pareto and not point.is_record),
        key=lambda one: one.unloads_per_day,
    )
    figure.add_trace(
        go.Scatter(
            x=[one.unloads_per_day for one in front],
            y=[one.deviation * 100 for one in front],
            mode="lines",
            line={"color": ACCENT, "width": 1.4, "dash": "dot", "shape": "hv"},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    points = readable(points)
    front = [point for point in points if point.is_pareto and not point.is_record]
    record = [point for point in points if point.is_record]
    again = [point for point in points if point.is_replay and not point.is_pareto]
    plain = [
        point for point in points if not (point.is_pareto or point.is_record or point.is_replay)
    ]
    _add(figure, plain, "tried", {"symbol": "circle", "size": 8, "color": NEUTRAL}, nouns)
    mark: dict[str, object] = {"symbol": "diamond", "size": 11, "color": ACCENT}
    _add(figure, front, "Pareto-optimal", mark, nouns)
    ring: dict[str, object] = {"symbol": "circle-open", "size": 11, "color": FAR}
    _add(figure, again, "replayed", ring, nouns)
    _add(figure, record, "actual", {"symbol": "x", "size": 13, "color": FAR}, nouns)
    styled(figure, height=310, legend=True)
    figure.update_xaxes(title_text=f"{nouns.moves} a day", rangemode="tozero")
    figure.update_yaxes(
        title_text=f"max {nouns.server} deviation from mean (p95)",
        ticksuffix="%",
        rangemode="tozero",
    )
    return figure


def _add(
    figure: go.Figure,
    points: Sequence[ParetoPoint],
    name: str,
    marker: dict[str, object],
    nouns: Wording,
) -> None:
    if not points:
        return
    figure.add_trace(
        go.Scatter(
            x=[point.unloads_per_day for point in points],
            y=[point.deviation * 100 for point in points],
            mode="markers+text",
            name=name,
            marker=marker,
            text=[point.mark for point in points],
            textposition="top right",
            textfont={"size": 14, "weight": 700},
            error_x=_bars(
                [point.unloads_per_day for point in points],
                [point.unloads_range for point in points],
                1,
            ),
            error_y=_bars(
                [point.deviation for point in points],
                [point.deviation_range for point in points],
                100,
            ),
            customdata=[
                (point.name, "meets the target" if point.is_enough else "") for point in points
            ],
            hovertemplate="%{customdata[0]}<br><b>%{y:.1f}%</b> deviation, "
            f"<b>%{{x:,.1f}}</b> {nouns.moves} a day<br>"
            "%{customdata[1]}<extra></extra>",
        )
    )


def _bars(middles: Sequence[float], ranges: Sequence[Range], factor: float) -> dict[str, object]:
    """Return error bars from the least to the greatest over seeds."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [(high - at) * factor for at, (_, high) in zip(middles, ranges, strict=True)],
        "arrayminus": [(at - low) * factor for at, (low, _) in zip(middles, ranges, strict=True)],
        "thickness": 1,
        "width": 3,
        "color": LINE,
    }


# -- their series over time ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CandidateSeries:
    """Lines of one candidate in the charts.

    Attributes:
        name: Its label.
        times: Aware UTC, ascending.
        deviation: Shape ``(n,)``: largest deviation of a server, share of the mean; NaN unknown.
        unloads: Shape ``(n,)``: unloads so far.
        max_deviation_servers: The server with the largest deviation, by time.
        is_record: What really happened.
    """

    name: str
    times: Sequence[datetime]
    deviation: NDArray[np.float64]
    unloads: NDArray[np.float64]
    max_deviation_servers: Sequence[str]
    is_record: bool = False


def timeline_chart(
    lines: Sequence[CandidateSeries], *, target: float | None = None, nouns: Wording
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
                customdata=list(line.max_deviation_servers),
                hovertemplate="%{x|%m-%d %H:%M:%S} UTC<br><b>%{y:.1f}%</b> %{customdata}",
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
        ticksuffix="%", rangemode="tozero", title_text="deviation from mean", row=1, col=1
    )
    figure.update_yaxes(rangemode="tozero", title_text=f"{nouns.moves} so far", row=2, col=1)
    times = lines[0].times if lines else []
    figure.update_xaxes(tickformat=clock_format(times), title_text="UTC", row=2, col=1)
    return figure
