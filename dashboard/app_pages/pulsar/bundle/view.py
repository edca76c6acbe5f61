"""Moves of one bundle as the saved snapshots show them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard.components import tables
from dashboard.presenters.moves import Move, moves_frame, moves_sentence


def moves_seen(moves: Sequence[Move], minutes: float) -> None:
    """Say how often a bundle changed hands, and list when.

    Args:
        moves: Of that bundle.
        minutes: Span of the snapshots in which they were seen.
    """
    st.caption(moves_sentence(moves, minutes))
    if not moves:
        return
    tables.table(
        moves_frame(moves),
        {
            "seen_at": st.column_config.DatetimeColumn("Seen (UTC)", format="HH:mm:ss"),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "mark": tables.words("Mark"),
        },
        key="bundle_moves",
        alt="Owners of the bundle over time",
    )
