"""One past minute on the History page: found by slider, buttons or a click, shown beside now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import streamlit as st

from core.errors import InputError
from core.history.asking import Period
from core.history.query import Recorded
from core.units import ms_to_datetime
from dashboard import state
from dashboard.charts.scale import scale_of
from dashboard.components import misnamed, tables, words
from dashboard.presenters import history as presenter
from dashboard.presenters.history_measures import HistoryMeasure, measures_of
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.reading_history import Asked, Picture

_SLIDER: Final = "_scrub"
_SECOND: Final = timedelta(seconds=1)
_OPEN: Final = {
    "pulsar": (
        ("fleet", "Fleet"),
        ("brokers", "Brokers"),
        ("bundles", "Bundles"),
        ("rebalance", "Rebalance"),
        ("splits", "Splits"),
        ("lookup", "Placement & lookup"),
        ("settings", "Settings"),
    ),
    "pegasus": (
        ("fleet", "Fleet"),
        ("pegasus", "Cluster"),
        ("pegasus_tables", "Tables & partitions"),
        ("pegasus_balance", "Balance"),
    ),
}


@dataclass(frozen=True)
class Looked:
    """The minute that is looked at.

    Attributes:
        at_ms: When it was recorded.
        newest_ms: The newest recorded minute.
    """

    at_ms: int
    newest_ms: int

    @property
    def moment(self) -> datetime:
        """When it was recorded."""
        return ms_to_datetime(self.at_ms)


def look_at(moment: datetime) -> None:
    """Look at another minute; from a callback."""
    st.session_state[state.MINUTE] = stamp(moment)


def looked_at(minutes: Recorded, newest_ms: int, default: datetime) -> Looked:
    """Return the minute that the address names, or the default; within the recorded ones.

    Args:
        minutes: Of the period; one at least.
        newest_ms: The newest of all.
        default: What is looked at when the address names nothing in the period.
    """
    is_new = state.is_new_in_address(state.MINUTE)
    text = state.from_address(state.MINUTE)
    asked = parse_stamp(text)
    row = None
    if asked is not None and asked + _SECOND > minutes.moment(0):
        row = minutes.row_at(asked + _SECOND - timedelta(milliseconds=1))
    if row is None or (asked is not None and asked > minutes.moment(len(minutes) - 1) + _SECOND):
        row = minutes.row_at(default)
        if is_new:
            misnamed.tell(state.MINUTE, _not_there(text))
    at_ms = int(minutes.at_ms[row if row is not None else len(minutes) - 1])
    shown = stamp(ms_to_datetime(at_ms))
    is_default = shown == stamp(default)
    kept = "" if is_default else shown  # what nobody chose goes on with time
    st.session_state[state.MINUTE] = kept
    state.keep_in_address(state.MINUTE, kept, default="")
    misnamed.draw(state.MINUTE, kept)
    return Looked(at_ms, newest_ms)


def _not_there(text: str) -> InputError:
    """Return what is wrong with a minute of the address that is not among the recorded ones."""
    return misnamed.time_error(state.MINUTE, text) or InputError(
        f"minute={text} does not lie in this range.", hint="Choose another range, or minute."
    )


def draw_scrubber(asked: Asked, picture: Picture, looked: Looked) -> None:
    """Draw slider and buttons that lead from minute to minute and from event to event."""
    minutes = picture.minutes
    row = minutes.row_at(looked.moment) or 0
    before, after = asked.history.events().neighbours(looked.at_ms, asked.period)
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


def _at(minutes: Recorded, row: int) -> int | None:
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


def draw_minute(asked: Asked, measure: HistoryMeasure, looked: Looked) -> None:
    """Draw the servers of the minute beside now, and the links to the pages at that minute."""
    system = asked.history.system
    queries = asked.history.queries()
    then = queries.servers_at(looked.at_ms, weights=asked.weighed)
    now = queries.servers_at(looked.newest_ms, weights=asked.weighed)
    is_now = looked.at_ms == looked.newest_ms
    words.section(
        f"{stamp(looked.moment)} UTC",
        "the newest recorded minute" if is_now else "beside the newest recorded minute",
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.caption("Open at this minute:", width="content")
        for page, name in _OPEN[system]:
            st.button(
                name,
                key=f"_open_{page}",
                type="tertiary",
                icon=":material/open_in_new:",
                on_click=state.go,
                args=(page,),
                kwargs={"at": "now" if is_now else stamp(looked.moment)},
            )
    rows = presenter.then_and_now(then, now, system, measure)
    tables.table(
        rows,
        _columns(system, measure, is_now=is_now),
        key="history_minute",
        alt=f"{measure.label} of every server at {stamp(looked.moment)} and now",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=asked.history.cluster, what="history-minute", moment=looked.moment
    )


def _columns(system: str, measure: HistoryMeasure, *, is_now: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "subject": tables.words("Node" if system == "pegasus" else "Broker", pinned=True)
    }
    if not is_now:
        columns["then"] = _number(f"{measure.label} then", measure)
        columns["now"] = _number("Now", measure)
        columns["difference"] = _number("Now minus then", measure, sign="+")
    for one in measures_of(system):
        if is_now or one.key != measure.key:
            columns[one.key] = _number(one.label if is_now else f"{one.label} then", one)
    return columns


def _number(label: str, measure: HistoryMeasure, sign: str = "") -> Any:
    scale = scale_of(measure.unit)
    digits = {"ratio": 1, "bytes/s": 2}.get(measure.unit, 0)
    suffix = " %%" if measure.unit == "ratio" else ""
    head = f"{label} {scale.title}" if measure.unit in ("bytes/s", "msgs/s", "MB") else label
    grouped = "" if sign or digits else ","
    return st.column_config.NumberColumn(head, format=f"%{sign}{grouped}.{digits}f{suffix}")


def period_words(period: Period) -> str:
    """Return the ends of a period for people."""
    return f"{stamp(period.start)} to {stamp(period.end)} UTC"
