"""Jobs on the present, or on one past minute, of clusters of every system."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator

from connectors.config.credentials import Strict
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.errors import IncompleteSnapshotError, InputError, OpsError, UnknownNameError
from core.files import whole_file
from core.operations import diagnose, drill, health
from core.operations.operation import Answer, Operation
from core.snapshot.store import SnapshotStore
from core.spark.engine import Engine, tables_of
from core.spark.fleet import PROBLEMS, InDirectory, InHistory, Source
from core.units import pluralize

_SNAPSHOTS: Final = "snapshots"
_PROBLEM_TABLE: Final = "Clusters without a result, with the reason."


class FleetScope(Strict):
    """Clusters, time and engine of a job.

    Attributes:
        clusters: Names; ``None`` for every configured cluster of the right kind.
        at: A past minute of the history; ``None`` for the newest snapshots.
        engine: ``local``: one cluster after the other; ``spark``: all at once, and a very large
            one spread over tasks.
    """

    clusters: list[str] | None = None
    at: datetime | None = None
    engine: Literal["local", "spark"] = "local"

    @field_validator("at")
    @classmethod
    def _has_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.utcoffset() != timedelta(0):
            raise ValueError("use a time in UTC, for example 2026-11-21T12:00:00Z")
        return value


class PoolScope(FleetScope):
    """Clusters and number of processes of a job.

    Attributes:
        workers: Processes that share the work on this machine; 0: one a core. Spark has its own.
    """

    workers: int = Field(default=0, ge=0, le=1_024)


def sources_of(
    context: JobContext, scope: FleetScope, kind: str | None, earlier: Collection[str] = ()
) -> Mapping[str, Source]:
    """Return the snapshot locations of the clusters.

    Args:
        context: Configuration and history.
        scope: Which clusters, and when.
        kind: Of which system; ``None`` for any.
        earlier: Systems of which the saved snapshots before the newest are needed, too.
    Raises:
        UnknownNameError: A cluster that is not configured.
        IncompleteSnapshotError: None of them has a snapshot.
    """
    known = {one.name: one.kind for one in context.config.clusters}
    for name in scope.clusters or ():
        if name not in known:
            raise UnknownNameError.of("cluster", name, known, place="the configuration")
    fitting = [name for name, its in known.items() if kind in (None, its)]
    names = fitting if scope.clusters is None else scope.clusters
    if names and not set(names) & set(fitting):
        what, its = ", ".join(names), known[names[0]].capitalize()
        raise InputError(
            f"This job is for {str(kind).capitalize()} clusters, but {what} is a cluster of {its}.",
            hint=f"Choose one of: {', '.join(fitting) or 'none is configured'}.",
        )
    found = (
        _past(context, names, scope.at)
        if scope.at
        else _present(context, names, [name for name in names if known[name] in earlier])
    )
    if not found:
        what = f"{kind.capitalize()} cluster" if kind else "cluster"
        raise IncompleteSnapshotError(
            f"None of the requested {what}s has a snapshot{' at that time' if scope.at else ''}.",
            hint="Run `trimtab collect` for a minute, or choose another time.",
        )
    return found


def _past(context: JobContext, names: list[str], moment: datetime) -> dict[str, Source]:
    location = context.history().location
    return {name: InHistory(location, name, moment) for name in names}


def _present(
    context: JobContext, names: list[str], with_earlier: Collection[str]
) -> dict[str, Source]:
    snapshot_store = SnapshotStore(context.config.state_dir / _SNAPSHOTS)
    newest = {name: snapshot_store.latest(name, datetime.now(UTC)) for name in names}
    return {
        name: InDirectory(
            str(entry.path.absolute()),
            tuple(str(one.path.absolute()) for one in snapshot_store.before(name, entry.taken_at))
            if name in with_earlier
            else (),
        )
        for name, entry in newest.items()
        if entry is not None
    }


def write(context: JobContext, tables: Mapping[str, pa.Table]) -> None:
    """Write the result tables; that of problems only where there are some."""
    for name, table in tables.items():
        if table.num_rows or name != PROBLEMS:
            with whole_file(context.out / f"{name}.parquet") as out:
                pq.write_table(table, out, compression="zstd")


def unanswered(problems: pa.Table) -> str:
    """Return the number of clusters without a result and the reason, with the first name."""
    if not problems.num_rows:
        return ""
    first = problems.slice(0, 1).to_pylist()[0]
    return (
        f" {pluralize(problems.num_rows, 'cluster')} without a result; {first['cluster']}: "
        f"{first['sentence']}"
    )


def kind_of(operation: Operation[Any, Any]) -> JobKind:
    """Return an operation as a kind of job."""
    job = operation.job
    if job is None:
        raise TypeError(f"{operation.name} is no job")
    system = None if len(operation.answers) > 1 else next(iter(operation.answers))

    def run(context: JobContext, asked: ScopedRequest) -> JobAnswer:
        sources = sources_of(context, asked.scope, system, operation.reads_earlier)
        spark = context.spark() if asked.scope.engine == "spark" else None
        engine = Engine(spark, asked.scope.workers)
        answers = engine.map(operation, sources, asked.request, context.progress)
        found = tables_of(operation, answers)
        summary = job.summary(found)
        write(context, {**found, **summary.tables})
        sentence, tables = summary.sentence, dict(job.tables)
        failed = {name: one for name, one in answers.items() if isinstance(one, OpsError)}
        sentence += unanswered(tables_of(operation, failed)[PROBLEMS])
        parts = [why for one in answers.values() if isinstance(one, Answer) for why in one.problems]
        if failed:
            tables[PROBLEMS] = _PROBLEM_TABLE
        if parts:
            tables[PROBLEMS] = f"Clusters and {job.part}s without a result, with the reason."
            sentence += f" {pluralize(len(parts), job.part)} excluded: {parts[0].message}"
        return JobAnswer(sentence=sentence, tables=tables, facts=summary.figures)

    return JobKind(
        name=operation.job_kind,
        title=job.title,
        answers=job.question,
        scope=PoolScope,
        request=operation.request,
        run=run,
        system=system,
    )


KINDS: Final = (
    kind_of(health.OPERATION),
    kind_of(diagnose.OPERATION),
    kind_of(drill.OPERATION),
)
