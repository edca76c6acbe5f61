"""Filters of the Activity page, in the address: one of several, and a range of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final

import streamlit as st

from dashboard import services, state
from dashboard.legible import option

SPANS: Final = {
    "1 h": timedelta(hours=1),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
}
EVER: Final = "ever"
DATES: Final = "between dates"


def pick(label: str, options: Sequence[str], key: str, width: int) -> str:
    """Draw a filter whose first choice is everything; return the choice, empty: everything."""
    every = f"every {label.lower()}"
    named = state.text(key)
    more = [named] if named and named not in (every, *options) else []  # so that it is not lost
    chosen = st.selectbox(
        label,
        [every, *options, *more],
        format_func=option,
        key=key,
        bind="query-params",
        width=width,
    )
    return "" if chosen in (None, every) else str(chosen)


def pick_span() -> tuple[datetime | None, datetime | None]:
    """Draw the stretch of time; return its ends, aware UTC, ``None``: open."""
    span = st.selectbox(
        "When", [EVER, *SPANS, DATES], key=state.SINCE, bind="query-params", width=150
    )
    if span in SPANS:
        return services.now() - SPANS[str(span)], None
    if span != DATES:
        return None, None
    today = services.now().date()
    first = st.date_input("From (UTC)", today, key=state.FROM, bind="query-params", width=140)
    last = st.date_input("To (UTC)", today, key=state.UNTIL, bind="query-params", width=140)
    return datetime.combine(first, time.min, UTC), datetime.combine(last, time.max, UTC)
