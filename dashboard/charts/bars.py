"""Bars: before against after by broker, distributions over brokers, resources against limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.plan.model import AT_LEAST
from core.units import format_ratio
from dashboard.charts.heatmap import deviation_text, distance_colors
from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Unit, scale_of, text_of
from dashboard.charts.template import ACCENT, FAINT, LINE, NEUTRAL, band_legend, styled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """One measure of some brokers before and after a plan.

    Attributes:
        brokers: Names; length ``n``.
        before: Shape ``(n,)``.
        after: Shape ``(n,)``, expected value.
        low: Shape ``(n,)``, smallest over the possible outcomes.
        high: Shape ``(n,)``, largest over the possible outcomes.
        mean_after: Fleet mean after the plan.
        tolerance_ratio: Half width of the target band.
        unit: Unit of the values.
        is_lower_bound: Shape ``(n,)``: ``after`` is at least so much; empty: of none.
    """

    brokers: Sequence[str]
    before: Floats
    after: Floats
    low: Floats
    high: Floats
    mean_after: float
    tolerance_ratio: float
    unit: Unit
    is_lower_bound: Sequence[bool] = ()


@drawn_once
def before_after_bars(data: BeforeAfter) -> go.Figure:
    """Return grey bars for before; points with a range for after, coloured by the band."""
    scale = scale_of(data.unit)
    names = list(data.brokers)
    figure = go.Figure()
    figure.add_trace(
        go.Bar(
            x=data.before * scale.factor,
            y=names,
            orientation="h",
            marker_color=NEUTRAL,
            name="before",
            customdata=[text_of(float(value), data.unit) for value in data.before],
            hovertemplate="%{y}<br><b>%{customdata}</b><extra>before</extra>",
            width=0.55,
        )
    )
    for color, label in (band_legend(data.tolerance_ratio) | {LINE: "mean unknown"}).items():
        _add_after(figure, data, color, f"after, {label}")
    _add_band(figure, data.mean_after, data.tolerance_ratio, scale.factor)
    styled(figure, height=90 + 26 * len(names), legend=True)
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(ticksuffix=scale.suffix, rangemode="tozero")
    return figure


def _add_after(figure: go.Figure, data: BeforeAfter, color: str, label: str) -> None:
    """Add the brokers of one colour, where there are any: each has its entry in the legend."""
    colors = distance_colors(data.after, data.mean_after, data.tolerance_ratio)
    rows = np.array([row for row, one in enumerate(colors) if one == color], dtype=np.intp)
    if not rows.size:
        return
    factor = scale_of(data.unit).factor
    after, low, high = data.after[rows], data.low[rows], data.high[rows]
    bounds = [bool(data.is_lower_bound) and data.is_lower_bound[row] for row in rows.tolist()]
    figure.add_trace(
        go.Scatter(
            x=after * factor,
            y=[data.brokers[row] for row in rows.tolist()],
            mode="markers",
            marker={
                "size": 11,
                "symbol": "diamond",
                "color": color,
                "line": {"width": 1, "color": LINE},
            },
            error_x={
                "type": "data",
                "symmetric": False,
                "array": np.clip(high - after, 0, None) * factor,
                "arrayminus": np.clip(after - low, 0, None) * factor,
                "color": LINE,
                "thickness": 1.5,
                "width": 4,
            },
            name=label,
            customdata=[
                [
                    (AT_LEAST if bound else "") + text_of(float(value), data.unit),
                    deviation_text(float(value), data.mean_after),
                    text_of(float(least), data.unit),
                    text_of(float(limit), data.unit),
                ]
                for value, least, limit, bound in zip(after, low, high, bounds, strict=True)
            ],
            hovertemplate="%{y}<br><b>%{customdata[0]}</b>, %{customdata[1]}<br>"
            "between %{customdata[2]} and %{customdata[3]}<extra>after</extra>",
        )
    )


def _add_band(figure: go.Figure, mean: float, tolerance_ratio: float, factor: float) -> None:
    if not np.isfinite(mean):
        return
    figure.add_vrect(
        x0=mean * (1 - tolerance_ratio) * factor,
        x1=mean * (1 + tolerance_ratio) * factor,
        fillcolor=FAINT,
        line_width=0,
        layer="below",
    )
    figure.add_vline(x=mean * factor, line={"color": LINE, "width": 1.5})


def distribution_bars(brokers: Sequence[str], probabilities: Sequence[float]) -> go.Figure:
    """Return the probability of each destination, the most probable first."""
    figure = go.Figure(
        go.Bar(
            x=[value * 100 for value in probabilities],
            y=list(brokers),
            orientation="h",
            marker_color=ACCENT,
            text=[format_ratio(value) for value in probabilities],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}<br><b>%{text}</b><extra></extra>",
        )
    )
    styled(figure, height=40 + 24 * max(1, len(brokers)))
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(range=[0, 130], visible=False)
    return figure
