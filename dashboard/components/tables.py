"""Tables to work in: one precision for each unit, names that open pages, downloads.

A row is one line, and no cell holds a sentence. Pictures in cells: :func:`sparkline` of a list of
values, :func:`share` of a percentage, and a deviation against its target band, which are the
strings of :func:`deviation_bars` in a column of :func:`deviation`, next to the number itself, since
a picture is neither read aloud nor sorted::

    frame["bar"] = tables.deviation_bars(deviations, tolerance_ratio=0.2)
    tables.table(
        frame,
        {
            "status": tables.status("Status", STATES),
            "bar": tables.deviation("Deviation from mean"),
            "percent": tables.signed_percent("Max"),
            "trend": tables.sparkline("Last 6 h"),
        },
        key="brokers",
        alt="Brokers with their deviation from the mean",
    )

:func:`table` returns the numbers of the selected rows where ``selection`` allows any; with
``names`` the address keeps them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal

import cachetools
import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st

from core.units import pluralize, size_unit
from dashboard import state
from dashboard.charts.template import FAINT, LINE, band_color, picture_address
from dashboard.legible import is_formula, labels, legible_frame, original
from dashboard.once import made_once
from dashboard.presenters.guides import meaning
from dashboard.presenters.naming import file_name

Column = Any
ROW_PX: Final = 29
WRAPPED_ROW_PX: Final = 66
"""Height of rows whose texts wrap: Streamlit wraps them in rows of more than 4rem."""

TYPING_PAUSE: Final = "400ms"
"""A text that filters a table filters it after such a pause, without Enter."""

_MAX_KEPT_ROWS: Final = 2_000
_tables: Final[cachetools.LRUCache[bytes, pd.DataFrame | pa.Table]] = cachetools.LRUCache(128)
"""Tables as the browser gets them: to make one takes longer than to compare its values."""


def _help(label: str, text: str) -> str | None:
    """Return the help of a column: its own, else the glossary's for its label."""
    return text or meaning(label) or None


def percent(label: str, help_text: str = "", *, width_px: int | None = None) -> Column:
    """Return a column of percent values, one digit."""
    return st.column_config.NumberColumn(
        label, format="%.1f%%", help=_help(label, help_text), width=width_px
    )


def signed_percent(label: str, help_text: str = "", *, width_px: int | None = None) -> Column:
    """Return a column of differences in percent, with their sign.

    One digit: without it -20.3% and -19.8% read as the same, and only one is within ±20%.
    """
    return st.column_config.NumberColumn(
        label, format="%+.1f%%", help=_help(label, help_text), width=width_px
    )


def megabytes(label: str, help_text: str = "", *, width_px: int | None = None) -> Column:
    """Return a column of MB/s, two digits."""
    return st.column_config.NumberColumn(
        f"{label} MB/s", format="%.2f", help=_help(label, help_text), width=width_px
    )


@dataclass(frozen=True, slots=True)
class Size:
    """A column of sizes, in MB in the frame; :func:`table` picks the unit that it is shown in.

    Attributes:
        label: What follows it is the unit; may be empty.
        help: One sentence.
    """

    label: str
    help: str = ""


def size(label: str, help_text: str = "") -> Column:
    """Return a column of sizes, two digits, in a unit that shows figures: see :class:`Size`."""
    return Size(label, help_text)


def copied() -> Column:
    """Return a column of sizes that changes copy; a change of roles copies nothing, which is 0."""
    return Size("Copied")


def sized(
    frame: pd.DataFrame, columns: Mapping[str, Column]
) -> tuple[pd.DataFrame, dict[str, Column]]:
    """Return the frame with each column of sizes in its own unit, and the columns as they say."""
    shown, found = {}, dict(columns)
    for name, column in columns.items():
        if isinstance(column, Size):
            values = frame[name].astype(float)
            unit, factor = size_unit(values)
            shown[name] = values * factor
            found[name] = st.column_config.NumberColumn(
                f"{column.label} {unit}".lstrip(),
                format="%,.2f",
                help=_help(column.label, column.help),
            )
    return (frame.assign(**shown) if shown else frame), found


