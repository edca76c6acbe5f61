"""One bundle laid flat: where it would be cut, what each part keeps, where its topics lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.units import format_percent
from dashboard.charts.scale import text_of
from dashboard.charts.template import ACCENT, LINE, SERIES, styled

INK = "#101820"
WHOLE = "#a9b2b9"
"""Opaque, so that the words on it can be read on a dark page, too."""

_HEIGHT_PX = 190
_TICKS = 5


@dataclass(frozen=True, eq=False)
class CutData:
    """A bundle and its parts on the hash ring, laid flat.

    Attributes:
        lower: Of each part, shape ``(n,)``, ascending.
        upper: Of each part, shape ``(n,)``.
        shares: Of the load, percent, shape ``(n,)``; NaN where unknown.
        hashes: Of the topics that were read; empty: none were.
        topics: Their names.
        loads: Their traffic, bytes/s.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    shares: NDArray[np.float64]
    hashes: Sequence[int] = ()
    topics: Sequence[str] = ()
    loads: Sequence[float] = ()


def cut_strip(data: CutData) -> go.Figure:
    """Return the bundle now and after the split; topics are drawn by their place and traffic."""
    figure = go.Figure()
    start, end = int(data.lower[0]), int(data.upper[-1])
    _bar(figure, "now", start, end, WHOLE, "whole bundle")
    for rank, (low, high, share) in enumerate(
        zip(data.lower.tolist(), data.upper.tolist(), data.shares.tolist(), strict=True)
    ):
        text = format_percent(share) if np.isfinite(share) else "unknown"
        _bar(figure, "after", low, high, SERIES[rank % len(SERIES)], text)
    if data.hashes:
        _add_topics(figure, data)
    for position in data.lower[1:].tolist():
        figure.add_vline(x=position, line={"color": LINE, "width": 1.5, "dash": "dot"})
    styled(figure, height=_HEIGHT_PX)
    ticks = np.linspace(start, end, _TICKS).astype(np.int64).tolist()
    figure.update_xaxes(
        range=[start, end],
        tickvals=ticks,
        ticktext=[f"0x{tick:08x}" for tick in ticks],
        showgrid=False,
    )
    order = ["after", "now", *(["topics"] if data.hashes else [])]
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=order)
    figure.update_layout(barmode="overlay", bargap=0.35)
    return figure


def _bar(figure: go.Figure, row: str, low: int, high: int, color: str, text: str) -> None:
    figure.add_trace(
        go.Bar(
            x=[high - low],
            base=[low],
            y=[row],
            orientation="h",
            marker={"color": color, "line": {"width": 1, "color": LINE}},
            text=[text],
            textposition="inside",
            insidetextfont={"color": INK},
            insidetextanchor="middle",
            hovertemplate=f"0x{low:08x}_0x{high:08x}<br>{text}<extra>{row}</extra>",
        )
    )


def _add_topics(figure: go.Figure, data: CutData) -> None:
    loads = np.nan_to_num(np.asarray(data.loads, np.float64))
    top = float(loads.max(initial=0.0)) or 1.0
    figure.add_trace(
        go.Scatter(
            x=list(data.hashes),
            y=["topics"] * len(data.hashes),
            mode="markers",
            marker={
                "size": (6 + 18 * np.sqrt(loads / top)).tolist(),
                "color": ACCENT,
                "opacity": 0.75,
                "line": {"width": 1, "color": LINE},
            },
            customdata=[
                [name, text_of(float(load), "bytes/s")]
                for name, load in zip(data.topics, loads.tolist(), strict=True)
            ],
            hovertemplate="%{customdata[0]}<br><b>%{customdata[1]}</b><extra>topic</extra>",
        )
    )
