"""A namespace's hash ring: every bundle an arc from its lower to its upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.ids import FULL_UPPER, range_text
from dashboard.charts.once import drawn_once
from dashboard.charts.scale import Unit, texts_of
from dashboard.charts.template import FAR, LINE, NEUTRAL, SERIES, UNKNOWN, styled

NOT_OWNED = "unassigned"
OWNER_UNKNOWN = "owner unknown"
LESS_BUSY = "other bundles (mean)"
_OTHERS: dict[str, dict[str, Any]] = {
    NOT_OWNED: {"color": UNKNOWN},
    OWNER_UNKNOWN: {"color": UNKNOWN},
    LESS_BUSY: {"color": NEUTRAL, "pattern": {"shape": ".", "size": 5, "solidity": 0.4}},
}
"""Looks of arcs that are of no one broker: what has several owners is dotted, on either ground."""
_HUB = 0.4


@dataclass(frozen=True, eq=False)
class RingData:
    """The bundles of one namespace in ring order.

    Attributes:
        lower: Shape ``(n,)``.
        upper: Shape ``(n,)``.
        owners: Broker of each, :data:`NOT_OWNED`, :data:`OWNER_UNKNOWN`, or :data:`LESS_BUSY`
            for neighbours that are one arc.
        values: Load of each, shape ``(n,)``, NaN where unknown.
        unit: Unit of the values.
        marked: Row of the bundle to point out, or ``None``.
        topic_hash: Position of a topic on the ring, or ``None``.
        topic_hashes: Positions of further topics (drawn as ticks).
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    owners: Sequence[str]
    values: NDArray[np.float64]
    unit: Unit
    marked: int | None = None
    topic_hash: int | None = None
    topic_hashes: Sequence[int] = ()


@drawn_once
def namespace_ring(data: RingData, *, height: int = 400) -> go.Figure:
    """Return the ring: angle is the hash range, length the load, colour the owner."""
    span = 360.0 / (FULL_UPPER + 1.0)
    width = (data.upper - data.lower) * span
    middle = data.lower * span + width / 2
    values = np.nan_to_num(data.values)
    top = float(values.max(initial=0.0)) or 1.0
    length = 0.2 + 0.8 * np.sqrt(np.clip(values / top, 0, 1))
    figure = go.Figure()
    for owner, look, rows in _by_owner(data.owners, values):
        figure.add_trace(
            go.Barpolar(
                theta=middle[rows],
                width=width[rows],
                r=length[rows],
                base=_HUB,
                name=owner,
                marker={**look, "line": _lines(rows, data.marked)},
                customdata=[
                    [range_text(int(data.lower[row]), int(data.upper[row])), text]
                    for row, text in zip(rows, texts_of(data.values[rows], data.unit), strict=True)
                ],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra>" + owner + "</extra>",
            )
        )
    _add_topics(figure, data, span)
    styled(figure, height=height, legend=True)
    figure.update_layout(
        polar={
            "bgcolor": "rgba(0,0,0,0)",
            "radialaxis": {"visible": False, "range": [0, _HUB + 1.04]},
            "angularaxis": {
                "direction": "clockwise",
                "rotation": 90,
                "tickmode": "array",
                "tickvals": [0, 90, 180, 270],
                "ticktext": ["0x00000000", "0x40000000", "0x80000000", "0xc0000000"],
                "showgrid": False,
                "linecolor": LINE,
                "tickfont": {"size": 10},
            },
        },
        legend={"orientation": "h", "x": 0.5, "xanchor": "center", "y": -0.12, "yanchor": "top"},
        margin={"l": 64, "r": 64, "t": 30, "b": 8},
    )
    return figure


def _lines(rows: NDArray[np.int64], marked: int | None) -> dict[str, Any]:
    """Return the outlines; one for all where none is marked, which draws in half the time."""
    if marked is None or marked not in rows:
        return {"width": 0.6, "color": LINE}
    return {
        "width": [2.5 if row == marked else 0.6 for row in rows],
        "color": [FAR if row == marked else LINE for row in rows],
    }


def _by_owner(
    owners: Sequence[str], values: NDArray[np.float64]
) -> list[tuple[str, dict[str, Any], NDArray[np.int64]]]:
    """Owners with their look and rows: the seven with most load by name, the rest together."""
    names = np.array(owners, dtype=str)
    distinct, inverse = np.unique(names, return_inverse=True)
    load = np.bincount(inverse, weights=values, minlength=len(distinct))
    order = np.argsort(-load, kind="stable")
    named = [index for index in order.tolist() if distinct[index] not in _OTHERS]
    shown = named[: len(SERIES) - 1] if len(named) > len(SERIES) else named
    groups: list[tuple[str, dict[str, Any], NDArray[np.int64]]] = [
        (str(distinct[index]), {"color": SERIES[rank]}, np.flatnonzero(inverse == index))
        for rank, index in enumerate(shown)
    ]
    if rest := [index for index in named if index not in shown]:
        rows = np.flatnonzero(np.isin(inverse, rest))
        groups.append((f"{len(rest)} other brokers", {"color": SERIES[-1]}, rows))
    for other, look in _OTHERS.items():
        rows = np.flatnonzero(names == other)
        if rows.size:
            groups.append((other, look, rows))
    return groups


def _add_topics(figure: go.Figure, data: RingData, span: float) -> None:
    if data.topic_hashes:
        figure.add_trace(
            go.Scatterpolar(
                theta=[value * span for value in data.topic_hashes],
                r=[_HUB - 0.04] * len(data.topic_hashes),
                mode="markers",
                marker={"symbol": "line-ns-open", "size": 6, "color": LINE},
                name="topics",
                hoverinfo="skip",
            )
        )
    if data.topic_hash is not None:
        figure.add_trace(
            go.Scatterpolar(
                theta=[data.topic_hash * span] * 2,
                r=[0, _HUB + 1.1],
                mode="lines+markers",
                line={"color": FAR, "width": 2},
                marker={"size": [0, 9], "symbol": "triangle-down", "color": FAR},
                name="the topic",
                hovertemplate=f"hash 0x{data.topic_hash:08x}<extra>the topic</extra>",
            )
        )
