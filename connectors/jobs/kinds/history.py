"""Jobs on what was recorded: trends and flaps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import pyarrow.compute as pc
from pydantic import field_validator, model_validator

from connectors.config.credentials import Strict
from connectors.jobs.kinds.fleet import write
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.job import trends_here

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore


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
        facts={"period": request.period, "rows": found.trends.num_rows},
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
        title="Flaps and moves that did not help",
        answers="Which bundles flapped, how often, and which moves had no effect?",
        scope=RecordJob,
        request=FlapsRequest,
        run=_flaps,
    ),
)