def rate(label: str, help_text: str = "", *, width_px: int | None = None) -> Column:
    """Return a column of messages a second."""
    return st.column_config.NumberColumn(
        f"{label} msg/s", format="%,.0f", help=_help(label, help_text), width=width_px
    )


def whole(label: str, help_text: str = "", *, width_px: int | None = None) -> Column:
    """Return a column of counts."""
    return st.column_config.NumberColumn(
        label, format="%,.0f", help=_help(label, help_text), width=width_px
    )


def seconds(label: str, help_text: str = "") -> Column:
    """Return a column of seconds."""
    return st.column_config.NumberColumn(label, format="%.0f s", help=_help(label, help_text))


def words(
    label: str, help_text: str = "", *, pinned: bool = False, width_px: int | None = None
) -> Column:
    """Return a column of text, by default as wide as its first content.

    A pinned one stays in sight where the table scrolls, and is grey: only for a table that has a
    column for each object.
    """
    return st.column_config.TextColumn(
        label, help=_help(label, help_text), pinned=pinned or None, width=width_px
    )


def sparkline(label: str, help_text: str = "", *, y_max: float | None = None) -> Column:
    """Return a column of small lines: a cell is a list of values, oldest first.

    Args:
        label: Column head, with the span: ``Last 6 h``.
        help_text: One sentence.
        y_max: Top of every cell, so that rows compare; ``None``: each has its own.
    """
    return st.column_config.LineChartColumn(
        label, help=_help(label, help_text), y_min=0, y_max=y_max, width=86
    )


def share(label: str, help_text: str = "", *, most: float = 100.0, width_px: int = 130) -> Column:
    """Return a column of percent values as bars; ``most`` percent fill the cell."""
    return st.column_config.ProgressColumn(
        label,
        help=_help(label, help_text),
        min_value=0,
        max_value=most,
        format="%.0f%%",
        width=width_px,
    )


def deviation(label: str, help_text: str = "") -> Column:
    """Return a column of bars by :func:`deviation_bars`; the help explains the colours."""
    return st.column_config.ImageColumn(
        label,
        help=f"{help_text or meaning(label)} {_BAR_COLORS}".strip(),
        width=_BAR_PX + 16,
        alignment="left",
    )


_BAR_PX: Final = 100
_BAR_COLORS: Final = (
    "Blue: within the target band; yellow: outside; red: more than twice the target."
)
_BAR_HIGH_PX: Final = 20
"""As high as a row leaves room for: a picture is scaled to that."""

_BAR_STEPS: Final = 48
"""Lengths that a bar can have to one side; more would not be seen, and would be sent."""


def deviation_bars(
    ratios: Iterable[float | None],
    tolerance_ratio: float | Sequence[float],
    *,
    end_ratio: float | None = None,
) -> list[str | None]:
    """Return a picture for each deviation: a bar from the mean, to either side, and the band.

    Args:
        ratios: Deviations from the mean; ``None`` or NaN where unknown.
        tolerance_ratio: Half width of the target band; a list: of each.
        end_ratio: Deviation that fills one side; ``None``: the largest, at least twice the band.
    Returns:
        Data addresses of SVG pictures; ``None`` where unknown.
    """
    values = np.array([np.nan if ratio is None else ratio for ratio in ratios], dtype=float)
    known = np.abs(values[np.isfinite(values)])
    targets = np.broadcast_to(np.asarray(tolerance_ratio, dtype=float), values.shape)
    widest = 2 * float(targets.max()) if targets.size else 0.0
    end = end_ratio or max(widest, float(known.max()) if known.size else 0.0) or 1.0
    bands = np.rint(np.minimum(targets / end, 1.0) * _BAR_STEPS).astype(int)
    steps = np.clip(np.nan_to_num(values) / end, -1.0, 1.0) * _BAR_STEPS
    return [
        _bar(round(float(step)), int(band), band_color(value, float(target)))
        if np.isfinite(value)
        else None
        for value, step, band, target in zip(values, steps, bands, targets, strict=True)
    ]


