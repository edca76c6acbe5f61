"""Deviation from the mean by broker, now and after a plan, against the target band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.units import format_deviation
from dashboard.charts.once import drawn_once
from dashboard.charts.template import FAINT, LINE, NEUTRAL, band_color, styled

Floats = NDArray[np.float64]

MAX_A_SIDE: Final = 20
"""Brokers that are drawn above the mean, and below it."""

_ROW_PX: Final = 22


@dataclass(frozen=True, eq=False)
class DeviationPairs:
    """Deviation of some brokers from the mean, now and after.

    Attributes:
        brokers: Names, the highest first; length ``n``.
        now: Shape ``(n,)``, share of the mean.
        after: Shape ``(n,)``, NaN where nothing is known to come.
        left_out: Brokers that are nearer to the mean and not drawn.
    """

    brokers: Sequence[str]
    now: Floats
    after: Floats
    left_out: int = 0


def pairs_of(brokers: Sequence[str], now: Floats, after: Floats) -> DeviationPairs:
    """Return the brokers to draw, the highest first: the worst of each side on a large fleet.

    Args:
        brokers: Names; length ``n``.
        now: Shape ``(n,)``, signed share of the mean; NaN: unknown, not drawn.
        after: Shape ``(n,)``, likewise.
    """
    known = np.flatnonzero(np.isfinite(now))
    order = known[np.argsort(-now[known], kind="stable")]
    if order.size > 2 * MAX_A_SIDE:
        order = np.concatenate([order[:MAX_A_SIDE], order[-MAX_A_SIDE:]])
    return DeviationPairs(
        brokers=[brokers[row] for row in order.tolist()],
        now=now[order],
        after=after[order],
        left_out=known.size - order.size,
    )


@drawn_once
def deviation_dumbbells(pairs: DeviationPairs, tolerance_ratio: float) -> go.Figure:
    """Return one row a broker: an open point for now, a filled one for after, the band behind.

    Args:
        pairs: The brokers.
        tolerance_ratio: Half width of the target band.
    """
    names, percent = list(pairs.brokers), 100.0
    now, after = pairs.now * percent, pairs.after * percent
    gap = np.full(now.shape, np.nan)
    band = tolerance_ratio * percent
    traces = [
        go.Scatter(  # one trace: a gap ends each line
            x=np.column_stack([now, after, gap]).ravel(),
            y=[name for name in names for _ in range(3)],
            mode="lines",
            line={"color": NEUTRAL, "width": 2},
            showlegend=False,
            hoverinfo="skip",
        )
    ]
    traces += [
        go.Scatter(
            x=values,
            y=names,
            mode="markers",
            name=label,
            marker=marker,
            customdata=[format_deviation(float(value) / percent) for value in values],
            hovertemplate="%{y}<br><b>%{customdata}</b><extra>" + label + "</extra>",
        )
        for values, label, marker in (
            (now, "now", _marker("circle-open", pairs.now, tolerance_ratio)),
            (after, "after", _marker("circle", pairs.after, tolerance_ratio)),
        )
        if np.isfinite(values).any()
    ]
    layout = {
        "shapes": [
            _across("rect", -band, band, fillcolor=FAINT, line={"width": 0}, layer="below"),
            _across("line", 0, 0, line={"color": LINE, "width": 1}),
        ],
        "xaxis": {"ticksuffix": "%", "tickprefix": "", "showgrid": True, "gridcolor": FAINT},
        "yaxis": {"autorange": "reversed", "type": "category", "dtick": 1},
    }
    height = 64 + _ROW_PX * max(len(names), 4)
    return styled(go.Figure(traces, layout), height=height, legend=True)


def _across(kind: str, start: float, end: float, **look: object) -> dict[str, object]:
    """Return a shape from the bottom of the chart to its top."""
    ends = {"x0": start, "x1": end, "y0": 0, "y1": 1}
    return {"type": kind, "xref": "x", "yref": "y domain", **ends, **look}


def _marker(symbol: str, deviations: Floats, tolerance_ratio: float) -> dict[str, object]:
    """Points coloured by how far they are from the mean, which their place shows as well."""
    return {
        "symbol": symbol,
        "size": 9,
        "color": [band_color(value, tolerance_ratio) for value in deviations.tolist()],
        "line": {"width": 2 if symbol.endswith("open") else 0},
    }
