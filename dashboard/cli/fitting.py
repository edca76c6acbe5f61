"""The lines of a table that fits a width.

Numbers and short words are never touched. Where the rest is too wide, cells with spaces are folded
between words and names are shortened in the middle: both ends of a name tell it from others.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

_GAP: Final = 2
_PROSE: Final = 20
_WORD: Final = 37
"""Columns below which prose is not folded any further, and a name in it is not shortened."""
_NAME: Final = 22
"""Columns below which a name is not shortened any further."""
_ID: Final = re.compile(r"\d{8}[-T]\d{6,9}-[0-9a-f]{6}")
"""Of a run or a job, which other commands take: it stays whole."""
_BUNDLE: Final = re.compile(r"\S+/0x[0-9a-f]+_0x[0-9a-f]+")
"""A bundle, which other commands take: it stays whole, if need be on a line of its own."""
_INDENT: Final = "  "
_ELLIPSIS: Final = "…"


class TableLines(NamedTuple):
    """Lines of a table.

    Attributes:
        head: Of the headings.
        rows: Of each row.
    """

    head: list[str]
    rows: list[list[str]]

    @property
    def body(self) -> list[str]:
        """All lines of the rows."""
        return [line for lines in self.rows for line in lines]


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_right: Sequence[bool],
    width: int | None,
    spare: Collection[str] = (),
) -> tuple[TableLines, list[str]]:
    """Return the lines of a table, and the columns that had no room.

    Args:
        columns: Headings.
        rows: Cells by row, at least one.
        is_right: By column, whether it is aligned right, as numbers are.
        width: Columns of the terminal; ``None``: unlimited.
        spare: Columns to leave out first, in this order; then those at the right end.
    """
    natural = [max(map(cell_len, (name, *cells))) for name, cells in _by_column(columns, rows)]
    shown = list(range(len(columns)))
    if width is None:
        return _lines(columns, rows, is_right, shown, natural), []
    at = next((at for at in shown if _has_bundles([row[at] for row in rows])), None)
    if at is not None and shown[1:] and _total(natural) > width:
        return _stacked(at, columns, rows, is_right, width, spare)
    lowest = [_lowest(name, cells) for name, cells in _by_column(columns, rows)]
    order = [columns.index(name) for name in spare] + [
        at for at in reversed(shown[1:]) if columns[at] not in spare
    ]
    for at in order:
        if _total([lowest[one] for one in shown]) <= width:
            break
        shown.remove(at)
    widths = _shared(natural, lowest, shown, width)
    left_out = [columns[at] for at in range(len(columns)) if at not in shown]
    return _lines(columns, rows, is_right, shown, widths), left_out


def _has_bundles(cells: Sequence[str]) -> bool:
    return any(cells) and all(not cell or _BUNDLE.fullmatch(cell) for cell in cells)


def _stacked(
    at: int,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_right: Sequence[bool],
    width: int,
    spare: Collection[str],
) -> tuple[TableLines, list[str]]:
    """Return the lines with one column on lines of its own, above the others of each row."""

    def others(cells: Sequence[Any]) -> list[Any]:
        return [cell for number, cell in enumerate(cells) if number != at]

    inner, left_out = fitted(
        others(columns),
        [others(row) for row in rows],
        others(is_right),
        width - len(_INDENT),
        [name for name in spare if name != columns[at]],
    )
    return TableLines(
        [columns[at], *(_INDENT + line for line in inner.head)],
        [
            [row[at], *(_INDENT + line for line in lines)]
            for row, lines in zip(rows, inner.rows, strict=True)
        ],
    ), left_out


def _by_column(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[tuple[str, list[str]]]:
    return [(name, [row[at] for row in rows]) for at, name in enumerate(columns)]


def _lowest(name: str, cells: Sequence[str]) -> int:
    """Return the min width of a column at which its cells are still readable."""
    heading = max(map(cell_len, name.split()), default=0)
    return max(heading, *map(_lowest_of, cells))


def _lowest_of(cell: str) -> int:
    if _ID.fullmatch(cell):
        return cell_len(cell)
    if " " not in cell:
        return min(cell_len(cell), _NAME)
    return max(min(cell_len(cell), _PROSE), min(max(map(cell_len, cell.split())), _WORD))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _shared(
    natural: Sequence[int], lowest: Sequence[int], shown: Sequence[int], width: int
) -> list[int]:
    """Return widths that fit: every column has its lowest, and the rest is shared out evenly."""
    widths = list(lowest)
    room = width - _total([widths[at] for at in shown])
    growing = [at for at in shown if widths[at] < natural[at]]
    while room > 0 and growing:
        more = max(room // len(growing), 1)
        for at in growing:
            added = min(more, natural[at] - widths[at], room)
            widths[at] += added
            room -= added
        growing = [at for at in growing if widths[at] < natural[at]]
    if room < 0:  # the first column alone is too wide
        widths[shown[0]] += room
    return widths


def _lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_right: Sequence[bool],
    shown: Sequence[int],
    widths: Sequence[int],
) -> TableLines:
    def drawn(cells: Sequence[str]) -> list[str]:
        folded = [_folded(cells[at], widths[at]) for at in shown]
        return [
            (" " * _GAP)
            .join(
                _padded(parts[line] if line < len(parts) else "", widths[at], right=is_right[at])
                for at, parts in zip(shown, folded, strict=True)
            )
            .rstrip()
            for line in range(max(map(len, folded)))
        ]

    return TableLines(drawn(columns), [drawn(row) for row in rows])


def _folded(cell: str, width: int) -> list[str]:
    """Return the lines of a cell: prose between words, a name shortened in the middle."""
    if cell_len(cell) <= width:
        return [cell]
    if " " not in cell.strip():
        return [_shortened(cell, width)]
    lines = textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False)
    return [_shortened(line, width) for line in lines]


def _shortened(name: str, width: int) -> str:
    if cell_len(name) <= width:
        return name
    ahead = (width - 1) // 2
    behind = width - 1 - ahead
    end = name[-behind:] if behind else ""
    return set_cell_size(name, ahead).rstrip() + _ELLIPSIS + end


def _padded(text: str, width: int, *, right: bool) -> str:
    blank = " " * max(width - cell_len(text), 0)
    return blank + text if right else text + blank
