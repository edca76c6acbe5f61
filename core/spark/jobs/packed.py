"""Several small tables as the answer of one task: each is one binary cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from core.progress import Progress
from core.spark.lift import Kernel, lift
from core.spark.progress import followed
from core.spark.tables import arrow_rows

PACKED: Final = pa.schema(
    [pa.field("task", pa.int64()), pa.field("name", pa.string()), pa.field("table", pa.binary())]
)
"""``table``: an Arrow stream."""

Tables = Mapping[str, pa.Table]
_T = TypeVar("_T")

MAX_GROUPS: Final = 64
"""Tasks for the failures of a drill at most: each lays out the snapshot once."""


def pack(task: int, tables: Tables) -> pa.Table:
    """Return the tables of a task as rows of :data:`PACKED`."""
    return pa.table(
        {
            "task": [task] * len(tables),
            "name": list(tables),
            "table": [_stream(table) for table in tables.values()],
        },
        schema=PACKED,
    )


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(rows: pa.Table) -> list[dict[str, pa.Table]]:
    """Return the tables of each task, by the tasks' numbers."""
    found: dict[int, dict[str, pa.Table]] = {}
    for row in rows.sort_by("task").to_pylist():
        with pa.ipc.open_stream(row["table"]) as reader:
            found.setdefault(row["task"], {})[row["name"]] = reader.read_all()
    return list(found.values())


def each(
    spark: SparkSession, parts: Sequence[object], kernel: Kernel, progress: Progress, words: str
) -> list[dict[str, pa.Table]]:
    """Run a kernel on the number of each part, a task each.

    Args:
        spark: Session.
        parts: Only their number counts; the kernel knows them.
        kernel: Takes one row ``task``, gives rows of :data:`PACKED`.
        progress: Receives the tasks done.
        words: What is being done.
    Returns:
        The tables of each part, in order.
    Raises:
        ComputeError: A task failed.
        JobStoppedError: A stop was requested.
    """
    numbers = pa.table({"task": pa.array(range(len(parts)), pa.int64())})
    with followed(spark, progress, words):
        tasks = arrow_rows(spark, numbers).repartition(max(len(parts), 1), "task")
        return unpack(lift(tasks, ["task"], kernel, PACKED).toArrow())


def dealt(items: Sequence[_T], maximum: int) -> list[list[_T]]:
    """Deal items out in turn, so that groups are of about equal work."""
    count = max(min(len(items), maximum), 1)
    return [list(items[at::count]) for at in range(count)]
