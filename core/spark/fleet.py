"""One question to many clusters: one group of rows is one cluster, here or on Spark.

The same function answers in a process and on Spark, where it runs in a task that reads the snapshot
itself, so nothing but the answers goes through the driver. A cluster that cannot be answered for
becomes a row of the table ``problems``; it does not cost the others their answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from core.errors import InputError, OpsError
from core.progress import Progress
from core.request import Request
from core.schemas import conform
from core.snapshot.store import load_manifest
from core.system import Snapshot
from core.systems import record_of
from core.units import pluralize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.history.store.store import HistoryLocation

R = TypeVar("R", bound=Request)
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


@dataclass(frozen=True)
class InDirectory:
    """A snapshot directory that every executor can read."""

    path: str

    def load(self) -> Snapshot:
        """Read it."""
        directory = Path(self.path)
        _, manifest = load_manifest(directory)
        snapshot: Snapshot = record_of(manifest.kind).load(directory)
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


@dataclass(frozen=True)
class Operation(Generic[R]):
    """A computation on one cluster, for a request.

    Attributes:
        compute: Returns the rows of one cluster; a function of a module, for it is pickled.
        tables: Schemas of the answer's tables, without the column ``cluster``.
    """

    compute: Callable[[Any, R], Mapping[str, pa.Table]]
    tables: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class FleetRequest(Generic[R]):
    """One request to many clusters; pickled once a task."""

    operation: Operation[R]
    request: R

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Schemas of the answer."""
        return self.operation.tables

    def answer(self, snapshot: Snapshot) -> Mapping[str, pa.Table]:
        """Return the rows of one cluster."""
        return self.operation.compute(snapshot, self.request)


def require_system(snapshot: Snapshot, system: str, what: str) -> None:
    """Refuse a cluster of another system.

    Args:
        snapshot: Of any cluster.
        system: The only one whose clusters answer.
        what: What only they do.
    Raises:
        InputError: It is of another system.
    """
    if snapshot.manifest.kind != system:
        raise InputError(
            f"{snapshot.manifest.cluster} is a {snapshot.manifest.kind.capitalize()} cluster: "
            f"it does not {what}.",
            hint=f"Specify only {system.capitalize()} clusters.",
        )


Parts = list[tuple[str, Mapping[str, pa.Table]]]
"""Tables by cluster."""

Answers = Mapping[str, pa.Table]
"""Tables by name, ``cluster`` first, sorted by it; rows of one cluster keep their order."""


def answer_here(
    sources: Mapping[str, Source], request: FleetRequest[Any], progress: Progress
) -> Answers:
    """Answer for one cluster after the other in this process.

    Args:
        sources: By cluster name.
        request: The request.
        progress: Called after each.
    Raises:
        JobStoppedError: A person stopped it.
    """
    parts: Parts = []
    for done, (name, source) in enumerate(sorted(sources.items())):
        progress.step(done, len(sources), name)
        parts.append((name, _one(source, request)))
    progress.step(len(sources), len(sources), "done")
    return gathered(request.tables, parts)


def answer_on_spark(
    spark: SparkSession,
    sources: Mapping[str, Source],
    request: FleetRequest[Any],
    progress: Progress,
) -> Answers:
    """Answer for all clusters on Spark, one task a cluster.

    Args:
        spark: Session; its executors must be able to read the sources.
        sources: By cluster name.
        request: The request.
        progress: Receives the tasks done.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    found = each_on_spark(spark, sources, lambda name: _one(sources[name], request), progress)
    return gathered(request.tables, found)


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


def _one(source: Source, request: FleetRequest[Any]) -> Mapping[str, pa.Table]:
    try:
        return request.answer(source.load())
    except OpsError as exc:
        return problem_of(exc)


def problem_of(error: OpsError) -> Mapping[str, pa.Table]:
    """Return the row of a cluster without an answer."""
    return {PROBLEMS: problems_of([error])}


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
