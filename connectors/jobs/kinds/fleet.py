"""Jobs on the present, or on one past minute, of clusters of every system."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, field_validator, model_validator

from connectors.config.credentials import Strict
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from connectors.jobs.record import ANSWER_FILE
from core.errors import IncompleteSnapshotError, InputError, OpsError, UnknownNameError
from core.files import whole_file
from core.operations import diagnose, drill, health
from core.operations.operation import Answer, Operation
from core.operations.sent import KeptAnswer, packed, sent_answer
from core.request import Request
from core.snapshot.store import Selection, SnapshotStore, load_manifest
from core.spark.engine import Engine, tables_of
from core.spark.fleet import PROBLEMS, InDirectory, InHistory, Source
from core.units import listed, pluralize

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
        snapshot: Id of a saved snapshot of the only cluster, instead of the newest; the job then
            keeps the whole answer, too. ``None``: not of a certain snapshot.
    """

    workers: int = Field(default=0, ge=0, le=1_024)
    snapshot: str | None = None

    @model_validator(mode="after")
    def _is_of_one(self) -> PoolScope:
        if self.snapshot is not None and (self.at is not None or len(self.clusters or ()) != 1):
            raise ValueError("a snapshot needs exactly one cluster and no time")
        return self


def sources_of(
    context: JobContext,
    scope: FleetScope,
    kind: str | None,
    earlier: Mapping[str, Selection] | None = None,
    snapshot: str | None = None,
) -> Mapping[str, Source]:
    """Return the snapshot locations of the clusters.

    Args:
        context: Configuration and history.
        scope: Which clusters, and when.
        kind: Of which system; ``None`` for any.
        earlier: By system of which saved snapshots before the newest are needed, too: which.
        snapshot: Id of a saved snapshot, instead of the newest; ``None``: the newest.
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
        else _present(context, {name: (earlier or {}).get(known[name]) for name in names}, snapshot)
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
    context: JobContext, earlier: Mapping[str, Selection | None], snapshot: str | None
) -> dict[str, Source]:
    snapshot_store = SnapshotStore(context.config.state_dir / _SNAPSHOTS)
    chosen = {
        name: snapshot_store.latest(name, datetime.now(UTC))
        if snapshot is None
        else next((s for s in snapshot_store.entries(name) if s.snapshot_id == snapshot), None)
        for name in earlier
    }
    return {
        name: InDirectory(
            str(entry.path.absolute()),
            tuple(
                str(one.path.absolute())
                for one in snapshot_store.earlier(name, entry.taken_at, which)
            )
            if (which := earlier[name])
            else (),
        )
        for name, entry in chosen.items()
        if entry is not None
    }


def write(context: JobContext, tables: Mapping[str, pa.Table]) -> None:
    """Write the result tables; that of problems only where there are some."""
    for name, table in tables.items():
        if table.num_rows or name != PROBLEMS:
            with whole_file(context.out / f"{name}.parquet") as out:
                pq.write_table(table, out, compression="zstd")


def _saved(source: Source) -> InDirectory:
    """Return the directory of a saved snapshot; a job on one reads no other source."""
    if not isinstance(source, InDirectory):
        raise TypeError(f"{source} is no saved snapshot")
    return source


def _keep_answer(
    context: JobContext, source: InDirectory, answer: Answer | OpsError, request: Request
) -> None:
    """Write the whole answer of the only cluster.

    Raises:
        OpsError: It has none; that is the error of the job.
    """
    if isinstance(answer, OpsError):
        raise answer
    now = datetime.now(UTC)
    taken_at = load_manifest(Path(source.path))[1].taken_at
    with whole_file(context.out / ANSWER_FILE) as out:
        sent = sent_answer(answer, request, taken_at, now)
        out.write(packed(KeptAnswer(taken_at=taken_at, answer=sent)))


MAX_REASONS: Final = 3
"""Clusters of which a sentence has the reason; the others are named."""


def unanswered(problems: pa.Table) -> str:
    """Return the clusters without a result: the reasons of the first, the names of the others."""
    if not problems.num_rows:
        return ""
    reasons = dict(
        zip(problems["cluster"].to_pylist(), problems["sentence"].to_pylist(), strict=True)
    )
    where = "The table Problems has all reasons."
    return f" {pluralize(len(reasons), 'cluster')} without a result; {failed(reasons, where)}"


def failed(reasons: Mapping[str, str], where: str) -> str:
    """Return the clusters that failed: the reasons of the first, the names of the others.

    Args:
        reasons: By cluster.
        where: Sentence on the place of the reasons that are not in it.
    """
    text = " ".join(f"{name}: {why}" for name, why in list(reasons.items())[:MAX_REASONS])
    rest = list(reasons)[MAX_REASONS:]
    return f"{text} Also failed: {listed(rest, 2 * MAX_REASONS)}. {where}" if rest else text


def kind_of(operation: Operation[Any, Any]) -> JobKind:
    """Return an operation as a kind of job."""
    job = operation.job
    if job is None:
        raise TypeError(f"{operation.name} is no job")
    system = None if len(operation.answers) > 1 else next(iter(operation.answers))

    def run(context: JobContext, asked: ScopedRequest) -> JobAnswer:
        scope = asked.scope
        sources = sources_of(context, scope, system, operation.reads_earlier, scope.snapshot)
        spark = context.spark() if scope.engine == "spark" else None
        engine = Engine(spark, scope.workers)
        answers = engine.map(operation, sources, asked.request, context.progress)
        if scope.snapshot is not None:
            (cluster,) = scope.clusters
            _keep_answer(context, _saved(sources[cluster]), answers[cluster], asked.request)
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
