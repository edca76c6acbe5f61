"""Links to the load of one object over months: the tab *Long term* of the History page."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.presenters.load import LONG_TERM

OBJECT, SUBJECT = "object", "subject"
"""Kind and name in the address."""


def open_long_term(kind: str, name: str) -> None:
    """Open the load of an object over months; call it from a callback."""
    state.go("history", **{state.VIEW: LONG_TERM, OBJECT: kind, SUBJECT: name})


def link(kind: str, name: str, *, label: str = LONG_TERM) -> None:
    """Draw the button that opens the load of an object over months.

    Args:
        kind: As the tiers name it: ``broker``, ``bundle``, ``tenant``.
        name: Of the object.
        label: Of the button.
    """
    st.button(
        label,
        icon=":material/timeline:",
        type="tertiary",
        key=f"_long_term_{kind}",
        help="Load over up to a year, on the History page",
        on_click=open_long_term,
        args=(kind, name),
    )
