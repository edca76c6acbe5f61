"""Moves by time: a bar for each stretch, by whom they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import plotly.graph_objects as go

from dashboard.charts.history_timeline import span_format
from dashboard.charts.template import ACCENT, NEUTRAL, SERIES, styled

_COLORS: Final = {"the cluster": NEUTRAL, "Trimtab": ACCENT}


@dataclass(frozen=True, eq=False)
class MovesByTime:
    """How many moves there were.

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
