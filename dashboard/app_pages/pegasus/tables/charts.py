"""Heatmaps of a Pegasus cluster: a measure by table and node, and the members of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.units import pluralize
from dashboard.charts.nodes import text_with_unit
from dashboard.charts.template import ACCENT, FAINT, FAR, styled

Floats = NDArray[np.float64]
MAX_TEXT_COLUMNS: Final = 26
MAX_MATRIX_TEXT: Final = 64
_MOST_ROW_PX = 26
_LEAST_ROW_PX = 10
_HEIGHT_PX = 620


@dataclass(frozen=True, eq=False)
class GridData:
    """A measure by table and node.

    Attributes:
        rows: Names of tables, length ``n``.
        columns: Names of nodes, length ``m``.
        values: Shape ``(n, m)``; NaN: unknown.
        label: Name of the measure.
        unit: What follows a number.
        total_rows: Tables in all.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Floats
    label: str
    unit: str
    total_rows: int


def table_grid(data: GridData) -> go.Figure:
    """Return a heatmap, a row a table; numbers are written into cells where they fit."""
    texts = _texts(data.values, data.unit)
    has_text = len(data.columns) <= MAX_TEXT_COLUMNS
    figure = go.Figure(
        go.Heatmap(
            x=list(data.columns),
            y=list(data.rows),
            z=data.values,
            text=texts,
            texttemplate="%{text}" if has_text else None,
            textfont={"size": 11},
            hovertemplate="%{y}<br>%{x}<br><b>%{text}</b><extra></extra>",
            hoverongaps=True,
            coloraxis="coloraxis",
            xgap=1,
            ygap=1,
        )
    )
    known = data.values[np.isfinite(data.values)]
    _dress(figure, len(data.rows))
    figure.update_layout(
        coloraxis={
            "cmin": 0,
            "cmax": max(float(known.max()) if known.size else 1.0, 1.0),
            "colorbar": _bar(data.unit),
        }
    )
    return figure


@dataclass(frozen=True, eq=False)
class MatrixData:
    """Members of one table's partitions, one by one or in groups.

    Attributes:
        nodes: Names, length ``n``.
        columns: Partitions, or groups of them: ``0``, or ``0-15``; length ``m``.
        primaries: Shape ``(n, m)``: primaries of the node in the column.
        secondaries: Shape ``(n, m)``.
        missing: Shape ``(m,)``: replicas that are wanted and not there; negative: too many.
        group: Partitions of a column.
    """

    nodes: Sequence[str]
    columns: Sequence[str]
    primaries: NDArray[np.int64]
    secondaries: NDArray[np.int64]
    missing: NDArray[np.int64]
    group: int


_SLATE: Final = "#7a8690"
_STEPS: Final[list[tuple[float, str]]] = [
    (0.0, FAINT),
    (0.25, FAINT),
    (0.25, _SLATE),
    (0.5, _SLATE),
    (0.5, ACCENT),
    (0.75, ACCENT),
    (0.75, FAR),
    (1.0, FAR),
]
_ABSENT, _SECONDARY, _PRIMARY, _MISSING = range(4)
MISSING_ROW: Final = "missing"


def partition_matrix(data: MatrixData) -> go.Figure:
    """Return the partitions by node: P primary, s secondary; last row: missing replicas."""
    return _single(data) if data.group == 1 else _grouped(data)


def _single(data: MatrixData) -> go.Figure:
    codes = np.where(data.primaries > 0, _PRIMARY, np.where(data.secondaries > 0, _SECONDARY, 0))
    texts = np.where(codes == _PRIMARY, "P", np.where(codes == _SECONDARY, "s", ""))
    words = np.where(
        codes == _PRIMARY, "primary", np.where(codes == _SECONDARY, "secondary", "not a member")
    )
    names = list(data.nodes)
    if data.missing.any():
        names.append(MISSING_ROW)
        lacking = np.where(data.missing != 0, _MISSING, _ABSENT)
        codes = np.vstack((codes, lacking))
        texts = np.vstack((texts, _missing_texts(data.missing)))
        words = np.vstack((words, [_missing_words(int(one)) for one in data.missing]))
    figure = go.Figure(
        go.Heatmap(
            x=list(data.columns),
            y=names,
            z=codes,
            zmin=-0.5,
            zmax=3.5,
            colorscale=_STEPS,
            showscale=False,
            text=texts,
            customdata=words,
            texttemplate="%{text}" if len(data.columns) <= MAX_MATRIX_TEXT else None,
            textfont={"size": 11},
            hovertemplate="partition %{x}<br>%{y}<br><b>%{customdata}</b><extra></extra>",
            xgap=1,
            ygap=1,
        )
    )
    _dress(figure, len(names), title="partition")
    return figure


def _grouped(data: MatrixData) -> go.Figure:
    held = data.primaries + data.secondaries
    texts = np.array(
        [
            [f"{led}P {rest}s" if led + rest else "" for led, rest in zip(*pair, strict=True)]
            for pair in zip(data.primaries.tolist(), data.secondaries.tolist(), strict=True)
        ],
        dtype=object,
    ).reshape(held.shape)
    names, values = list(data.nodes), held.astype(np.float64)
    if data.missing.any():
        names.append(MISSING_ROW)
        texts = np.vstack((texts, _missing_texts(data.missing)))
        values = np.vstack((values, data.missing.astype(np.float64)))
    figure = go.Figure(
        go.Heatmap(
            x=list(data.columns),
            y=names,
            z=values,
            text=texts,
            texttemplate="%{text}" if len(data.columns) <= MAX_TEXT_COLUMNS else None,
            textfont={"size": 10},
            hovertemplate="partitions %{x}<br>%{y}<br><b>%{text}</b><extra></extra>",
            coloraxis="coloraxis",
            xgap=1,
            ygap=1,
        )
    )
    _dress(figure, len(names), title=f"partitions, {data.group} per column")
    figure.update_layout(coloraxis={"cmin": 0, "colorbar": _bar("replicas")})
    return figure


def _missing_texts(missing: NDArray[np.int64]) -> list[str]:
    return [f"−{one}" if one > 0 else f"+{-one}" if one < 0 else "" for one in missing.tolist()]  # noqa: RUF001  # a minus sign


def _missing_words(missing: int) -> str:
    if missing > 0:
        return f"{pluralize(missing, 'replica')} missing"
    return f"{pluralize(-missing, 'replica')} too many" if missing else "no missing replicas"


def _texts(values: Floats, unit: str) -> NDArray[np.object_]:
    texts = np.empty(values.shape, dtype=object)
    texts.ravel()[:] = [text_with_unit(float(value), unit) for value in values.ravel()]
    return texts


def _bar(title: str) -> dict[str, Any]:
    return {
        "thickness": 8,
        "len": 0.8,
        "outlinewidth": 0,
        "tickfont": {"size": 10},
        "title": {"text": title, "font": {"size": 10}},
    }


def _dress(figure: go.Figure, rows: int, *, title: str | None = None) -> None:
    row_px = max(_LEAST_ROW_PX, min(_MOST_ROW_PX, _HEIGHT_PX // max(1, rows)))
    styled(figure, height=84 + row_px * rows)
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    figure.update_xaxes(type="category", title_text=title, showgrid=False)
