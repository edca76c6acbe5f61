"""Deviation against traffic moved, by candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.charts.once import drawn_once
from dashboard.charts.scale import texts_of
from dashboard.charts.template import ACCENT, SERIES, styled

Floats = NDArray[np.float64]
MAX_POINTS = 200
_SYMBOLS = ("circle", "square", "triangle-up", "x", "star")


@dataclass(frozen=True, eq=False)
class EfficiencyCurve:
    """One candidate, from doing nothing on.

    Attributes:
        name: For the legend.
        moved: Shape ``(n,)``: traffic moved so far, bytes/s.
        deviation: Shape ``(n,)``: max deviation of a broker, share of the mean; NaN unknown.
        texts: What was done by then; length ``n``.
        is_ours: The smallest-moves planner's; the others come in rounds.
    """

    name: str
    moved: Floats
    deviation: Floats
    texts: Sequence[str]
    is_ours: bool = False


@drawn_once
def efficiency_lines(
    efficiency_curves: Sequence[EfficiencyCurve], *, goal_ratio: float | None = None
) -> go.Figure:
    """Return one line a candidate: traffic moved against the remaining deviation."""
    figure = go.Figure()
    colors = iter(SERIES[1:])
    for rank, curve in enumerate(efficiency_curves):
        picks = np.unique(np.linspace(0, curve.moved.size - 1, MAX_POINTS).round().astype(int))
        color = ACCENT if curve.is_ours else next(colors, SERIES[-1])
        figure.add_trace(
            go.Scatter(
                x=curve.moved[picks] / 1e6,
                y=curve.deviation[picks] * 100,
                mode="lines" if curve.is_ours and curve.moved.size > 20 else "lines+markers",
                name=curve.name,
                line={"width": 2.4 if curve.is_ours else 1.6, "color": color},
                marker={"symbol": _SYMBOLS[rank % len(_SYMBOLS)], "size": 7},
                customdata=[
                    (curve.texts[at], text)
                    for at, text in zip(
                        picks.tolist(), texts_of(curve.moved[picks], "bytes/s"), strict=True
                    )
                ],
                hovertemplate="%{customdata[0]}<br><b>±%{y:.1f}%</b> deviation band, "
                "%{customdata[1]} moved<extra>" + curve.name + "</extra>",
            )
        )
    styled(figure, height=270 + 16 * len(efficiency_curves), legend=True)
    if goal_ratio is not None:
        figure.add_hline(y=goal_ratio * 100, line={"color": ACCENT, "width": 1, "dash": "dot"})
    figure.update_yaxes(ticksuffix="%", rangemode="tozero", title_text="deviation band (±)")
    figure.update_xaxes(ticksuffix=" MB/s", rangemode="tozero", title_text="moved so far")
    return figure
