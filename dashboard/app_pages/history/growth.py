"""Growth in the tab *Long term*: what grows, and when the cluster is full."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pandas as pd
import streamlit as st

from core.history.queries.growth import MIN_RATIO, Growth
from core.history.store.layout import HistoryError
from core.history.store.reading import TimeRange
from core.units import datetime_to_ms, format_deviation, format_ratio, pluralize
from dashboard.components import figures, long_term, tables, words
from dashboard.presenters.figures import KeyFigure, Status
from dashboard.presenters.growth import (
    describe_forecast,
    describe_limit,
    format_forecast,
    format_interval,
    format_slope,
)
from dashboard.presenters.load import format_load
from dashboard.queries.history import growth_since

if TYPE_CHECKING:
    from datetime import datetime

    from core.history.queries.growth import Forecast
    from dashboard.queries.history import ClusterHistory

MIN_SHOWN_DAYS: Final = 182
_MOST_ROWS: Final = 50
_TABLE_PX: Final = 320
_STATUS: Final[dict[str, Status]] = {"reached": "bad", "date": "warning", "unknown": "unknown"}


def draw_growth(history: ClusterHistory, newest: datetime, days: int) -> None:
    """Draw what grows in a cluster, and when it is full.

    Args:
        history: Of the cluster.
        newest: Where the range ends.
        days: Length of the range; at least 26 weeks are taken.
    """
    days = max(days, MIN_SHOWN_DAYS)
    span = TimeRange(datetime_to_ms(newest - timedelta(days=days)), datetime_to_ms(newest))
    words.section(
        "Growth",
        f"Trend of weekly means over up to {days // 7} weeks. Growing: by "
        f"{format_ratio(MIN_RATIO)} a month or more.",
    )
    try:
        found = growth_since(history, span)
    except HistoryError as error:
        st.caption(words.plain(error.message))
        return
    figures.key_figures(
        [
            _forecast("Usage limit", found.full, "Date at which the mean usage reaches the limit."),
            _forecast(
                "First outside target",
                found.outside,
                "Date at which the first server is outside the target, if nothing moves.",
            ),
            *(
                KeyFigure(
                    label=f"Growing {one.kind}s",
                    value=f"{one.growing:,}",
                    note=f"{one.shrinking:,} shrinking, {one.steady:,} steady",
                    help=f"{one.too_short:,} with too few weeks.",
                )
                for one in found.counts
            ),
        ],
        key="growth",
    )
    if found.weeks_missing:
        missing = pluralize(found.weeks_missing, "more week")
        st.caption(f"{pluralize(found.weeks, 'week')} recorded; trends need {missing}.")
        return
    _draw_rows(found)


def _forecast(label: str, one: Forecast, text: str) -> KeyFigure:
    return KeyFigure(
        label=label,
        value=format_forecast(one),
        note=describe_forecast(one),
        status=_STATUS.get(one.state, "ok"),
        help=f"{text} Limit: {describe_limit(one)}.",
    )


def _draw_rows(found: Growth) -> None:
    """Draw the objects that grow, the largest slopes of each kind first."""
    rows = [row for one in found.counts for row in found.growing(one.kind, _MOST_ROWS).to_pylist()]
    if not rows:
        return
    measure = found.measure
    kinds = {row["subject"]: row["kind"] for row in rows}
    tables.table(
        pd.DataFrame(
            {
                "subject": [row["subject"] for row in rows],
                "kind": [row["kind"] for row in rows],
                "now": [format_load(measure, row["now"]) for row in rows],
                "month": [format_slope(measure, row["per_month"]) for row in rows],
                "interval": [
                    format_interval(measure, row["per_month_low"], row["per_month_high"])
                    for row in rows
                ],
                "share": [format_deviation(row["ratio_per_month"]) for row in rows],
            }
        ),
        {
            "subject": tables.opener(
                "Object",
                "_growth_object",
                lambda name: long_term.open_long_term(kinds[name], name),
                width_px=300,
            ),
            "kind": tables.words("Kind", width_px=84),
            "now": tables.words("Now", width_px=84),
            "month": tables.words("A month", width_px=92),
            "interval": tables.words("Interval (95%)", width_px=176),
            "share": tables.words("Share a month", width_px=100),
        },
        key="growth_rows",
        alt="Objects that grow, the largest slopes of each kind first",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
    )
