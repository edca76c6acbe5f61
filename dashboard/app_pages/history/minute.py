"""The tab Minute of the History page: one minute against another, by load or by what changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.history.queries.sql import Period
from core.units import datetime_to_ms, ms_to_datetime
from dashboard import state
from dashboard.app_pages.history import model
from dashboard.app_pages.history.timeline import draw_scrubber
from dashboard.charts.scale import scale_of
from dashboard.components import choice, tables, words
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.queries.history import stored_at

if TYPE_CHECKING:
    from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem
    from dashboard.app_pages.history.timeline import SelectedMinute
    from dashboard.components.header import Choice
    from dashboard.queries.history import HistoryQuery, PeriodLoad
    from dashboard.services import Config

_NEWEST: Final = "newest minute"
_FIRST: Final = "first minute of the range"
_LAST: Final = "last minute of the range"
_BEFORE: Final = "previous minute"
_OTHER: Final = "custom minute"
_MAX_ROWS: Final = 5_000
_TABLE_PX: Final = 420
_NEAR: Final = timedelta(minutes=30)
"""So far before a typed time a recorded minute is looked for."""


def draw_minute(
    config: Config,
    header: Choice,
    query: HistoryQuery,
    system: HistorySystem,
    measure: HistoryMeasure,
    period_load: PeriodLoad,
    looked: SelectedMinute,
) -> None:
    """Draw the minute that is looked at against another one.

    Args:
        config: The configuration.
        header: Cluster and snapshots of the header.
        query: Cluster and period.
        system: Of the cluster.
        measure: The one of the timeline.
    """
    draw_scrubber(query, period_load, looked)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        other = _pick(period_load, looked)
        shown = choice.segmented(
            "List",
            list(model.MINUTE_LISTS),
            key=state.QUANTITY,
            format_func=model.MINUTE_LISTS.__getitem__,
        )
        st.space("stretch")
        _links(system, looked)
    if other is None:
        st.caption("Enter the minute in the format 2026-11-21 14:05 (UTC).")
    elif shown == "changes":
        _draw_changes(config, header, system, looked, other)
    else:
        _draw_load(query, system, measure, looked, other)


def _pick(period_load: PeriodLoad, looked: SelectedMinute) -> datetime | None:
    """Draw the choice of the other minute; return it, ``None`` if none is entered."""
    is_newest = looked.at_ms == looked.newest_ms
    offered = [_FIRST, _BEFORE, _OTHER] if is_newest else [_NEWEST, _FIRST, _BEFORE, _LAST, _OTHER]
    label = f"{stamp(looked.moment)} UTC{' (newest)' if is_newest else ''}, compared with"
    chosen = choice.selected(
        label, offered, key=state.AGAINST, format_func=str.capitalize, width=300, has_label=True
    )
    text = (
        st.text_input(
            "Minute (UTC)",
            key=state.PICK,
            bind="query-params",
            placeholder="2026-11-21 14:05",
            width=190,
        )
        if chosen == _OTHER
        else ""
    )
    minutes = period_load.minutes
    row = minutes.row_at(looked.moment) or 0
    known = {
        _NEWEST: ms_to_datetime(looked.newest_ms),
        _FIRST: minutes.moment(0),
        _LAST: minutes.moment(len(minutes) - 1),
        _BEFORE: minutes.moment(max(0, row - 1)),
    }
    return known.get(chosen) or parse_stamp(text or "")


def _links(system: HistorySystem, looked: SelectedMinute) -> None:
    """Draw the links to the pages at this minute."""
    at = "now" if looked.at_ms == looked.newest_ms else stamp(looked.moment)
    names = dict(system.pages)
    with st.popover("Open at this minute", icon=":material/open_in_new:", width="content"):
        for page, name in names.items():
            st.button(
                name,
                key=f"_open_{page}",
                type="tertiary",
                on_click=state.go,
                args=(page,),
                kwargs={"at": at},
            )


# -- load ------------------------------------------------------------------------------------------


def _draw_load(
    query: HistoryQuery,
    system: HistorySystem,
    measure: HistoryMeasure,
    looked: SelectedMinute,
    other: datetime,
) -> None:
    queries = query.history.queries()
    rows = model.then_and_now(
        queries.servers_at(looked.at_ms, weights=query.weighed),
        queries.servers_at(_recorded_ms(query, other), weights=query.weighed),
        system,
        measure,
        is_later=other > looked.moment,
    )
    tables.table(
        rows,
        _columns(system, measure, stamp(other)),
        key="history_minute",
        alt=f"{measure.label} by server at {stamp(looked.moment)} and at {stamp(other)}",
        height=min(_TABLE_PX, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=query.history.cluster, what="history-minute", moment=looked.moment
    )


def _recorded_ms(query: HistoryQuery, moment: datetime) -> int:
    """Return the recorded minute at or before a moment; the moment itself if there is none."""
    end = moment + timedelta(seconds=1, milliseconds=-1)
    near = query.history.minutes(Period(end - _NEAR, end))
    return int(near.at_ms[-1]) if len(near) else datetime_to_ms(moment)


def _columns(system: HistorySystem, measure: HistoryMeasure, other: str) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "subject": tables.words(system.server.capitalize()),
        "then": _number(measure.label, measure),
        "now": _number("Compared minute", measure, help_text=f"{other} UTC"),
        "difference": _number(
            "Change", measure, sign="+", help_text="From the earlier minute to the later one."
        ),
    }
    others = [one for one in system.measures if one.key != measure.key]
    return columns | {one.key: _number(one.label, one) for one in others}


def _number(label: str, measure: HistoryMeasure, sign: str = "", help_text: str = "") -> Any:
    scale = scale_of(measure.unit)
    digits = {"ratio": 1, "bytes/s": 2, "MB": 2}.get(measure.unit, 0)
    suffix = "%%" if measure.unit == "ratio" else ""
    head = f"{label} {scale.title}" if measure.unit in ("bytes/s", "msgs/s", "MB") else label
    grouped = "" if sign or digits else ","
    return st.column_config.NumberColumn(
        head, format=f"%{sign}{grouped}.{digits}f{suffix}", help=help_text or None
    )


# -- changes ---------------------------------------------------------------------------------------


def _draw_changes(
    config: Config, header: Choice, system: HistorySystem, looked: SelectedMinute, other: datetime
) -> None:
    """Draw the changes from the earlier of the two minutes to the later one."""
    first, second = sorted((looked.moment, other))
    pair = [stored_at(config, header.cluster, header.saved, one) for one in (first, second)]
    if pair[0] is None or pair[1] is None:
        st.caption("No records before this time.")
        return
    if pair[0].snapshot_id == pair[1].snapshot_id:
        st.caption("Choose two different minutes.")
        return
    found = model.compare(system, pair[0], pair[1])
    st.markdown(words.plain(found.sentence))
    if found.rows.empty:
        return
    columns = {
        "what": tables.words("Change"),
        "subject": tables.words("Object"),
        "before": tables.words("Before"),
        "after": tables.words("After"),
    }
    if "throughput" in found.rows:
        columns |= {
            "throughput": tables.megabytes(
                "Traffic", "Traffic of the moved bundle at the later minute."
            ),
            "msg_rate": tables.rate("Rate"),
            "clients": tables.whole("Clients", "Producers and consumers."),
        }
    tables.table(
        found.rows.head(_MAX_ROWS),
        columns,
        key="history_compare",
        alt="Changes between the two minutes",
        missing="",
        height=min(_TABLE_PX, tables.height_of(len(found.rows))),
    )
    tables.downloads(
        found.rows, cluster=header.cluster.name, what="history-difference", moment=second
    )
