"""The History page on what changed hands: how often, what went back, and what did not help."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import streamlit as st

from core.history.flaps import SETTLE_MINUTES, SIDE_MINUTES, FlapWish, flap_answer, flaps_of
from dashboard import state
from dashboard.charts.history_moves import moves_by_time
from dashboard.components import figures, tables, words
from dashboard.components.history_minute import look_at
from dashboard.presenters import history_movers as presenter
from dashboard.presenters.history_events import MOVE_KINDS
from dashboard.presenters.moments import parse_stamp
from dashboard.reading_history import Asked, Picture

_STAMP: Final = "YYYY-MM-DD HH:mm:ss"
_MAX_MOVES: Final = 200_000
_SIDE: Final = "history_flaps_side"
_SETTLE: Final = "history_flaps_settle"


def draw_movers(asked: Asked, picture: Picture, minute_s: float) -> None:
    """Draw the moves by time, the top movers, the flaps, and the rounds that did not help.

    Args:
        asked: What the page is about.
        picture: What was read for its picture.
        minute_s: Seconds that count as a minute of the cluster, as the configuration says.
    """
    cluster, events = asked.history.cluster, asked.history.events()
    is_pegasus = asked.history.system == "pegasus"
    moves = events.events(asked.period, kinds=MOVE_KINDS, most=_MAX_MOVES)
    if not moves.num_rows:
        noun = "partition" if is_pegasus else "bundle"
        st.caption(f"No {noun} changed hands in this time.")
        return
    evenness = picture.evenness
    minutes = pa.table({"taken_at": evenness.at_ms, "deviation": evenness.deviation})
    found = flaps_of(moves, minutes, _wish(minute_s))
    st.markdown(words.plain(flap_answer([(cluster, found)]).sentence))
    by_time = presenter.by_time(moves, asked.period)
    figures.chart(
        moves_by_time(by_time),
        key="history_moves",
        alt=f"Moves in each {by_time.each} of the range, by whom they were",
    )
    left, right = st.columns(2)
    with left:
        _draw_top(asked, is_pegasus=is_pegasus)
    with right:
        _draw_flaps(found["flaps"], cluster, asked)
    _draw_rounds(found["rounds"], asked, minute_s)


def _wish(minute_s: float) -> FlapWish:
    """Return how moves are judged, as the fields beside "Did it help?" say."""
    side = st.session_state.get(_SIDE, SIDE_MINUTES)
    settle = st.session_state.get(_SETTLE, SETTLE_MINUTES)
    return FlapWish(side_minutes=float(side), settle_minutes=float(settle), minute_s=minute_s)


def _draw_top(asked: Asked, *, is_pegasus: bool) -> None:
    rows = presenter.movers_frame(asked.history.events().movers(asked.period))
    words.section("Moved most often")
    opener = (
        tables.words("Partition", pinned=True)
        if is_pegasus
        else tables.opener("Bundle", "_open_mover", lambda name: state.go("bundle", bundle=name))
    )
    tables.table(
        rows,
        {
            "subject": opener,
            "moves": tables.whole("Moves"),
            "returns": tables.whole("Came back", "Moves back to where the one before came from."),
            "by_trimtab": tables.whole("By Trimtab"),
            "shortest_stay_min": st.column_config.NumberColumn(
                "Shortest stay min", format="%.1f", help="Between two moves."
            ),
            "last_at": st.column_config.DatetimeColumn("Last (UTC)", format=_STAMP, timezone="UTC"),
        },
        key="history_movers",
        alt="What moved most, those that came back first",
        missing="",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=asked.history.cluster, what="history-movers", moment=asked.period.end
    )


def _draw_flaps(flaps: pa.Table, cluster: str, asked: Asked) -> None:
    rows = presenter.flaps_frame(flaps)
    words.section("Went and came back")
    if rows.empty:
        st.caption("None: no move brought anything back to where it had been.")
        return
    tables.table(
        rows,
        {
            "subject": st.column_config.TextColumn("Of", pinned=True),
            "home": tables.words("From and back to"),
            "away": tables.words("Was at"),
            "away_min": st.column_config.NumberColumn("Away min", format="%.1f"),
            "back_at": st.column_config.DatetimeColumn("Back (UTC)", format=_STAMP, timezone="UTC"),
            "by": tables.words("By", "Who moved it away, and who back."),
        },
        key="history_flaps",
        alt="Moves that were taken back, the newest first",
        missing="",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(rows, cluster=cluster, what="history-flaps", moment=asked.period.end)


def _draw_rounds(rounds: pa.Table, asked: Asked, minute_s: float) -> None:
    rows = presenter.rounds_frame(rounds)
    words.section(
        "Did it help?",
        "Deviation on average over some minutes before moves were seen, and over as many once they "
        "have settled; lower by more than half a point has helped. Where other moves fall into "
        f"these minutes it cannot be told. {presenter.minute_words(minute_s)}Click a time to look "
        "at it.",
    )
    left, right, _ = st.columns([1, 1, 3])
    left.number_input(
        "Minutes on either side",
        min_value=1,
        max_value=240,
        value=SIDE_MINUTES,
        key=_SIDE,
        help="Shorter: fewer rounds run into each other, and each is less sure.",
    )
    right.number_input(
        "Minutes to settle",
        min_value=0,
        max_value=120,
        value=SETTLE_MINUTES,
        key=_SETTLE,
        help="Left out after the moves: averages and reports come late.",
    )

    def look(text: str) -> None:
        moment = parse_stamp(text)
        if moment is not None:
            look_at(moment)

    tables.table(
        rows,
        {
            "at": tables.opener("Seen at (UTC)", "_look_at_round", look),
            "by": tables.words("By"),
            "moves": tables.whole("Moves"),
            "flaps": tables.whole("Came back"),
            "before": tables.percent("Deviation before"),
            "after": tables.percent("Deviation after"),
            "helped": tables.words("Helped"),
            "others": tables.whole(
                "Other moves",
                "Seen from the first minute that is compared to the last: with any of them the "
                "outcome cannot be told.",
            ),
        },
        key="history_move_rounds",
        alt="Minutes with moves, with the deviation before and after",
        missing="unknown",
        height=min(420, tables.height_of(len(rows))),
    )
    tables.downloads(
        rows, cluster=asked.history.cluster, what="history-rounds", moment=asked.period.end
    )
