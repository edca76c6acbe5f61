"""The tab *Long term* of the History page: one object over up to a year, compared with earlier."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import streamlit as st
from numpy.typing import NDArray

from core.history.queries.compared import SHIFT_DAYS, LoadComparison, Shift
from core.history.queries.load import LoadRequest, LoadSeries, subject_id
from core.history.queries.profile import Profile
from core.history.store.layout import DAY_MS
from core.history.store.reading import TimeRange
from core.history.tiers.model import CLUSTER_KIND
from core.history.tiers.registry import SYSTEM_TIERS
from core.snapshot.record import TAKEN_AT
from core.units import datetime_to_ms, format_deviation, ms_to_datetime, pluralize
from dashboard.app_pages.history.charts import weekly_profile
from dashboard.app_pages.history.growth import draw_growth
from dashboard.charts.lines import LineSeries, history_lines
from dashboard.components import choice, figures, long_term, time_range, words
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.load import format_load, label_of, measure_of
from dashboard.queries.history import compared_load, load_of, profile_of

if TYPE_CHECKING:
    from datetime import datetime

    from dashboard.queries.history import ClusterHistory

Floats = NDArray[np.float64]

_SHIFTS: Final[dict[str, Shift | None]] = {
    "no comparison": None,
    "a week before": "week",
    "28 days before": "month",
    "91 days before": "quarter",
}
_DAYS_WITH_HOURS: Final = 5
_DAYS_OF_ONE_YEAR: Final = 180
_CHART_PX: Final = 200


def draw_long_term(history: ClusterHistory, newest: datetime) -> None:
    """Draw the load of one object over months, the same time earlier, and its weekly profile.

    Args:
        history: Of the cluster.
        newest: Where the range ends.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        days = time_range.pick_long()
        kinds = [one.kind for one in SYSTEM_TIERS[history.system].everything]
        kind = choice.selected(
            "Object",
            [CLUSTER_KIND, *(one for one in kinds if one != CLUSTER_KIND)],
            key=long_term.OBJECT,
            format_func=str,
            width=150,
        )
        name = ""
        if kind != CLUSTER_KIND:
            text = st.text_input(
                "Name",
                key=long_term.SUBJECT,
                bind="query-params",
                placeholder=f"Name of a {kind}",
                width=340,
            )
            name = (text or "").strip()
        shift = _SHIFTS[
            choice.selected(
                "Compare with", list(_SHIFTS), key="compare", format_func=str, width=170
            )
        ]
    if kind != CLUSTER_KIND and not name:
        st.caption(f"Enter the name of a {kind}.")
        return
    request = LoadRequest(
        cluster=history.cluster,
        kind=kind,
        subject=subject_id(history.store, history.cluster, kind, name),
        span=TimeRange(datetime_to_ms(newest - timedelta(days=days)) + 1, datetime_to_ms(newest)),
    )
    compared = None if shift is None else compared_load((history, request, shift))
    found = load_of((history, request)) if compared is None else compared.now
    if not found.rows.num_rows:
        st.caption(words.plain(f"{name}: no load in this range, or no such {kind}."))
        return
    st.caption(words.plain(_recorded(found)))
    if compared is not None:
        _draw_changes(compared)
    _draw_lines(found, compared)
    _draw_profile(history, request)
    if kind == CLUSTER_KIND:
        draw_growth(history, newest, days)


def _draw_changes(compared: LoadComparison) -> None:
    days, unit = SHIFT_DAYS[compared.shift], compared.now.source[:-1]
    figures.key_figures(
        [
            KeyFigure(
                label=f"{label_of(one.measure)[0].upper()}{label_of(one.measure)[1:]}",
                value=format_deviation(one.change_ratio),
                note=f"{format_load(one.measure, one.now)}, before "
                f"{format_load(one.measure, one.before)}",
                status="unknown" if one.change_ratio is None else "",
                help=f"Mean of the {compared.compared:,} of "
                f"{pluralize(compared.periods, unit)} recorded now and {days} days before.",
            )
            for one in compared.changes
        ],
        key="long_term",
    )


