"""Encoding of a kind's files: each keeps every bit."""

from __future__ import annotations

from typing import Final, Literal

import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties

from core.snapshot.record import Kind

ROW_GROUP: Final = 65_536
"""Rows a group: small enough that a reader that wants one bundle passes over most of them."""

_COMPRESSION: Final = "ZSTD"
_LEVEL: Final = 3
_TRIED: Final = 16_384
"""Rows of a column that are compressed in both ways to find the smaller one."""

Encoding = Literal["BYTE_STREAM_SPLIT", "PLAIN"]

_BY_BYTES: Final = "BYTE_STREAM_SPLIT"
_PLAIN: Final = "PLAIN"


def writing(kind: Kind, rows: pa.Table | None = None) -> WriterProperties:
    """Return how rows of a kind are written: names from a dictionary, numbers by bytes or plain.

    Numbers of one minute differ: split by bytes, their leading bytes compress. In a closed hour a
    number often stays until the broker's next report: plain, whole numbers compress.

    Args:
        kind: The kind.
        rows: What is written, sorted by key and time: each column of numbers gets the smaller
            encoding. ``None`` for rows of one minute.
    """
    encodings: dict[str, Encoding] = {
        one.name: _BY_BYTES if rows is None else _smaller(rows[one.name])
        for one in kind.stored
        if pa.types.is_floating(one.type)
    }
    properties = {
        name: ColumnProperties(
            dictionary_enabled=False, encoding=encoding, statistics_enabled="CHUNK"
        )
        for name, encoding in encodings.items()
    }
    return WriterProperties(
        compression=_COMPRESSION,
        compression_level=_LEVEL,
        max_row_group_size=ROW_GROUP,
        column_properties=properties or None,
    )


def _smaller(column: pa.ChunkedArray) -> Encoding:
    """Return the encoding in which rows from the middle take less space."""
    middle = column.slice(max(0, (len(column) - _TRIED) // 2), _TRIED).drop_null()
    if not len(middle):
        return _BY_BYTES
    numbers = middle.to_numpy()
    by_bytes = numbers.view("u1").reshape(numbers.size, -1).T.tobytes()
    codec = pa.Codec(_COMPRESSION.lower(), _LEVEL)
    sizes = [codec.compress(one).size for one in (by_bytes, numbers.tobytes())]
    return _BY_BYTES if sizes[0] <= sizes[1] else _PLAIN
