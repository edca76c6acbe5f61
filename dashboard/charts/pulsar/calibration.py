"""Shares that were shown against the part of them that came true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go

from core.pulsar.leader.accuracy import came_true_range
from core.pulsar.leader.prediction import ShareBin
from dashboard.charts.template import ACCENT, LINE, styled

_SMALLEST_PX: Final = 8.0
_LARGEST_PX: Final = 24.0
_LEFT_EDGE: Final = 20.0
_RIGHT_EDGE: Final = 85.0
_BOTTOM_EDGE: Final = 12.0
"""A label of a marker closer to an edge is on its other side, %."""


def calibration_chart(bins: Sequence[ShareBin], *, height: int = 300) -> go.Figure:
    """Return one marker a range of shares, with its 95% interval, and the line of exact shares.

    A marker above the line came true more often than shown. Its area grows with the bundles.

    Args:
        bins: At least one bundle each.
        height: Pixels.
    """
    limit = max((one.shown for one in bins), default=1)
    shown = [100 * one.share_total / one.shown for one in bins]
    came = [100 * one.came_true / one.shown for one in bins]
    ranges = [came_true_range(one) for one in bins]
    figure = go.Figure()
    figure.add_trace(
        go.Scatter(
            x=[0, 100],
            y=[0, 100],
            mode="lines",
            name="exact",
            line={"color": LINE, "width": 1.2, "dash": "dot"},
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=shown,
            y=came,
            mode="markers+text",
            name="bundles, with 95% interval",
            marker={
                "color": ACCENT,
                "size": [
                    _SMALLEST_PX + (_LARGEST_PX - _SMALLEST_PX) * (one.shown / limit) ** 0.5
                    for one in bins
                ],
                "sizemode": "diameter",
                "line": {"width": 0},
            },
            text=[f"{one.came_true} of {one.shown}" for one in bins],
            textposition=[_side(x, y) for x, y in zip(shown, came, strict=True)],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [100 * high - at for at, (_, high) in zip(came, ranges, strict=True)],
                "arrayminus": [at - 100 * low for at, (low, _) in zip(came, ranges, strict=True)],
                "thickness": 1,
                "width": 3,
                "color": LINE,
            },
            cliponaxis=False,
            customdata=[(one.low * 100, one.high * 100) for one in bins],
            hovertemplate="Predicted %{customdata[0]:.0f}% to %{customdata[1]:.0f}%<br>mean "
            "<b>%{x:.0f}%</b>, actual <b>%{y:.0f}%</b> (%{text})<extra></extra>",
        )
    )
    styled(figure, height=height, legend=True)
    figure.update_xaxes(title_text="Predicted share", ticksuffix="%", range=[-4, 104], dtick=20)
    figure.update_yaxes(title_text="Actual share", ticksuffix="%", range=[-4, 104], dtick=20)
    return figure


def _side(shown: float, came: float) -> str:
    """Return the position of a label: off the line, and inside the chart."""
    if shown > _RIGHT_EDGE:
        return "middle left"
    if came < _BOTTOM_EDGE:  # below are the labels of the axis
        return "top right"
    return "bottom right" if came < shown else "top left" if shown > _LEFT_EDGE else "top center"
