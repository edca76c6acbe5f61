"""The control for the range of a chart that ends with the shown snapshot, the same on every page.

The ranges are :data:`dashboard.presenters.moments.RANGES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from dashboard import state
from dashboard.presenters.moments import DEFAULT_RANGE, FIRST_RANGE, RANGES, offered_ranges
from dashboard.queries.history import recorded_since

if TYPE_CHECKING:
    from dashboard.components.page import ClusterPage

_LONG_DAYS: Final = {"7 d": 7, "30 d": 30, "90 d": 90, "1 y": 365}


def pick_long() -> int:
    """Draw the control for a range that hours and days answer; return its days."""
    chosen = st.segmented_control(
        "Range",
        list(_LONG_DAYS),
        default="30 d",
        required=True,
        key="months",
        bind="query-params",
        label_visibility="collapsed",
    )
    return _LONG_DAYS[chosen or "30 d"]


def pick(
    recorded: timedelta,
    *,
    first: str = FIRST_RANGE,
    default: str = DEFAULT_RANGE,
    more: Sequence[str] = (),
    help_text: str | None = None,
) -> str:
    """Draw the control; return the name of the range.

    Args:
        recorded: From the first record to the shown snapshot.
        first: The shortest range.
        default: Chosen at first.
        more: Other choices, after the ranges.
        help_text: One sentence.
    """
    kept = (default, state.text(state.RANGE))
    names = [*offered_ranges(recorded, first=first, kept=kept), *more]
    if st.session_state.get(state.RANGE, default) not in names:
        del st.session_state[state.RANGE]  # another page has more choices
    chosen = st.segmented_control(
        "Range",
        names,
        default=default,
        required=True,
        key=state.RANGE,
        bind="query-params",
        label_visibility="collapsed",
        help=help_text,
    )
    return chosen or default


def pick_of_page(
    page: ClusterPage[Any], *, first: str = FIRST_RANGE, default: str = DEFAULT_RANGE
) -> timedelta:
    """Draw the control of a page about a cluster; return the range.

    Args:
        page: Of the cluster.
        first: The shortest range.
        default: Chosen at first.
    """
    since = recorded_since(page.config, page.cluster, page.saved)
    recorded = timedelta(0) if since is None else page.stored.taken_at - since
    return RANGES[pick(recorded, first=first, default=default)]
