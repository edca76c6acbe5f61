"""Jobs on what was recorded: trends and flaps."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator, model_validator

from connectors.config.credentials import Strict
from connectors.jobs.kinds.fleet import failed, write
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.job import chosen_clusters, trends_here
from core.history.store.layout import HistoryError
from core.history.store.reading import between
from core.history.tiers import pipeline
from core.history.tiers.local import IN_PROCESS
from core.units import datetime_to_ms, pluralize

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore
    from core.history.tiers.local import TierEngine


_log = logging.getLogger("trimtab.jobs")


class RecordJob(Strict):
    """Scope of the jobs on the recorded history.

    Attributes:
        clusters: Names; ``None`` for all that were recorded.
        start: Not before it, UTC; ``None`` for the beginning.
        end: Not after it, UTC; ``None`` for the end.
        engine: ``local``: a day after the other; ``spark``: days side by side.
    """

    clusters: list[str] | None = None
    start: datetime | None = None
    end: datetime | None = None
    engine: Literal["local", "spark"] = "local"

    @field_validator("start", "end")
    @classmethod
    def _has_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.utcoffset() != timedelta(0):
            raise ValueError("use a time in UTC, for example 2026-11-21T12:00:00Z")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> RecordJob:
        if self.start and self.end and self.start > self.end:
            raise ValueError("the end is before the start")
        return self

    def scope(self, minute_s: float) -> RecordScope:
        """Return the part of the history to read."""
        clusters = tuple(self.clusters or ())
        return RecordScope(clusters=clusters, start=self.start, end=self.end, minute_s=minute_s)


def _trends(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: TrendsRequest = job.request
    scope = job.scope.scope(context.config.history.minute_s)
    store: HistoryStore = context.history()
    if job.scope.engine == "spark":
        from core.spark.jobs.trends import trends_on_spark  # noqa: PLC0415  # seconds, only here

        found = trends_on_spark(context.spark(), store, request, scope, context.progress)
    else:
        found = trends_here(store, request, scope, context.progress)
    write(context, found.tables())
    return JobAnswer(
        sentence=found.sentence,
        tables={
            "trends": f"Mean, maximum and 95th percentile of every measure, by {request.period}.",
            "gaps": "The busiest and the idlest broker or node of each period, with their "
            "deviation.",
            "movers": "The largest load changes from the first half of the period to the second.",
            "hot": "Bundles and tables with the most load, and their share of the cluster.",
            "namespaces": "Topics and throughput per bundle, by namespace.",
        },
        facts={
            "period": request.period,
            "source": found.source,
            "rows": found.trends.num_rows,
        },
    )


def _flaps(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: FlapsRequest = job.request
    scope = job.scope.scope(context.config.history.minute_s)
    store: HistoryStore = context.history()
    if job.scope.engine == "spark":
        from core.spark.jobs.flaps import flaps_on_spark  # noqa: PLC0415  # seconds, only here

        found = flaps_on_spark(context.spark(), store, request, scope, context.progress)
    else:
        found = flaps_here(store, request, scope, context.progress)
    write(context, found.tables())
    return JobAnswer(
        sentence=found.sentence,
        tables={
            "flaps": "Every bundle that returned to a previous broker, and its time away.",
            "movers": "Moves and flaps by bundle and day, most first.",
            "rounds": "Deviation before and after the moves of each minute.",
        },
        facts={
            "moves": pc.sum(found.movers["moves"]).as_py() or 0,
            "flaps": found.flaps.num_rows,
        },
    )


class PipelineJob(RecordJob):
    """Scope of the job that rolls up.

    Attributes:
        is_repeated: Roll up all hours of the time again, due or not.
        engine: ``auto``: Spark for many minutes if a Spark cluster is configured.
    """

    engine: Literal["auto", "local", "spark"] = "auto"  # type: ignore[assignment]  # one more
    is_repeated: bool = False


def _pipeline(context: JobContext, job: PipelineJob) -> JobAnswer:
    store: HistoryStore = context.history()
    now_ms = datetime_to_ms(datetime.now(UTC))
    only = between(job.start, job.end) if job.is_repeated else None
    engine = context.config.pipeline.engine if job.engine == "auto" else job.engine
    rows = []
    failures: dict[str, str] = {}
    for name in chosen_clusters(store, job.clusters or ()):
        master = context.config.spark.master
        computed: TierEngine = IN_PROCESS
        if pipeline.is_for_spark(store, name, now_ms, only, engine, master):
            from core.spark.jobs.tiers import SparkTiers  # noqa: PLC0415  # seconds, only here

            computed = SparkTiers(context.spark())
        try:
            done = pipeline.roll_up(
                store, name, now_ms, only=only, engine=computed, progress=context.progress
            )
        except HistoryError as exc:  # a damaged cluster must not stop those after it
            _log.warning("history of %s is not rolled up: %s", name, exc)
            failures[name] = str(exc)
            continue
        rows.append({"cluster": name, "hours": done.hours, "days": done.days, "rows": done.rows})
    if failures:
        reasons = failed(failures, "The log of the job server has all reasons.")
        done_words = f"{pluralize(len(rows), 'other cluster')} rolled up." if rows else ""
        raise HistoryError(
            f"{pluralize(len(failures), 'cluster')} not rolled up; {reasons}", hint=done_words
        )
    table = pa.Table.from_pylist(rows, schema=ROLLED_UP)
    write(context, {"clusters": table})
    hours, days = (pc.sum(table[name]).as_py() or 0 for name in ("hours", "days"))
    return JobAnswer(
        sentence=f"Rolled up: hours {hours:,}, days {days:,}.",
        tables={"clusters": "Hours, days and rows that were written, by cluster."},
        facts={"hours": hours, "days": days},
    )


ROLLED_UP: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("hours", "days", "rows")),
    ]
)
"""Result of the job that rolls up, one row a cluster."""


KINDS: Final = (
    JobKind(
        name="trends",
        title="Trends",
        answers="How did the load of brokers, bundles, nodes and tables change?",
        scope=RecordJob,
        request=TrendsRequest,
        run=_trends,
    ),
    JobKind(
        name="flaps",
        title="Flapping and moves without effect",
        answers="Which bundles flapped, how often, and which moves had no effect?",
        scope=RecordJob,
        request=FlapsRequest,
        run=_flaps,
    ),
    JobKind(
        name="pipeline",
        title="History roll-up",
        answers="Which recorded minutes were not in hours and days yet, and are rolled up now?",
        scope=PipelineJob,
        run=_pipeline,
    ),
)