def _recorded(found: LoadSeries) -> str:
    """Return ``Recorded: 26 hours · 1 point per hour``, and what is not rolled up."""
    unit = found.source[:-1]
    parts = [
        f"Recorded: {pluralize(found.rows.num_rows, unit)}",
        f"1 point per {unit}",
        *([f"not rolled up: {found.from_finer:,}"] if found.from_finer else []),
        *([f"hours omitted: {found.hours_not_rolled_up:,}"] if found.hours_not_rolled_up else []),
    ]
    return " · ".join(parts)


def _date_format(span_ms: int) -> str:
    """Return the format of a time axis; dates are always shown."""
    days = span_ms / DAY_MS
    if days <= _DAYS_WITH_HOURS:
        return "%d %b %H:%M"
    return "%d %b" if days <= _DAYS_OF_ONE_YEAR else "%d %b %Y"


def _draw_lines(found: LoadSeries, compared: LoadComparison | None) -> None:
    away = 0 if compared is None else SHIFT_DAYS[compared.shift] * DAY_MS
    for one in (one for one in found.measures if one.is_binned):
        at, mean = _on_grid(found, one.name)
        _, top = _on_grid(found, f"{one.name}_max")
        lines = [LineSeries("mean", mean), LineSeries("max", top)]
        if compared is not None and compared.before is not None:
            earlier_at, earlier = _on_grid(compared.before, one.name)
            values = dict(zip((earlier_at + away).tolist(), earlier.tolist(), strict=True))
            same = np.array([values.get(moment, np.nan) for moment in at.tolist()])
            lines.append(LineSeries(f"{SHIFT_DAYS[compared.shift]} days before", same))
        if not any(np.isfinite(line.values).any() for line in lines):
            continue
        label = label_of(one.name)
        words.section(f"{label[0].upper()}{label[1:]}")
        chart = history_lines(
            [ms_to_datetime(moment) for moment in at.tolist()],
            lines,
            measure_of(one.name).unit,
            height=_CHART_PX,
        )
        chart.update_xaxes(tickformat=_date_format(int(at[-1] - at[0])))
        figures.chart(
            chart,
            key=f"long_term_{one.name}",
            alt=f"{label} of {found.request.kind} {found.request.subject} over time, "
            f"mean and maximum of each {found.source[:-1]}",
        )


def _on_grid(series: LoadSeries, column: str) -> tuple[NDArray[np.int64], Floats]:
    """Return every period from the first to the last, and NaN where one has no record."""
    at = np.asarray(series.rows[TAKEN_AT].to_numpy(), np.int64)
    grid = np.arange(at[0], at[-1] + 1, series.step_ms)
    values = np.full(grid.size, np.nan)
    held = series.rows[column].cast(pa.float64()).to_numpy(zero_copy_only=False)
    values[(at - at[0]) // series.step_ms] = held
    return grid, values


def _draw_profile(history: ClusterHistory, request: LoadRequest) -> None:
    profile = profile_of((history, request))
    if profile is None:
        return
    flow = SYSTEM_TIERS[history.system].flow
    weeks = int(profile.weeks.max(initial=0))
    words.section(
        "Weekly profile",
        f"{label_of(flow).capitalize()} by hour (UTC): median of up to {pluralize(weeks, 'week')}.",
    )
    figures.chart(
        weekly_profile(profile, measure_of(flow).unit),
        key="long_term_profile",
        alt=_describe(profile, flow),
    )


def _describe(profile: Profile, measure: str) -> str:
    """Return the busiest hour of the week, as text."""
    if not np.isfinite(profile.level).any():
        return "No hour of the week was recorded"
    place = int(np.nanargmax(profile.level))
    day = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[
        place // 24
    ]
    return (
        f"Busiest hour of the week: {day} {place % 24:02}:00 UTC, "
        f"{format_load(measure, float(np.nanmax(profile.level)))}"
    )
