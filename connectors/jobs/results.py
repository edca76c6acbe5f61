"""Result tables of jobs: Parquet files or folders of them, read in parts that a page can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from core.errors import ComputeError, UnknownNameError

MAX_SORTED: Final = 2_000_000
"""Rows that are sorted as a whole; of more than these the first ones that match are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Requested rows of a table.

    Attributes:
        contains: Part of any of its texts, in any case; empty: all rows.
        sort: Column to sort by; empty: as they were written.
        is_descending: The greatest first; nulls always last.
        limit: How many rows.
    """

    contains: str = ""
    sort: str = ""
    is_descending: bool = True
    limit: int = 2_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows that were found.

    Attributes:
        table: At most as many as were wanted.
        matching: How many there are; ``None`` if more, not counted.
        total: How many rows the table has.
        is_sorted: Whether they are the first of all in the wanted order.
    """

    table: pa.Table
    matching: int | None
    total: int
    is_sorted: bool


def columns(path: Path) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises:
        ComputeError: It cannot be read.
    """
    return tuple(_dataset(path).schema.names)


def whole(path: Path) -> pa.Table:
    """Return a table whole.

    Raises:
        ComputeError: It cannot be read.
    """
    try:
        return _dataset(path).to_table()
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(path, exc) from exc


def of_names(path: Path, where: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return the rows with one of the named texts; other rows are never held in memory.

    Args:
        path: Of the table.
        where: Column to the texts that are wanted.
    Raises:
        ComputeError: It cannot be read, or lacks a column.
    """
    source, wanted = _dataset(path), None
    for name, texts in where.items():
        one = ds.field(name).isin(list(texts))
        wanted = one if wanted is None else wanted & one
    try:
        return source.to_table(filter=wanted)
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(path, exc) from exc


def rows(path: Path, view: View) -> Rows:
    """Return the rows of a table that are wanted.

    Raises:
        ComputeError: It cannot be read.
        UnknownNameError: It has no column to sort by of that name.
    """
    source = _dataset(path)
    if view.sort and view.sort not in source.schema.names:
        raise UnknownNameError.of("column", view.sort, source.schema.names, place=path.stem)
    wanted = _matching(source.schema, view.contains)
    try:
        total = source.count_rows()
        if view.sort and total <= MAX_SORTED:
            found = _sorted(source, view, wanted)
            matching: int | None = total if wanted is None else source.count_rows(filter=wanted)
            return Rows(table=found, matching=matching, total=total, is_sorted=True)
        found = source.scanner(filter=wanted, batch_size=16_384).head(view.limit)
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(path, exc) from exc
    is_all = found.num_rows < view.limit
    matching = found.num_rows if is_all else total if wanted is None else None
    return Rows(table=found, matching=matching, total=total, is_sorted=not view.sort)


def _sorted(source: Any, view: View, wanted: Any) -> pa.Table:
    """Return the first rows in the wanted order; only they are held with all their columns."""
    order = "descending" if view.is_descending else "ascending"
    table = source.to_table(filter=wanted)
    keys = table.select([view.sort])
    picks = pc.sort_indices(keys, sort_keys=[(view.sort, order)])  # nulls at the end
    return table.take(picks.slice(0, view.limit))


def _matching(schema: pa.Schema, contains: str) -> Any:
    """Return the filter for rows that have a text within one of their texts."""
    if not contains:
        return None
    texts: Sequence[str] = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    found = None
    for name in texts:
        has = pc.match_substring(ds.field(name), contains, ignore_case=True)
        found = has if found is None else pc.or_kleene(found, has)
    return ds.scalar(value=False) if found is None else found


def _dataset(path: Path) -> Any:
    try:
        return ds.dataset(path, format="parquet")
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(path, exc) from exc


def _unreadable(path: Path, exc: Exception) -> ComputeError:
    first = str(exc).partition("\n")[0]
    return ComputeError(
        f"The result table {path.name} cannot be read: {first}.", hint="Start the job again."
    )
