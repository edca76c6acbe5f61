"""The bundles of one very large cluster, read where the work is: a task has a part of the file.

A task gets the numbers of its row groups of the snapshot's own file and reads the columns that
its kernel needs straight from there, as Arrow; rows never pass through Java. Where a kernel wants
all rows of a broker or a namespace together, parts are cut into packed pieces first, and only those
are distributed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.view import counted_by
from core.schemas import PULSAR_TABLES, conform
from core.snapshot import LoadManager
from core.spark.lift import Kernel, lift

ROW: Final = "row"
CODE: Final = "code"
NAMED: Final = "named"
OWN: Final = "own"

_ROWS_A_PART: Final = 200_000
"""A hundred megabytes of columns at most."""

PIECES: Final = pa.schema([("group", pa.int32()), ("part", pa.int64()), ("rows", pa.binary())])
"""Rows of one group that one part has: an Arrow stream."""


@dataclass(frozen=True)
class Part:
    """Some row groups of the file, one after the other.

    Attributes:
        first_row: Row of the table with which it begins.
        groups: Their numbers.
    """

    first_row: int
    groups: tuple[int, ...]


def parts_of(path: Path, rows: int = _ROWS_A_PART) -> tuple[Part, ...]:
    """Cut a Parquet file into parts of about so many rows; a row group stays whole."""
    with pq.ParquetFile(path) as file:
        counts = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    parts: list[Part] = []
    first, held, begun = 0, 0, 0
    for number, count in enumerate(counts):
        held += count
        if held >= rows or number == len(counts) - 1:
            parts.append(Part(first, tuple(range(begun, number + 1))))
            first, held, begun = first + held, 0, number + 1
    return tuple(parts)


@dataclass(frozen=True, eq=False)
class Coder:
    """Owner, namespace and counts of each bundle, by the brokers' rows.

    Attributes:
        brokers: In row order.
        load_manager: Of the cluster: it decides who counts a bundle.
    """

    brokers: tuple[str, ...]
    load_manager: LoadManager

    def coded(self, part: pa.Table) -> pa.Table:
        """Append :data:`OWN`, :data:`NAMED` and :data:`CODE`; -1 means no broker.

        ``code`` is who the leader counts the bundle for, as :class:`core.pulsar.view.LoadView` has
        it; ``named`` is whose report names it.
        """
        names = pa.array(self.brokers, pa.string())
        own, named = (_rows(part[name], names) for name in ("owner", "reported_by"))
        columns = {OWN: own, NAMED: named, CODE: self.counted_for(own, named)}
        for name, values in columns.items():
            part = part.append_column(name, pa.array(values, pa.int32()))
        return part

    def counted_for(self, own: Codes, named: Codes) -> Codes:
        """Return the broker that the leader counts each bundle for, by owner and reports."""
        return counted_by(named, own, self.load_manager)


def _rows(column: pa.ChunkedArray, names: pa.Array) -> Codes:
    found = pc.fill_null(pc.index_in(column, value_set=names), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int32)


@dataclass(frozen=True, eq=False)
class Edits:
    """Changes of bundles since they were written, by their rows in the table.

    Attributes:
        rows: Of those with another owner, rising; shape ``(n_edited,)``.
        owners: Names of who owns and reports each now; null: none. Same shape.
        gone: Names of brokers that went; whatever they own still is gone with them.
    """

    rows: Ints
    owners: pa.StringArray
    gone: tuple[str, ...]

    def applied(self, rows: pa.Table, first: int) -> pa.Table:
        """Return rows of the table, which follow each other from ``first`` on, as they are now."""
        start, end = np.searchsorted(self.rows, [first, first + rows.num_rows])
        is_edited = np.zeros(rows.num_rows, np.bool_)
        is_edited[self.rows[start:end] - first] = True
        now = self.owners[start:end]
        for name in ("owner", "reported_by"):
            column = pc.replace_with_mask(rows[name].combine_chunks(), pa.array(is_edited), now)
            rows = rows.set_column(rows.schema.get_field_index(name), rows.field(name), column)
        is_left = pc.invert(pc.is_in(rows["owner"], value_set=pa.array(self.gone, pa.string())))
        return rows.filter(is_left)


def _read(path: str, part: Part, columns: Sequence[str], edits: Edits | None) -> pa.Table:
    """Return the rows of a part as they are now, with their places in the table."""
    schema = PULSAR_TABLES["bundles"]
    wanted = pa.schema([schema.field(name) for name in columns])
    with pq.ParquetFile(path) as file:
        there = [name for name in wanted.names if name in file.schema_arrow.names]
        found = file.read_row_groups(list(part.groups), columns=there)
    rows = conform(found, wanted, name="bundles")
    place = np.arange(part.first_row, part.first_row + rows.num_rows)
    rows = rows.append_column(ROW, pa.array(place))
    return rows if edits is None else edits.applied(rows, part.first_row)


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads parts of the bundles table on an executor.

    Attributes:
        path: Of the file.
        coder: Numbers the brokers.
        columns: What the kernel needs; owner and reports are read anyway.
        edits: What has become of bundles since; ``None`` if unchanged.
    """

    path: str
    coder: Coder
    columns: tuple[str, ...]
    edits: Edits | None = None

    def read(self, part: Part) -> pa.Table:
        """Return the rows of a part, with their place in the table and the brokers' rows."""
        rows = self.coder.coded(_read(self.path, part, self._read_columns, self.edits))
        columns = [name for name in rows.column_names if name in (*self.columns, OWN, NAMED, CODE)]
        return rows.select([*columns, ROW])

    @property
    def _read_columns(self) -> tuple[str, ...]:
        more = [name for name in ("owner", "reported_by") if name not in self.columns]
        return (*self.columns, *more)


