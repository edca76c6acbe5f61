"""Brokers over time: a heatmap, the fleet's mean and spread above, the last value at the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Scale, Unit, moments_of, scale_of, text_of
from dashboard.charts.template import ACCENT, FAINT, LINE, band_color, styled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeatmapData:
    """Values of one measure by broker and time.

    Attributes:
        rows: Names, the hottest first; length ``n``.
        times: Aware UTC, oldest first; length ``m``.
        values: Shape ``(n, m)``, NaN where unknown.
        fleet_mean: Shape ``(m,)``, over all brokers, not only those shown.
        fleet_low: Shape ``(m,)``, smallest over all brokers.
        fleet_high: Shape ``(m,)``, largest over all brokers.
        unit: Unit of the values.
        label: Name of the measure.
        tolerance_ratio: Half width of the target band around the mean, as a share of the mean.
        aside: Brokers that are drained now: not compared with the mean.
    """

    rows: Sequence[str]
    times: Sequence[datetime]
    values: Floats
    fleet_mean: Floats
    fleet_low: Floats
    fleet_high: Floats
    unit: Unit
    label: str
    tolerance_ratio: float
    aside: Sequence[str] = ()


@drawn_once
def broker_heatmap(data: HeatmapData) -> go.Figure:
    """Return the figure: mean and spread (top left), heatmap (left), last values (right)."""
    scale = scale_of(data.unit)
    figure = make_subplots(
        rows=2,
        cols=2,
        shared_xaxes="columns",
        shared_yaxes="rows",
        column_widths=[0.76, 0.24],
        row_heights=[0.22, 0.78],
        horizontal_spacing=0.035,
        vertical_spacing=0.03,
        specs=[[{}, None], [{}, {}]],
    )
    moments = moments_of(data.times)
    _add_mean(figure, data, moments, scale)
    figure.add_trace(
        go.Heatmap(
            x=moments,
            y=list(data.rows),
            z=(data.values * scale.factor).astype(np.float32),
            hovertemplate="%{y}<br>%{x|%H:%M:%S} UTC<br><b>"
            + scale.hover("z")
            + "</b><extra></extra>",
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=_gap_px(moments),
            ygap=1,
        ),
        row=2,
        col=1,
    )
    _add_last(figure, data, scale.factor)
    height = 130 + max(13, min(20, 480 // max(1, len(data.rows)))) * len(data.rows)
    styled(figure, height=height)
    figure.update_layout(
        coloraxis={
            "colorbar": {
                "thickness": 8,
                "len": 0.5,
                "y": 0.39,
                "outlinewidth": 0,
                "ticksuffix": scale.suffix,
                "tickfont": {"size": 10},
            },
            "cmin": 0,
            "cmax": scale.end_of(data.values),
        },
        margin={"r": 4},
    )
    figure.update_yaxes(autorange="reversed", row=2, col=1, type="category")
    figure.update_yaxes(autorange="reversed", row=2, col=2, type="category")
    upper = [0, scale.end_of(data.fleet_high)]
    ticks = 4 if len(data.rows) >= _ROWS_FOR_TICKS else 2
    figure.update_yaxes(ticksuffix=scale.suffix, range=upper, nticks=ticks, row=1, col=1)
    now = [0, scale.end_of(data.values[:, -1:])]
    figure.update_xaxes(
        ticksuffix=scale.suffix, range=now, nticks=4, row=2, col=2, title_text="last snapshot"
    )
    figure.update_xaxes(type="date", col=1)
    figure.update_xaxes(tickformat=clock_format(data.times), title_text="UTC", row=2, col=1)
    return figure


_MAX_COLUMNS: Final = 90
_ROWS_FOR_TICKS: Final = 12
"""With fewer rows the curve above is so low that more than two labels overlap."""


def _gap_px(moments: Floats) -> int:
    """Return the gap between columns: none where the narrowest would be all gap."""
    if moments.size < 2:
        return 0
    is_wide = (moments[-1] - moments[0]) / np.diff(moments).min() <= _MAX_COLUMNS
    return 1 if is_wide else 0


def clock_format(times: Sequence[datetime]) -> str:
    """Return the format of a time axis by its span: seconds for minutes, the day for days."""
    span_s = (times[-1] - times[0]).total_seconds() if len(times) > 1 else 0.0
    if span_s < 600:
        return "%H:%M:%S"
    return "%H:%M" if span_s <= 26 * 3600 else "%d %b %H:%M"


def _add_mean(figure: go.Figure, data: HeatmapData, moments: Floats, scale: Scale) -> None:
    for values, name in ((data.fleet_high, "hottest"), (data.fleet_low, "coolest")):
        figure.add_trace(
            go.Scatter(
                x=moments,
                y=(values * scale.factor).astype(np.float32),
                mode="lines",
                line={"width": 0.8, "color": LINE},
                fill="tonexty" if name == "coolest" else None,
                fillcolor=FAINT,
                name=name,
                hovertemplate=f"{scale.hover('y')}<extra>{name}</extra>",
            ),
            row=1,
            col=1,
        )
    figure.add_trace(
        go.Scatter(
            x=moments,
            y=(data.fleet_mean * scale.factor).astype(np.float32),
            mode="lines" if moments.size > 1 else "markers",
            line={"width": 2, "color": ACCENT},
            name="mean",
            hovertemplate="%{x|%H:%M:%S}<br>" + scale.hover("y") + "<extra>cluster mean</extra>",
        ),
        row=1,
        col=1,
    )


def _add_last(figure: go.Figure, data: HeatmapData, factor: float) -> None:
    last = data.values[:, -1] if data.values.shape[1] else np.full(len(data.rows), np.nan)
    mean = float(data.fleet_mean[-1]) if data.fleet_mean.size else float("nan")
    figure.add_trace(
        go.Bar(
            x=last * factor,
            y=list(data.rows),
            orientation="h",
            marker_color=distance_colors(last, mean, data.tolerance_ratio),
            customdata=[
                [
                    text_of(float(value), data.unit),
                    "drained" if name in data.aside else deviation_text(float(value), mean),
                ]
                for name, value in zip(data.rows, last, strict=True)
            ],
            hovertemplate="%{y}<br><b>%{customdata[0]}</b>, %{customdata[1]}<extra></extra>",
        ),
        row=2,
        col=2,
    )
    if np.isfinite(mean):
        low, high = mean * (1 - data.tolerance_ratio), mean * (1 + data.tolerance_ratio)
        figure.add_vrect(
            x0=low * factor, x1=high * factor, fillcolor=FAINT, line_width=0, row=2, col=2
        )
        figure.add_vline(x=mean * factor, line={"color": LINE, "width": 1.5}, row=2, col=2)


def deviation_text(value: float, mean: float) -> str:
    """Return for example ``+12.0% from the mean``; ``unknown`` when it is not known."""
    if not np.isfinite(value) or not np.isfinite(mean) or mean == 0:
        return "deviation unknown"
    return f"{(value - mean) / mean * 100:+.0f}% from the mean"


def distance_colors(values: Floats, mean: float, tolerance_ratio: float) -> list[str]:
    """Return a colour per value by how far outside the band it is, whichever side."""
    if not np.isfinite(mean) or mean == 0:
        return [LINE] * len(values)
    distance = np.abs(np.nan_to_num(values, nan=mean) - mean) / mean
    return [band_color(far, tolerance_ratio) for far in distance.tolist()]
