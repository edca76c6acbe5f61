"""Many clusters: where their snapshots are, one task each on Spark, and their tables put together.

A task reads the snapshot itself, so only answers go through the driver. A cluster without
an answer becomes a row of the table ``problems``; it does not cost the others their answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from core.errors import OpsError
from core.progress import Progress
from core.schemas import conform
from core.snapshot.store import load_manifest
from core.system import Snapshot
from core.systems import record_of
from core.units import pluralize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store.store import HistoryLocation

PROBLEMS: Final = "problems"
CLUSTER: Final = "cluster"
_MAX_GROUPS: Final = 400

_PROBLEM: Final = pa.schema(
    [
        pa.field("code", pa.string(), nullable=False),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("hint", pa.string(), nullable=False),
    ]
)
_CARRIED: Final = pa.schema(
    [pa.field(CLUSTER, pa.string()), pa.field("table", pa.string()), pa.field("rows", pa.binary())]
)
"""What comes back from a task: one row a table, its rows as an Arrow stream."""


class Source(Protocol):
    """Location of one cluster's snapshot; small, because it is sent to its task."""

    def load(self) -> Snapshot:
        """Read it.

        Raises:
            SnapshotError: It is not there or damaged.
        """
        ...

    def load_earlier(self) -> Sequence[Snapshot]:
        """Read the snapshots before it, oldest first.

        Raises:
            SnapshotError: One is not there or damaged.
        """
        ...


@dataclass(frozen=True)
class InDirectory:
    """A snapshot directory that every executor can read.

    Attributes:
        path: The directory.
        earlier: Directories of the snapshots before it, oldest first.
    """

    path: str
    earlier: tuple[str, ...] = ()

    def load(self) -> Snapshot:
        """Read it."""
        return _load(self.path)

    def load_earlier(self) -> Sequence[Snapshot]:
        """Read the snapshots before it."""
        return [_load(one) for one in self.earlier]


def _load(path: str) -> Snapshot:
    directory = Path(path)
    snapshot: Snapshot = record_of(load_manifest(directory)[1].kind).load(directory)
    return snapshot


@dataclass(frozen=True)
class InHistory:
    """The newest recorded minute at or before a moment."""

    location: HistoryLocation
    cluster: str
    moment: datetime

    def load(self) -> Snapshot:
        """Read it."""
        from core.history.store.store import HistoryStore  # noqa: PLC0415  # a second, only here

        found: Snapshot = HistoryStore(self.location).snapshot_at(self.cluster, self.moment)
        return found

    def load_earlier(self) -> Sequence[Snapshot]:
        """Return none: what lasts is in the history itself."""
        return ()


Parts = list[tuple[str, Mapping[str, pa.Table]]]
"""Tables by cluster."""

Answers = Mapping[str, pa.Table]
"""Tables by name, ``cluster`` first, sorted by it; rows of one cluster keep their order."""


def each_on_spark(
    spark: SparkSession,
    names: Iterable[str],
    answer: Callable[[str], Mapping[str, pa.Table]],
    progress: Progress,
    words: str = "",
) -> Parts:
    """Return a function's result per name, one task each; sorted by name.

    Args:
        spark: Session.
        names: Each once.
        answer: Runs on the executors, with whatever it closes over.
        progress: Receives the tasks done.
        words: What is being done; by default the number of clusters.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed, or ``answer`` did.
    """
    from core.spark.lift import lift  # noqa: PLC0415  # answers in this process need no PySpark
    from core.spark.progress import followed  # noqa: PLC0415  # the same

    def kernel(group: pa.Table) -> pa.Table:
        name = group[CLUSTER][0].as_py()
        rows = [
            {CLUSTER: name, "table": key, "rows": _packed(one)} for key, one in answer(name).items()
        ]
        return pa.Table.from_pylist(rows, schema=_CARRIED)

    clusters = pa.table({CLUSTER: pa.array(sorted(names), pa.string())})
    count = min(max(clusters.num_rows, 1), _MAX_GROUPS)
    rows = spark.createDataFrame(clusters).repartition(count, CLUSTER)
    described = words or f"reading {pluralize(clusters.num_rows, 'cluster')}"
    with followed(spark, progress, described):
        found = lift(rows, [CLUSTER], kernel, _CARRIED).toArrow()
    by_name: dict[str, dict[str, pa.Table]] = {}
    for row in found.to_pylist():
        by_name.setdefault(row[CLUSTER], {})[row["table"]] = _unpacked(row["rows"])
    return sorted(by_name.items())


def problems_of(errors: Iterable[OpsError]) -> pa.Table:
    """Return rows of the table ``problems``."""
    rows = [{"code": one.code, "sentence": one.message, "hint": one.hint or ""} for one in errors]
    return pa.Table.from_pylist(rows, schema=_PROBLEM)


def gathered(schemas: Mapping[str, pa.Schema], parts: Parts) -> Answers:
    """Return the tables of all clusters together, with the table ``problems``.

    Args:
        schemas: By name of the table, without the column ``cluster``.
        parts: Tables by cluster.
    """
    whole = {**schemas, PROBLEMS: _PROBLEM}
    return {key: _table(key, schema, parts) for key, schema in whole.items()}


def _table(key: str, schema: pa.Schema, parts: Parts) -> pa.Table:
    whole = pa.schema([pa.field(CLUSTER, pa.string(), nullable=False), *schema])

    def marked() -> Iterator[pa.Table]:
        for name, tables in parts:
            rows = tables.get(key)
            if rows is not None:
                column = pa.array([name] * rows.num_rows, pa.string())
                yield conform(rows.add_column(0, CLUSTER, column), whole, name=key)

    return pa.concat_tables([whole.empty_table(), *marked()])


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(packed: bytes) -> pa.Table:
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_all()
