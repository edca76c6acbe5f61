"""Files of topics, cut into parts that can be read on their own: Parquet, CSV, one JSON a line.

A file has a column ``topic`` and, where they are known, the four rates of the topics table
(``msg_rate_in`` and ``_out`` in messages/s, ``msg_throughput_in`` and ``_out`` in bytes/s); other
columns are passed over.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from core.errors import InputError
from core.schemas.pulsar import RATES

PART_BYTES: Final = 64 * 1024 * 1024
"""Of text; about a million topics with their rates."""

_PART_ROWS: Final = 1_000_000
_FORMS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
Form = Literal["parquet", "csv", "jsonl"]

TOPICS: Final = pa.schema(
    [pa.field("topic", pa.string()), *(pa.field(name, pa.float64()) for name in RATES)]
)
"""What is read of a file."""


@dataclass(frozen=True)
class TopicPart:
    """One part of a file.

    Attributes:
        path: The file.
        form: ``parquet``, ``csv`` or ``jsonl``.
        first: First row group, or first byte.
        last: The one after the last.
        columns: Of a CSV file: its header.
    """

    path: str
    form: str
    first: int
    last: int
    columns: tuple[str, ...] = ()


def parts_of(path: Path, *, part_bytes: int = PART_BYTES) -> list[TopicPart]:
    """Return the parts of a file, in order; every topic is in exactly one.

    Args:
        path: Ends in ``.parquet``, ``.csv``, ``.jsonl`` or ``.ndjson``.
        part_bytes: Of a text file; of a Parquet file a part is some row groups.
    Raises:
        InputError: It is of another form, cannot be read, or has no column ``topic``.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"{path} has an unsupported format.",
            hint=f"Specify a file that ends in {', '.join(_FORMS)}.",
        )
    try:
        if form == "parquet":
            return _groups(path)
        columns = _header(path) if form == "csv" else ()
        size = path.stat().st_size
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(path, exc) from exc
    edges = [*range(0, size, max(part_bytes, 1)), size]
    return [TopicPart(str(path), form, first, last, columns) for first, last in pairwise(edges)]


def read_part(part: TopicPart) -> pa.Table:
    """Return the topics of a part, columns as :data:`TOPICS`; an unknown rate is null.

    Raises:
        InputError: It is damaged, or a value is no number.
    """
    try:
        if part.form == "parquet":
            return _shaped(_read_groups(part), part.path)
        return _shaped(_read_text(part), part.path)
    except (OSError, pa.ArrowException) as exc:
        raise _unreadable(Path(part.path), exc) from exc


def _unreadable(path: Path, exc: Exception) -> InputError:
    why = getattr(exc, "strerror", None) or str(exc).partition("\n")[0]
    return InputError(
        f"{path} cannot be read as topics: {why}.",
        hint="It needs a column `topic`, and numeric rates.",
    )


def _groups(path: Path) -> list[TopicPart]:
    """Join small row groups, so that a part is worth its task."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # commands start without it

    with pq.ParquetFile(path) as file:
        if "topic" not in file.schema_arrow.names:
            raise _without_topics(path, file.schema_arrow.names)
        sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    number = (np.cumsum([0, *sizes])[:-1] // _PART_ROWS).tolist()
    edges = [at for at in range(len(sizes)) if at == 0 or number[at] != number[at - 1]]
    return [
        TopicPart(str(path), "parquet", first, last)
        for first, last in zip(edges, [*edges[1:], len(sizes)], strict=True)
    ]


def _read_groups(part: TopicPart) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415  # commands start without it

    with pq.ParquetFile(part.path) as file:
        columns = [name for name in TOPICS.names if name in file.schema_arrow.names]
        return file.read_row_groups(list(range(part.first, part.last)), columns=columns)


def _without_topics(path: Path, names: list[str]) -> InputError:
    return InputError(
        f"{path} has no column `topic`; its columns: {', '.join(names[:12])}.",
        hint="Name the column with complete topic names `topic`.",
    )


def _header(path: Path) -> tuple[str, ...]:
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline().strip().lstrip("\ufeff")
    names = tuple(name.strip().strip('"') for name in line.split(","))
    if "topic" not in names:
        raise _without_topics(path, list(names))
    return names


def _read_text(part: TopicPart) -> pa.Table:
    text = _lines(part)
    if not text.strip():
        return TOPICS.empty_table()
    if part.form == "jsonl":
        from pyarrow import json  # noqa: PLC0415  # commands start without it

        return json.read_json(
            io.BytesIO(text),
            read_options=json.ReadOptions(block_size=max(len(text), 1)),
            parse_options=json.ParseOptions(
                explicit_schema=TOPICS, unexpected_field_behavior="ignore"
            ),
        )
    from pyarrow import csv  # noqa: PLC0415  # commands start without it

    return csv.read_csv(
        io.BytesIO(text),
        read_options=csv.ReadOptions(column_names=list(part.columns)),
        convert_options=csv.ConvertOptions(
            column_types=TOPICS,
            include_columns=[name for name in TOPICS.names if name in part.columns],
        ),
    )


def _lines(part: TopicPart) -> bytes:
    """Return the lines that begin within the part; the header of a CSV file is none."""
    with Path(part.path).open("rb") as file:
        if part.first:
            file.seek(part.first - 1)
            file.readline()  # the part before has this line
        elif part.form == "csv":
            file.readline()
        start = file.tell()
        if start >= part.last:
            return b""
        return file.read(part.last - start) + (b"" if _ends_line(file, part) else file.readline())


def _ends_line(file: io.BufferedReader, part: TopicPart) -> bool:
    """Return whether the byte before the end of the part ends a line."""
    file.seek(part.last - 1)
    return file.read(1) == b"\n"


def _shaped(table: pa.Table, path: str) -> pa.Table:
    if "topic" not in table.column_names:
        raise _without_topics(Path(path), table.column_names)
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in TOPICS
    ]
    return pa.table(columns, schema=TOPICS)
