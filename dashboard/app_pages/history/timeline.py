"""The upper part of the History page: the range, the timeline, and the minute marked in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

from core.errors import InputError
from core.history.queries.query import MinuteRange
from core.history.queries.sql import Period
from core.units import ms_to_datetime
from dashboard import state
from dashboard.app_pages.history import model
from dashboard.app_pages.history.charts import history_timeline
from dashboard.app_pages.history.events import LANES, lane_of, lanes
from dashboard.app_pages.history.model import FREE, period_of
from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem
from dashboard.components import choice, figures, time_range, unknown_params
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.queries.history import HistoryQuery, PeriodLoad

# -- range and measure -----------------------------------------------------------------------------


def pick_range(
    span: tuple[datetime, datetime], newest: datetime, system: HistorySystem
) -> tuple[Period, HistoryMeasure]:
    """Draw the pickers; return the period and the measure.

    Args:
        span: First and last recorded minute.
        newest: Where presets end.
        system: Of the cluster.
    """
    unknown_params.check_times(state.START)
    unknown_params.check_times(state.END, may_be_ahead=True)
    preset = time_range.pick(
        newest - span[0], more=[FREE], help_text="Ranges end at the time selected in the header."
    )
    free = _dates(span) if preset == FREE else (None, None)
    key = choice.selected(
        "Measure",
        [measure.key for measure in system.measures],
        key=state.MEASURE,
        format_func=lambda key: system.measure(key).label,
        width=190,
        has_label=False,
    )
    for name, end in ((state.START, free[0]), (state.END, free[1])):
        unknown_params.draw(name, (preset, end))
    return (
        period_of(preset, span[0], newest, free),
        system.measure(key),
    )


def _dates(span: tuple[datetime, datetime]) -> tuple[datetime | None, datetime | None]:
    first, last = (one.replace(tzinfo=None, second=0, microsecond=0) for one in span)
    last += timedelta(minutes=1)
    picked = [
        st.datetime_input(
            label,
            value,
            step=60,
            key=key,
            bind="query-params",
            width=210,
        )
        for label, value, key in (
            ("From (UTC)", first, state.START),
            ("To (UTC)", last, state.END),
        )
    ]
    start, end = (None if one is None else one.replace(tzinfo=UTC) for one in picked)
    return start, end


# -- the timeline ----------------------------------------------------------------------------------

_KEY: Final = "history_picture"


def pick_lanes(period_load: PeriodLoad) -> list[str]:
    """Draw the filter of events; return the chosen lanes, empty: all."""
    found = {
        lane.key: lane.name
        for kind, by in zip(
            period_load.counts["kind"].to_pylist(),
            period_load.counts["by"].to_pylist(),
            strict=True,
        )
        if (lane := lane_of(kind, by)) is not None
    }
    if not found:
        return []
    chosen = st.multiselect(
        "Events",
        [lane.key for lane in LANES if lane.key in found],
        format_func=found.__getitem__,
        key=state.LANE,
        bind="query-params",
        placeholder="All events",
        select_all=False,
        label_visibility="collapsed",
        width=260,
    )
    return [str(one) for one in chosen]


def draw_timeline(
    query: HistoryQuery,
    period_load: PeriodLoad,
    system: HistorySystem,
    measure: HistoryMeasure,
    looked: SelectedMinute,
    wanted: list[str],
    target_ratio: float,
) -> None:
    """Draw the timeline, the minute that is looked at marked."""
    data = model.timeline(
        period_load.grid,
        period_load.evenness,
        measure,
        system,
        lanes=lanes(period_load.counts, wanted),
        period=query.period,
        target_ratio=target_ratio,
    )
    figure = history_timeline(replace(data, marked=looked.moment))
    figures.plot(
        figure,
        key=_KEY,
        on_select=_clicked,
        selection_mode="points",
        alt=f"{measure.label} of each {system.server} over time, with events; highest average: "
        f"{data.rows[0] if data.rows else 'unknown'}.",
    )


def _clicked() -> None:
    """Look at the minute of the event that was clicked."""
    selection = st.session_state.get(_KEY, {}).get("selection", {})
    for point in selection.get("points", []):
        held = point.get("customdata")
        if isinstance(held, (list, tuple)) and len(held) == 3:
            look_at(datetime.fromisoformat(str(held[1])))
            return


# -- the minute that is shown ----------------------------------------------------------------------

_SLIDER: Final = "_scrub"
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class SelectedMinute:
    """The minute that is looked at.

    Attributes:
        at_ms: When it was recorded.
        newest_ms: The newest recorded minute.
    """

    at_ms: int
    newest_ms: int

    @property
    def moment(self) -> datetime:
        """The time of the recording."""
        return ms_to_datetime(self.at_ms)


def look_at(moment: datetime) -> None:
    """Look at another minute, in its tab; from a callback."""
    st.session_state[state.MINUTE] = stamp(moment)
    st.session_state[state.VIEW] = model.MINUTE


def looked_at(minutes: MinuteRange, newest_ms: int, default: datetime) -> SelectedMinute:
    """Return the minute that the address names, or the default; within the recorded ones.

    Args:
        minutes: Of the period; one at least.
        newest_ms: The newest of all.
        default: What is looked at when the address names nothing in the period.
    """
    is_new = state.is_new_in_address(state.MINUTE)
    text = state.from_address(state.MINUTE)
    moment = parse_stamp(text)
    row = None
    if moment is not None and moment + _SECOND > minutes.moment(0):
        row = minutes.row_at(moment + _SECOND - timedelta(milliseconds=1))
    if row is None or (moment is not None and moment > minutes.moment(len(minutes) - 1) + _SECOND):
        row = minutes.row_at(default)
        if is_new:
            unknown_params.report(state.MINUTE, _not_there(text))
    at_ms = int(minutes.at_ms[row if row is not None else len(minutes) - 1])
    shown = stamp(ms_to_datetime(at_ms))
    is_default = shown == stamp(default)
    saved = "" if is_default else shown  # what was not chosen goes on with time
    st.session_state[state.MINUTE] = saved
    state.keep_in_address(state.MINUTE, saved, default="")
    unknown_params.draw(state.MINUTE, saved)
    return SelectedMinute(at_ms, newest_ms)


def _not_there(text: str) -> InputError:
    """Return the error for a minute of the address that was not recorded."""
    return unknown_params.time_error(state.MINUTE, text) or InputError(
        f"minute={text} is outside this range.", hint="Choose another range or minute."
    )


def draw_scrubber(query: HistoryQuery, period_load: PeriodLoad, looked: SelectedMinute) -> None:
    """Draw slider and buttons that lead from minute to minute and from event to event."""
    minutes = period_load.minutes
    row = minutes.row_at(looked.moment) or 0
    before, after = query.history.events().neighbours(looked.at_ms, query.period)
    steps = (
        ("event before", ":material/skip_previous:", before),
        ("minute before", ":material/chevron_left:", _at(minutes, row - 1)),
    )
    further = (
        ("next minute", ":material/chevron_right:", _at(minutes, row + 1)),
        ("next event", ":material/skip_next:", after),
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _steps(steps)
        if len(minutes) > 1:
            first, last = _plain(minutes.moment(0)), _plain(minutes.moment(len(minutes) - 1))
            st.session_state[_SLIDER] = _plain(looked.moment)
            st.slider(
                "Minute (UTC)",
                first,
                last,
                step=max(timedelta(milliseconds=minutes.every_ms), (last - first) / 1_000),
                format="D MMM, HH:mm:ss",
                key=_SLIDER,
                on_change=_slid,
                label_visibility="collapsed",
            )
        _steps(further)


def _at(minutes: MinuteRange, row: int) -> int | None:
    return int(minutes.at_ms[row]) if 0 <= row < len(minutes) else None


def _plain(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def _slid() -> None:
    picked = st.session_state.get(_SLIDER)
    if isinstance(picked, datetime):
        look_at(picked.replace(tzinfo=UTC))


def _steps(steps: Sequence[tuple[str, str, int | None]]) -> None:
    for name, icon, at_ms in steps:
        st.button(
            "",
            icon=icon,
            key=f"_to_{name.replace(' ', '_')}",
            help=name.capitalize(),
            disabled=at_ms is None,
            on_click=look_at,
            args=(ms_to_datetime(at_ms or 0),),
            type="tertiary",
        )


def period_words(period: Period) -> str:
    """Return the ends of a period for people."""
    return f"{stamp(period.start)} to {stamp(period.end)} UTC"
