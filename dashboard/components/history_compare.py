"""The History page's difference of two minutes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.units import ms_to_datetime
from dashboard import state
from dashboard.components import tables, words
from dashboard.components.header import Choice
from dashboard.components.history_minute import Looked
from dashboard.presenters import history_compare as presenter
from dashboard.presenters.moments import parse_stamp, stamp
from dashboard.reading import reading
from dashboard.reading_history import Asked, Picture, shelved_at
from dashboard.reading_pegasus import pegasus_reading

if TYPE_CHECKING:
    from core.snapshot.store import Shelved
    from dashboard.services import Config

_NEWEST: Final = "the newest minute"
_FIRST: Final = "the first minute of the range"
_LAST: Final = "the last minute of the range"
_BEFORE: Final = "the minute before"
_OTHER: Final = "another minute"
_MAX_ROWS: Final = 5_000


def draw_compare(
    config: Config, choice: Choice, asked: Asked, picture: Picture, looked: Looked
) -> None:
    """Draw what differs between the minute that is looked at and another one."""
    other = _pick(picture, looked)
    if other is None:
        st.caption("Write the other minute as 2026-11-21 14:05 (UTC), between two the earlier one.")
        return
    first, second = sorted((looked.moment, other))
    pair = [shelved_at(config, choice.cluster, choice.kept, one) for one in (first, second)]
    if pair[0] is None or pair[1] is None:
        st.caption("Nothing was recorded until then.")
        return
    if pair[0].snapshot_id == pair[1].snapshot_id:
        st.caption("It is the same minute: look at another one above, or compare with another.")
        return
    found = _compared(asked.history.system, pair[0], pair[1])
    st.markdown(words.plain(found.sentence))
    if found.rows.empty:
        return
    columns = {
        "what": tables.words("What"),
        "subject": tables.words("Of"),
        "before": tables.words("Before"),
        "after": tables.words("After"),
    }
    if "throughput" in found.rows:
        columns |= {
            "throughput": tables.megabytes("Traffic", "Of what moved, at the later minute."),
            "msg_rate": tables.rate("Rate"),
            "clients": tables.whole("Clients", "Producers and consumers."),
        }
    tables.table(
        found.rows.head(_MAX_ROWS),
        columns,
        key="history_compare",
        alt="What differs between the two minutes",
        missing="",
        height=min(460, tables.height_of(len(found.rows))),
    )
    tables.downloads(
        found.rows, cluster=choice.cluster.name, what="history-difference", moment=second
    )


def _compared(system: str, first: Shelved, second: Shelved) -> presenter.Compared:
    if system == "pegasus":
        one, two = pegasus_reading(first), pegasus_reading(second)
        even = presenter.even_words_pegasus(one.nodes, two.nodes)
        return presenter.compare(one.snapshot, two.snapshot, even)
    earlier, later = reading(first), reading(second)
    even = presenter.even_words(earlier.measures, later.measures)
    return presenter.compare(earlier.snapshot, later.snapshot, even)


def _pick(picture: Picture, looked: Looked) -> datetime | None:
    """Draw the choice of the other minute; return it, ``None`` where it is not told yet."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            f"{stamp(looked.moment)} UTC against",
            [_FIRST, _BEFORE, _NEWEST, _LAST, _OTHER],
            key=state.AGAINST,
            bind="query-params",
            width=300,
        )
        text = (
            st.text_input(
                "Minute (UTC)", key=state.PICK, bind="query-params", placeholder="2026-11-21 14:05"
            )
            if chosen == _OTHER
            else ""
        )
    minutes = picture.minutes
    row = minutes.row_at(looked.moment) or 0
    known = {
        _NEWEST: ms_to_datetime(looked.newest_ms),
        _FIRST: minutes.moment(0),
        _LAST: minutes.moment(len(minutes) - 1),
        _BEFORE: minutes.moment(max(0, row - 1)),
    }
    return known.get(str(chosen)) or parse_stamp(text or "")
