"""The tab *By day* of the fleet overview: a heatmap of clusters and days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import streamlit as st
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.history.store.layout import DAY_MS
from core.units import ms_to_datetime
from dashboard.charts.scale import Unit, scale_of
from dashboard.charts.template import styled
from dashboard.components import choice, figures, time_range, words
from dashboard.queries.cache import cached
from dashboard.services.fleet_days import MEASURES as DEVIATION_OF
from dashboard.services.fleet_days import facts_of, targets_of
from dashboard.services.history import history

if TYPE_CHECKING:
    from dashboard.services import Config

_REFRESH_S: Final = 300
_ROW_PX: Final = 26
_MOST_TICKS: Final = 14


class SheetMeasure(NamedTuple):
    """What the cells show.

    Attributes:
        label: For people.
        unit: Of the values.
    """

    label: str
    unit: Unit


MEASURES: Final[dict[str, SheetMeasure]] = {
    "deviation_max": SheetMeasure("Max deviation", "ratio"),
    "outside_minutes": SheetMeasure("Minutes outside target", "count"),
    "moves": SheetMeasure("Moves", "count"),
    "unhealthy_minutes": SheetMeasure("Minutes with critical alerts", "count"),
    "minutes_missing": SheetMeasure("Minutes not recorded", "count"),
}


@dataclass(frozen=True)
class _Question:
    """What the sheet shows; the same for some minutes."""

    config: Config = field(compare=False, repr=False)
    targets: tuple[tuple[str, float], ...]
    start: datetime
    end: datetime


def _facts(question: _Question) -> pa.Table:
    config = question.config
    return facts_of(config, history(config), dict(question.targets), question.start, question.end)


_known_facts = cached(_facts, max_entries=8)


def draw(config: Config, names: Sequence[str], now: datetime) -> None:
    """Draw the clusters by day.

    Args:
        config: The configuration.
        names: The clusters, in order.
        now: The present moment.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        days = time_range.pick_long()
        measure = choice.selected(
            "Measure",
            list(MEASURES),
            key="sheet",
            format_func=lambda one: MEASURES[one].label,
            width=260,
            has_label=False,
        )
    end_s = now.timestamp() // _REFRESH_S * _REFRESH_S
    end = datetime.fromtimestamp(end_s, UTC)
    question = _Question(
        config,
        tuple(targets_of(config, names).items()),
        (end - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0),
        end,
    )
    try:
        rows = _known_facts(question)
    except SnapshotError as error:
        words.failed(error, what="Could not read the days")
        return
    if not rows.num_rows:
        st.caption(
            "No days are recorded yet. Collectors roll up each hour five minutes after its end."
        )
        return
    figures.chart(
        sheet(rows, names, measure),
        key="fleet_days",
        alt=f"{MEASURES[measure].label} of {len(names)} clusters by day",
    )
    st.caption(
        f"Deviation: {DEVIATION_OF}. Days in UTC; today up to the last full hour. Blank: unknown."
    )


def grid_of(
    rows: pa.Table, names: Sequence[str], measure: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the days from the first to the last, ms, and the values by cluster and day.

    Args:
        rows: Facts by day.
        names: The clusters, in order.
        measure: Column of the facts.
    Returns:
        Shapes ``(m,)`` and ``(n, m)``; NaN where a day was not recorded or the value is unknown.
    """
    at = np.asarray(rows["day"].to_numpy(), np.int64)
    days = np.arange(at.min(), at.max() + 1, DAY_MS)
    place = {name: row for row, name in enumerate(names)}
    values = np.full((len(names), days.size), np.nan)
    column = rows[measure].cast(pa.float64()).to_numpy(zero_copy_only=False)
    for name, day, value in zip(rows["cluster"].to_pylist(), at.tolist(), column, strict=True):
        values[place[name], (day - days[0]) // DAY_MS] = value
    return days, values


def sheet(rows: pa.Table, names: Sequence[str], measure: str) -> go.Figure:
    """Return the heatmap."""
    days, values = grid_of(rows, names, measure)
    scale = scale_of(MEASURES[measure].unit)
    figure = go.Figure(
        go.Heatmap(
            x=[f"{ms_to_datetime(day):%Y-%m-%d}" for day in days.tolist()],
            y=list(names),
            z=(values * scale.factor).astype(np.float32),
            hovertemplate="%{y}<br>%{x}<br><b>" + scale.hover("z") + "</b><extra></extra>",
            coloraxis="coloraxis",
            hoverongaps=False,
            xgap=1,
            ygap=1,
        )
    )
    styled(figure, height=90 + _ROW_PX * max(len(names), 3))
    figure.update_layout(
        coloraxis={
            "colorbar": {"thickness": 8, "outlinewidth": 0, "ticksuffix": scale.suffix},
            "cmin": 0,
            "cmax": scale.end_of(values),
        },
        margin={"r": 4},
    )
    figure.update_yaxes(autorange="reversed", type="category")
    ticks = days[:: -(-days.size // _MOST_TICKS)]
    figure.update_xaxes(
        type="date",
        tickvals=[f"{ms_to_datetime(day):%Y-%m-%d}" for day in ticks.tolist()],
        tickformat="%d %b",
    )
    return figure
