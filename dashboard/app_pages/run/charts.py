"""Predicted vs. actual, server by server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dashboard.charts.scale import Unit, scale_of, text_of
from dashboard.charts.template import ACCENT, LINE, NEUTRAL, styled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """Touched servers before, as predicted, and as measured; NaN where unknown.

    Attributes:
        servers: Names; length ``n``.
        before: Shape ``(n,)``.
        expected: Shape ``(n,)``.
        came: Shape ``(n,)``, all NaN before the measurement.
        unit: Unit of the values.
    """

    servers: list[str]
    before: Floats
    expected: Floats
    came: Floats
    unit: Unit


def outcome_bars(data: RunOutcome) -> go.Figure:
    """Return grey bars for before, hollow diamonds for predicted, filled circles for measured."""
    scale = scale_of(data.unit)
    figure = go.Figure(
        go.Bar(
            x=data.before * scale.factor,
            y=data.servers,
            orientation="h",
            marker_color=NEUTRAL,
            name="before",
            customdata=_texts(data.before, data),
            hovertemplate="%{y}<br><b>%{customdata}</b><extra>before</extra>",
            width=0.55,
        )
    )
    marks = (
        ("predicted", data.expected, {"symbol": "diamond-open", "size": 12, "color": LINE}),
        ("measured", data.came, {"symbol": "circle", "size": 9, "color": ACCENT}),
    )
    for name, values, marker in marks:
        if np.isfinite(values).any():
            figure.add_trace(
                go.Scatter(
                    x=values * scale.factor,
                    y=data.servers,
                    mode="markers",
                    marker={**marker, "line": {"width": 2}},
                    name=name,
                    customdata=_texts(values, data),
                    hovertemplate=f"%{{y}}<br><b>%{{customdata}}</b><extra>{name}</extra>",
                )
            )
    styled(figure, height=90 + 30 * max(1, len(data.servers)), legend=True)
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(ticksuffix=scale.suffix, rangemode="tozero")
    return figure


def _texts(values: Floats, data: RunOutcome) -> list[str]:
    return [text_of(float(value), data.unit) for value in values]
