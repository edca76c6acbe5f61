"""Tables to work in: one precision for each unit, names that open pages, downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard.legible import is_formula, legible_frame, original
from dashboard.presenters.naming import file_name

Column = Any
ROW_PX: Final = 29
SCROLL_PX: Final = 12
"""Of the bar below a table that is wider than its place: the last row stays above it."""
WRAPPED_PX: Final = 60
"""A row of sentences: three lines."""


def percent(label: str, help_text: str = "") -> Column:
    """Return a column of percent values, one digit."""
    return st.column_config.NumberColumn(label, format="%.1f %%", help=help_text or None)


def signed_percent(label: str, help_text: str = "") -> Column:
    """Return a column of differences in percent, with their sign."""
    return st.column_config.NumberColumn(label, format="%+.0f %%", help=help_text or None)


def megabytes(label: str, help_text: str = "") -> Column:
    """Return a column of MB/s, two digits."""
    return st.column_config.NumberColumn(f"{label} MB/s", format="%.2f", help=help_text or None)


def rate(label: str, help_text: str = "") -> Column:
    """Return a column of messages a second."""
    return st.column_config.NumberColumn(f"{label} msg/s", format="%,.0f", help=help_text or None)


def whole(label: str, help_text: str = "") -> Column:
    """Return a column of counts."""
    return st.column_config.NumberColumn(label, format="%,.0f", help=help_text or None)


def seconds(label: str, help_text: str = "") -> Column:
    """Return a column of seconds."""
    return st.column_config.NumberColumn(label, format="%.0f s", help=help_text or None)


def words(
    label: str, help_text: str = "", *, pinned: bool = False, width_px: int | None = None
) -> Column:
    """Return a column of text, by default as wide as its first content."""
    return st.column_config.TextColumn(
        label, help=help_text or None, pinned=pinned or None, width=width_px
    )


def opener(
    label: str,
    key: str,
    open_row: Callable[[str], None],
    *,
    is_pinned: bool = True,
    width_px: int | None = None,
) -> Column:
    """Return a column whose cells are names that open something when clicked.

    Args:
        label: Column head.
        key: Unique key of the click.
        open_row: Called with the clicked name.
        is_pinned: It stays in sight, at the left.
        width_px: Of the column; ``None``: as wide as its names, if there is room.
    """

    def clicked() -> None:
        click = st.session_state.get(key)
        if click is not None:
            open_row(original(click["label"]))

    return st.column_config.ButtonColumn(
        label,
        type="tertiary",
        alignment="left",
        pinned=is_pinned,
        on_click=clicked,
        key=key,
        width=width_px,
    )


def height_of(rows: int, row_px: int = ROW_PX) -> int:
    """Return the height in pixels of a table with its head and so many rows."""
    return row_px * rows + ROW_PX + 3 + SCROLL_PX


def grid(frame: Any, **options: Any) -> Any:
    """Show a table as ``st.dataframe`` does, with the names of others made legible."""
    return st.dataframe(legible_frame(frame), **options)


def table(
    frame: pd.DataFrame,
    columns: Mapping[str, Column],
    *,
    key: str,
    alt: str,
    height: int | None = None,
    missing: str = "unknown",
) -> None:
    """Show a table with the configured columns, in their order; ``missing`` stands for null."""
    grid(
        frame,
        hide_index=True,
        column_order=list(columns),
        column_config=dict(columns),
        key=key,
        alt=alt,
        height=height if height is not None else "auto",
        row_height=ROW_PX,
        placeholder=missing,
    )


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark texts that a spreadsheet would take for a formula: names and reasons are others'."""
    texts = frame.select_dtypes(include=["object", "string", "category"]).columns
    marked = {name: frame[name].astype(object).map(_marked) for name in texts}
    return frame.assign(**marked).rename(columns=_marked)


def _marked(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value


def downloads(frame: pd.DataFrame, *, cluster: str, what: str, moment: datetime) -> None:
    """Offer the table as CSV and JSON; made only on request."""
    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        st.download_button(
            "CSV",
            data=lambda: inert(frame).to_csv(index=False).encode(),
            file_name=file_name(cluster, what, moment, "csv"),
            mime="text/csv",
            icon=":material/download:",
            type="tertiary",
            key=f"_{what}_csv",
            on_click="ignore",
        )
        st.download_button(
            "JSON",
            data=lambda: frame.to_json(orient="records").encode(),
            file_name=file_name(cluster, what, moment, "json"),
            mime="application/json",
            icon=":material/download:",
            type="tertiary",
            key=f"_{what}_json",
            on_click="ignore",
        )