@lru_cache(maxsize=4_096)
def _bar(step: int, band: int, tone: str) -> str:
    half = _BAR_PX / 2
    scale = (half - 2) / _BAR_STEPS
    left, width = half + min(step, 0) * scale, max(abs(step) * scale, 1.0)
    picture = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_BAR_PX}' height='{_BAR_HIGH_PX}'>"
        f"<path fill='{FAINT}' d='M{half - band * scale:.1f} 1h{2 * band * scale:.1f}v18H"
        f"{half - band * scale:.1f}z'/><path fill='{tone}' d='M{left:.1f} 6h{width:.1f}v8H"
        f"{left:.1f}z'/><path fill='{LINE}' d='M{half - 0.5} 0h1v20h-1z'/></svg>"
    )
    return picture_address(picture)


_PICTURE: Final = "data:"

STATUS_COLORS: Final = {
    "✖": "red",
    "▲▲": "red",
    "▼▼": "red",
    "▲": "orange",
    "▼": "orange",
    "?": "gray",
    "●": "green",
    "○": "blue",
}
"""Colour of a status by the shape that it begins with."""


def status(
    label: str, options: Iterable[str], help_text: str = "", *, width_px: int = 104
) -> Column:
    """Return a column of states: a cell is a list of one text that begins with its shape.

    Args:
        label: Column head.
        options: Every text there can be; see :data:`STATUS_COLORS` for the shapes.
        help_text: One sentence.
        width_px: Of the column.
    """
    texts = list(options)
    return st.column_config.MultiselectColumn(
        label,
        help=_help(label, help_text),
        options=texts,
        color=[STATUS_COLORS.get(text.partition(" ")[0], "gray") for text in texts],
        width=width_px,
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


def height_within(rows: int, max_rows: int) -> int:
    """Return the pixels of a table that scrolls after some rows: half of the next is in sight."""
    return height_of(min(rows, max_rows)) + (ROW_PX // 2 if rows > max_rows else 0)


def height_of(rows: int, row_px: int = ROW_PX) -> int:
    """Return the height in pixels of a table with its head and so many rows."""
    return row_px * rows + ROW_PX + 4


def grid(frame: Any, **options: Any) -> Any:
    """Show a table as ``st.dataframe`` does, with the names of others made legible."""
    if not isinstance(frame, pd.DataFrame) or not options.get("hide_index"):
        shown = legible_frame(frame)
    elif len(frame) <= _MAX_KEPT_ROWS:
        shown = _made(frame, labels())
    else:
        shown = _plain_arrow(legible_frame(frame))
    return st.dataframe(shown, **options)


@made_once(_tables)
def _made(frame: pd.DataFrame, _: Mapping[str, str]) -> pd.DataFrame | pa.Table:
    return _plain_arrow(legible_frame(frame))


def _plain_arrow(frame: pd.DataFrame) -> pd.DataFrame | pa.Table:
    """Return the columns without the metadata of pandas, which can be larger than the table."""
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return frame  # values of several types in a column: Streamlit makes them texts
    table = table.replace_schema_metadata(None).cast(pa.schema(map(_shorter, table.schema)))
    for at, name in enumerate(table.column_names):
        first = str(table[name][0]) if table.num_rows else ""
        if first.startswith(_PICTURE):
            table = table.set_column(at, name, table[name].dictionary_encode())  # each one once
    return table


def _shorter(field: pa.Field) -> pa.Field:
    """Return a column of sparklines with half of the digits; others as they are."""
    is_sparkline = pa.types.is_list(field.type) and pa.types.is_float64(field.type.value_type)
    return field.with_type(pa.list_(pa.float32())) if is_sparkline else field


def table(
    frame: pd.DataFrame,
    columns: Mapping[str, Column],
    *,
    key: str,
    alt: str,
    height: int | None = None,
    missing: str = "unknown",
    selection: Literal["single-row", "multi-row"] | None = None,
    names: Sequence[str] | None = None,
    row_px: int = ROW_PX,
) -> list[int]:
    """Show a table with the configured columns, in their order.

    Args:
        frame: One row a thing.
        columns: By column of the frame.
        key: Unique; the table changes in place under it.
        alt: What it shows, for who does not see it.
        height: Pixels; ``None``: of its rows.
        missing: Stands for null.
        selection: Which rows can be selected; ``None``: none.
        names: Of the rows, each once: the address keeps those of the selected ones, and they stay
            selected wherever their rows are. For one table of a page.
        row_px: Height of a row; in one of :data:`WRAPPED_ROW_PX` texts wrap.
    Returns:
        Numbers of the selected rows.
    """
    options: dict[str, Any] = (
        {} if selection is None else {"on_select": "rerun", "selection_mode": selection}
    )
    if names is not None and (missing_names := state.begin_selection(key, names)):
        rows_word = pluralize(len(missing_names), "selected row")
        st.toast(f"Not in this table: {rows_word} from the URL.")
    in_units, configured = sized(frame, columns)
    shown = grid(
        in_units,
        hide_index=True,
        column_order=list(configured),
        column_config=configured,
        key=key,
        alt=alt,
        height=height if height is not None else "auto",
        row_height=row_px,
        placeholder=missing,
        **options,
    )
    if selection is None:
        return []
    rows = [row for row in shown.selection.rows if row < len(frame)]
    if names is not None:
        state.end_selection([names[row] for row in rows])
    return rows


def selected(key: str, identities: Iterable[Hashable]) -> int | None:
    """Return the row that is selected in a table; call it before the table is drawn.

    The browser keeps a position. What a person selected stays selected when rows are added above.

    Args:
        key: Of the table.
        identities: What identifies each of its rows.
    Returns:
        Its number; ``None``: no row is selected, or what was selected is gone.
    """
    now = list(identities)
    before = st.session_state.get(f"{key}_rows", now)
    st.session_state[f"{key}_rows"] = now
    rows = st.session_state.get(key, {}).get("selection", {}).get("rows", ())
    if not rows:
        return None
    chosen = before[rows[0]] if rows[0] < len(before) else None
    found = now.index(chosen) if chosen in now else None
    if found != rows[0]:
        kept = [] if found is None else [found]
        st.session_state[key] = {"selection": {"rows": kept, "columns": []}}
    return found


def shortened(texts: Iterable[str], length: int = 44) -> list[str]:
    """Return sentences shortened to a cell: cut at a word, with an ellipsis.

    Args:
        texts: Of others, of any length; the whole one is for the panel of the selected row.
        length: Letters that are shown at most.
    """
    return [_shortened(text or "", length) for text in texts]


def _shortened(text: str, length: int) -> str:
    short = textwrap.shorten(text, length, placeholder="…")
    if len(text) <= length or len(short) > length // 2:
        return short
    return f"{text[: length - 1]}…"  # a long name without a blank


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark texts that a spreadsheet would take for a formula: names and reasons are others'."""
    texts = frame.select_dtypes(include=["object", "string", "category"]).columns
    marked = {name: frame[name].astype(object).map(_marked) for name in texts}
    return frame.assign(**marked).rename(columns=_marked)


def _marked(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value


def downloads(
    frame: pd.DataFrame | Callable[[], pd.DataFrame], *, cluster: str, what: str, moment: datetime
) -> None:
    """Offer a table, or what a function makes on request, as CSV and JSON."""

    def table() -> pd.DataFrame:
        return frame if isinstance(frame, pd.DataFrame) else frame()

    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        st.download_button(
            "CSV",
            data=lambda: inert(table()).to_csv(index=False).encode(),
            file_name=file_name(cluster, what, moment, "csv"),
            mime="text/csv",
            icon=":material/download:",
            type="tertiary",
            key=f"_{what}_csv",
            on_click="ignore",
        )
        st.download_button(
            "JSON",
            data=lambda: table().to_json(orient="records").encode(),
            file_name=file_name(cluster, what, moment, "json"),
            mime="application/json",
            icon=":material/download:",
            type="tertiary",
            key=f"_{what}_json",
            on_click="ignore",
        )
