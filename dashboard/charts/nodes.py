"""Bars of a Pegasus cluster's nodes: what they lead and what they keep, against the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.units import format_mb
from dashboard.charts.template import ACCENT, LINE, NEUTRAL, SERIES, styled

Floats = NDArray[np.float64]
_ROW_PX = 26
_LEAST_ROW_PX = 9
_HEIGHT_PX = 560
_ROUNDS_PX = 250


@dataclass(frozen=True, eq=False)
class NodeBars:
    """One measure of every node.

    Attributes:
        nodes: Names; length ``n``.
        primaries: Shape ``(n,)``: the part of primaries; NaN: unknown.
        secondaries: Shape ``(n,)``: the part of secondaries; zeros where they have none.
        mean: Over the living nodes, of both parts; NaN: unknown.
        label: Name of the measure.
        unit: What follows a number; may be empty.
    """

    nodes: Sequence[str]
    primaries: Floats
    secondaries: Floats
    mean: float
    label: str
    unit: str


_FEW: Final = 5


@dataclass(frozen=True, eq=False)
class RoundLines:
    """Primaries of some nodes by round of the balancer.

    Attributes:
        nodes: Names; length ``n``.
        rounds: Numbers, 0: as it is; length ``m``.
        counts: Shape ``(m, n)``.
    """

    nodes: Sequence[str]
    rounds: NDArray[np.int64]
    counts: Floats


def round_lines(data: RoundLines) -> go.Figure:
    """Return a line a node over the rounds."""
    figure = go.Figure()
    for at, name in enumerate(data.nodes):
        figure.add_trace(
            go.Scatter(
                x=data.rounds,
                y=data.counts[:, at],
                mode="lines+markers",
                name=name,
                line={"width": 1.8, "color": SERIES[at % len(SERIES)]},
                hovertemplate="round %{x}<br><b>%{y:,.0f} primaries</b><extra>" + name + "</extra>",
            )
        )
    styled(figure, height=_ROUNDS_PX, legend=True)
    figure.update_xaxes(title_text="round", rangemode="tozero", **count_ticks(data.rounds))
    figure.update_yaxes(**count_ticks(data.counts))
    return figure


def node_bars(data: NodeBars) -> go.Figure:
    """Return stacked bars, a row a node, with a line at the mean."""
    names = list(data.nodes)
    figure = go.Figure()
    has_both = bool(np.nan_to_num(data.secondaries).any())
    series = [("primaries", data.primaries, ACCENT)]
    if has_both:
        series.append(("secondaries", data.secondaries, NEUTRAL))
    for label, values, color in series:
        figure.add_trace(
            go.Bar(
                x=values,
                y=names,
                orientation="h",
                marker_color=color,
                name=label,
                customdata=[text_with_unit(float(value), data.unit) for value in values],
                hovertemplate="%{y}<br><b>%{customdata}</b><extra>" + label + "</extra>",
            )
        )
    if np.isfinite(data.mean):
        figure.add_vline(
            x=data.mean,
            line={"color": LINE, "width": 1.5, "dash": "dot"},
            annotation={
                "text": f"mean {text_with_unit(data.mean, data.unit)}",
                "font": {"size": 11},
                "yanchor": "bottom",
            },
            annotation_position="top",
        )
    unknown = [name for name, value in zip(names, data.primaries, strict=True) if np.isnan(value)]
    for name in unknown:
        figure.add_annotation(
            x=0, y=name, text="unknown", showarrow=False, xanchor="left", font={"size": 11}
        )
    row_px = max(_LEAST_ROW_PX, min(_ROW_PX, _HEIGHT_PX // max(1, len(names))))
    styled(figure, height=90 + row_px * len(names), legend=has_both)
    figure.update_layout(
        barmode="stack",
        margin={"t": 44 if has_both else 26},
        legend={"traceorder": "normal"},
    )
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(ticksuffix=f" {data.unit}" if data.unit == "GB" else data.unit)
    if not data.unit:
        figure.update_xaxes(**count_ticks(data.primaries + np.nan_to_num(data.secondaries)))
    return figure


def count_ticks(values: Floats | NDArray[np.int64]) -> dict[str, object]:
    """Return settings of an axis of counts: few of them get a tick each, none twice."""
    known = values[np.isfinite(values)]
    most = float(known.max()) if known.size else 0.0
    return {"dtick": 1, "tickformat": "d"} if most <= _FEW else {"tickformat": ",d"}


def text_with_unit(value: float, unit: str) -> str:
    """Return a number for people; ``unknown`` for NaN."""
    if not np.isfinite(value):
        return "unknown"
    if unit == "GB":
        return format_mb(value * 1e3)
    number = f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:,.1f}"
    return f"{number}{unit}"
