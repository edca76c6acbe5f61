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
        scenario: Shape ``(n,)``, in the scenario before any move; ``None``: there is no scenario.
        left_out: Brokers that are nearer to the mean and not drawn.
    """

    brokers: Sequence[str]
    now: Floats
    after: Floats
    scenario: Floats | None = None
    left_out: int = 0


def pairs_of(
    brokers: Sequence[str], now: Floats, after: Floats, scenario: Floats | None = None
) -> DeviationPairs:
    """Return the brokers to draw, the highest first: the worst of each side on a large fleet.

    Args:
        brokers: Names; length ``n``.
        now: Shape ``(n,)``, signed share of the mean; NaN: unknown. A broker of which nothing is
            known is not drawn.
        after: Shape ``(n,)``, likewise.
        scenario: Shape ``(n,)``, likewise; ``None``: there is no scenario.
    """
    first = np.where(np.isfinite(now), now, after if scenario is None else scenario)
    known = np.flatnonzero(np.isfinite(first))
    order = known[np.argsort(-first[known], kind="stable")]
    if order.size > 2 * MAX_A_SIDE:
        order = np.concatenate([order[:MAX_A_SIDE], order[-MAX_A_SIDE:]])
    return DeviationPairs(
        brokers=[brokers[row] for row in order.tolist()],
        now=now[order],
        after=after[order],
        scenario=None if scenario is None else scenario[order],
        left_out=known.size - order.size,
    )


@drawn_once
def deviation_dumbbells(pairs: DeviationPairs, tolerance_ratio: float) -> go.Figure:
    """Return one row a broker: an open point for now, a filled one for after, the band behind.

    A scenario has an open diamond between them.

    Args:
        pairs: The brokers.
        tolerance_ratio: Half width of the target band.
    """
    names, percent = list(pairs.brokers), 100.0
    points = [("now", "circle-open", pairs.now), ("after", "circle", pairs.after)]
    if pairs.scenario is not None:
        points.insert(1, ("scenario, no moves", "diamond-open", pairs.scenario))
    gap = np.full(pairs.now.shape, np.nan)
    band = tolerance_ratio * percent
    traces = [
        go.Scatter(  # one trace: a gap ends each line
            x=np.column_stack([*(values * percent for _, _, values in points), gap]).ravel(),
            y=[name for name in names for _ in range(len(points) + 1)],
            mode="lines",
            line={"color": NEUTRAL, "width": 2},
            showlegend=False,
            hoverinfo="skip",
        )
    ]
    traces += [
        go.Scatter(
            x=values * percent,
            y=names,
            mode="markers",
            name=label,
            marker=_marker(symbol, values, tolerance_ratio),
            customdata=[format_deviation(float(value)) for value in values],
            hovertemplate="%{y}<br><b>%{customdata}</b><extra>" + label + "</extra>",
        )
        for label, symbol, values in points
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
