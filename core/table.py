"""Columns of tables, declared once: kernels take the schema, people the labels.

Example:
    >>> HOT = Table(Column("broker", "Broker"), Column("usage", "Before", kind="ratio"))
    >>> HOT.schema.names
    ['broker', 'usage']
    >>> HOT["usage"].text(0.614, 0)
    '61.4%'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import pyarrow as pa

from core.units import UNKNOWN, format_age, format_bytes_per_s, format_per_s, format_ratio

Kind = Literal[
    "words", "flag", "id", "count", "number",
    "ratio", "bytes_per_s", "requests_per_s", "megabytes", "moment",
]  # fmt: skip

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "words": pa.string(),
    "flag": pa.bool_(),
    "id": pa.int64(),
    "count": pa.int64(),
    "number": pa.float64(),
    "ratio": pa.float64(),
    "bytes_per_s": pa.float64(),
    "requests_per_s": pa.float64(),
    "megabytes": pa.float64(),
    "moment": pa.int64(),
}
_UNITS: Final[Mapping[str, str]] = {
    "ratio": "ratio",
    "bytes_per_s": "bytes/s",
    "requests_per_s": "requests/s",
    "megabytes": "MB",
    "moment": "ms",
}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: In the table, in JSON and in files.
        label: Heading; a text table writes it in lower case, a page adds the unit.
        help: One sentence; empty: none.
        kind: Kind of its values; type and unit follow.
        none: Text of null; ``None``: the column has no nulls.
        words: Texts of a flag, for true and false.
        write: Returns the text of a value, null included; ``None``: by its kind.
    """

    name: str
    label: str = ""
    help: str = ""
    kind: Kind = "words"
    none: str | None = None
    words: tuple[str, str] = ("yes", "no")
    write: Callable[[Any], str] | None = None

    @property
    def field(self) -> pa.Field:
        """Name, type and unit."""
        unit = _UNITS.get(self.kind)
        metadata = {"unit": unit} if unit else None
        return pa.field(self.name, _TYPES[self.kind], self.none is not None, metadata)

    @property
    def heading(self) -> str:
        """Heading of a text table."""
        return self.label[:1].lower() + self.label[1:]

    def text(self, value: Any, now_ms: int) -> str:
        """Return a value for people.

        Args:
            value: As in the table.
            now_ms: When the snapshot was taken; a moment is written as its age.
        """
        if self.write is not None:
            return self.write(value)
        if value is None:
            return self.none or ""
        return _TEXTS[self.kind](self, value, now_ms)


_TEXTS: Final[Mapping[str, Callable[[Column, Any, int], str]]] = {
    "words": lambda _column, value, _now: str(value),
    "flag": lambda column, value, _now: column.words[0 if value else 1],
    "id": lambda _column, value, _now: str(value),
    "count": lambda _column, value, _now: f"{value:,}",
    "number": lambda _column, value, _now: f"{value:.1f}",
    "ratio": lambda _column, value, _now: format_ratio(value),
    "bytes_per_s": lambda _column, value, _now: format_bytes_per_s(value),
    "requests_per_s": lambda _column, value, _now: format_per_s(value, "op"),
    "megabytes": lambda _column, value, _now: f"{value:,.0f}",
    "moment": lambda _column, value, now_ms: format_age((now_ms - value) / 1000.0),
}


class Table:
    """The columns of a table, in order."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the table."""
        return pa.schema([one.field for one in self.columns])

    def __getitem__(self, name: str) -> Column:
        return next(one for one in self.columns if one.name == name)

    def pick(self, *names: str | tuple[str, str]) -> dict[str, Column]:
        """Return some columns; a pair is another name for a column, and the column."""
        pairs = [(one, one) if isinstance(one, str) else one for one in names]
        return {shown: self[name] for shown, name in pairs}

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        return Table(*(one for one in self.columns if one.name not in names))

    def of(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return a table of these rows."""
        return pa.Table.from_pylist(list(rows), schema=self.schema)


def is_unknown(column: Column) -> bool:
    """Return whether null stands for an unknown value."""
    return column.none == UNKNOWN