def each_part(
    spark: SparkSession, parts: Sequence[Part], reader: Reader, kernel: Kernel, schema: pa.Schema
) -> DataFrame:
    """Return a kernel's result for each part, one task each."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from kernel(reader.read(parts[number])).select(schema.names).to_batches()

    parts_read = spark.range(0, len(parts), 1, max(len(parts), 1))
    return parts_read.mapInArrow(run, from_arrow_schema(schema))


@dataclass(frozen=True, eq=False)
class Cut:
    """Cuts a part into pieces by group.

    Attributes:
        prepared: Keeps what the group's kernel needs; its rows keep their order.
        group_of: Group of each row of that, from 0.
    """

    prepared: Kernel
    group_of: Callable[[pa.Table], Ints]

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return :data:`PIECES`; ``part`` is the first row, by which pieces are put together."""
        if not part.num_rows:
            return PIECES.empty_table()
        first = int(part[ROW][0].as_py())
        rows = self.prepared(part)
        if not rows.num_rows:  # of a fresh cluster no report names any bundle
            return PIECES.empty_table()
        groups = np.asarray(self.group_of(rows))
        order = np.argsort(groups, kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        found, starts = np.unique(groups[order], return_index=True)
        ends = np.append(starts[1:], groups.size)
        pieces = [
            packed(rows.slice(start, end - start))
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        columns = {"group": found.astype(np.int32), "part": np.full(found.size, first)}
        return pa.table({**columns, "rows": pa.array(pieces, pa.binary())}, schema=PIECES)


def each_group(pieces: DataFrame, kernel: Kernel, schema: pa.Schema) -> DataFrame:
    """Return a kernel's result for all rows of each group, in file order."""
    return lift(pieces, ["group"], JoinedKernel(kernel), schema)


@dataclass(frozen=True, eq=False)
class JoinedKernel:
    """A kernel on the rows that pieces hold."""

    kernel: Kernel = field()

    def __call__(self, pieces: pa.Table) -> pa.Table:
        """Put the pieces together and run the kernel."""
        return self.kernel(joined(pieces))


def joined(pieces: pa.Table) -> pa.Table:
    """Return the rows of pieces, in the order of the file."""
    in_order = pieces.sort_by("part")["rows"]
    return pa.concat_tables([unpacked(rows.as_buffer()) for rows in in_order]).combine_chunks()


def packed(rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpacked(rows: pa.Buffer) -> pa.Table:
    """Return the rows of an Arrow stream."""
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()
