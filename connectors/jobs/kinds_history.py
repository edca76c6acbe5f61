"""Jobs on what was recorded, and on what may come: trends, flaps, what-ifs, topics, drills."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, field_validator, model_validator

from connectors.config.credentials import Strict
from connectors.jobs.kinds_fleet import FleetScope, sources_of, unanswered
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.history.analysis.flaps.job import flaps_here
from core.history.analysis.requests import FlapsRequest, RecordScope, TrendsRequest
from core.history.analysis.trends.job import trends_here
from core.planning.drill.pegasus import refuses
from core.planning.drill.request import DrillRequest
from core.planning.drill.tables import hurts
from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.planning.what_if.compare import totals_of, what_if_sentence
from core.planning.what_if.request import WhatIfRequest
from core.snapshot import PulsarSnapshot
from core.spark.fleet import PROBLEMS, Answers, FleetRequest
from core.spark.pool import answer_in_pool
from core.spark.pulsar.jobs.what_if import WHAT_IF
from core.spark.systems import DRILL
from core.units import format_ratio, pluralize

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

_PROBLEM_TABLE: Final = "Clusters that could not be answered for, and why."


class RecordJob(Strict):
    """Scope of the jobs on the recorded history.

    Attributes:
        clusters: Names; ``None``: all that were recorded.
        start: Not before it, UTC; ``None``: from the beginning.
        end: Not after it, UTC; ``None``: to the end.
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
            raise ValueError("name the time in UTC, as in 2026-11-21T12:00:00Z")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> RecordJob:
        if self.start and self.end and self.start > self.end:
            raise ValueError("the end comes before the start")
        return self

    def scope(self, minute_s: float) -> RecordScope:
        """Return which part of the history is read."""
        clusters = tuple(self.clusters or ())
        return RecordScope(clusters=clusters, start=self.start, end=self.end, minute_s=minute_s)


class PoolScope(FleetScope):
    """Which clusters, and by how many processes.

    Attributes:
        workers: Processes that share the work on this machine; 0: one a core. Spark has its own.
    """

    workers: int = Field(default=0, ge=0, le=1_024)


class TopicsScope(FleetScope):
    """Where the topics of a file land; the file must be where the job runs.

    Attributes:
        file: Whole path on the machine of the job server: .parquet, .csv, or one JSON a line in
            .jsonl. It has a column topic, and where known msg_rate_in, msg_rate_out (messages/s),
            msg_throughput_in and msg_throughput_out (bytes/s).
    """

    file: Path

    @field_validator("file")
    @classmethod
    def _is_whole(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError("name the file by its whole path")
        return value


def _write(context: JobContext, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        if table.num_rows or name != PROBLEMS:
            pq.write_table(table, context.out / f"{name}.parquet", compression="zstd")


def _trends(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: TrendsRequest = job.request
    scope = job.scope.scope(context.config.history.minute_s)
    store: HistoryStore = context.history()
    if job.scope.engine == "spark":
        from core.spark.jobs.trends import trends_on_spark  # noqa: PLC0415  # seconds, only here

        found = trends_on_spark(context.spark(), store, request, scope, context.progress)
    else:
        found = trends_here(store, request, scope, context.progress)
    _write(context, found.tables())
    return JobAnswer(
        sentence=found.sentence,
        tables={
            "trends": f"Mean, maximum and 95th percentile of every measure, by {request.period}.",
            "gaps": "The busiest and the idlest broker or node of each period, and how far off.",
            "movers": "Whose load changed most from the first half of the time to the second.",
            "hot": "Bundles and tables that carry most, and their share of the cluster.",
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
    _write(context, found.tables())
    return JobAnswer(
        sentence=found.sentence,
        tables={
            "flaps": "Every bundle that came back to a broker that it had left, and its time away.",
            "movers": "Moves and flaps of each bundle and day, most first.",
            "rounds": "Deviation before and after the moves of each minute: whether they helped.",
        },
        facts={
            "moves": pc.sum(found.movers["moves"]).as_py() or 0,
            "flaps": found.flaps.num_rows,
        },
    )


def _answers_of(
    context: JobContext, scope: FleetScope, request: FleetRequest[Any], kind: str | None
) -> Answers:
    sources = sources_of(context, scope, kind)
    if scope.engine == "spark":
        from core.spark.large import answer_fleet  # noqa: PLC0415  # no pyspark before it

        return answer_fleet(context.spark(), sources, request, context.progress)
    workers = scope.workers if isinstance(scope, PoolScope) else 0
    return answer_in_pool(sources, request, context.progress, workers)


def _failed(found: Answers, tables: dict[str, str]) -> str:
    """Return a word on clusters that could not be answered for, and name their table."""
    failed = found[PROBLEMS].num_rows
    if not failed:
        return ""
    tables[PROBLEMS] = _PROBLEM_TABLE
    return unanswered(found[PROBLEMS])


def skipped(found: Answers, tables: dict[str, str]) -> str:
    """Return the same of drills, whose clusters may be answered for but for some failures."""
    problems = found[PROBLEMS]
    is_part = pc.is_in(problems["cluster"], pc.unique(found["failures"]["cluster"]))
    words = _failed({**found, PROBLEMS: problems.filter(pc.invert(is_part))}, tables)
    parts = problems.filter(is_part)
    if parts.num_rows:
        tables[PROBLEMS] = "Clusters and failures that could not be answered for, and why."
        words += f" {pluralize(parts.num_rows, 'failure')} left out: {parts['sentence'][0]}"
    return words


def _what_if(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: WhatIfRequest = job.request
    found = dict(_answers_of(context, job.scope, FleetRequest(WHAT_IF, request), "pulsar"))
    totals = totals_of(found["pairs"])
    _write(context, {**found, "totals": totals})
    tables = {
        "pairs": "Every pair of strategies in each cluster, best first.",
        "totals": "The same pairs summed over the clusters.",
    }
    problem = _failed(found, tables)
    return JobAnswer(
        sentence=what_if_sentence(found["pairs"], totals) + problem,
        tables=tables,
        facts={"pairs": found["pairs"].num_rows, "target": request.target},
    )


def _drill(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: DrillRequest = job.request
    found = _answers_of(context, job.scope, FleetRequest(DRILL, request), None)
    _write(context, found)
    tables = {
        "failures": "Each broker or failure domain of Pulsar clusters lost, worst first.",
        "hot": f"Brokers over {format_ratio(request.hot_threshold)} after a failure.",
        "groups": "What is left of isolation groups that a failure touches.",
        "nodes": "Each node of Pegasus clusters lost, worst first.",
    }
    problem = skipped(found, tables)
    failures, nodes = found["failures"], found["nodes"]
    hurt = pc.sum(pc.cast(hurts(failures), pa.int64())).as_py() or 0
    lost = pc.sum(pc.cast(refuses(nodes), pa.int64())).as_py() or 0
    count = failures.num_rows + nodes.num_rows
    return JobAnswer(
        sentence=f"{pluralize(count, 'failure')} played: {hurt:,} make brokers hot or leave "
        f"bundles or isolation groups without a broker, {lost:,} leave Pegasus partitions that "
        f"refuse reads or writes.{problem}",
        tables=tables,
        facts={"failures": count, "hurt": hurt + lost},
    )


def _topics(context: JobContext, scope: TopicsScope) -> JobAnswer:
    sources = sources_of(context, scope, "pulsar")
    parts = parts_of(scope.file)
    sentences: list[str] = []
    whole: dict[str, list[pa.Table]] = {}
    for name, source in sorted(sources.items()):
        snapshot = source.load()
        if not isinstance(snapshot, PulsarSnapshot):  # pragma: no cover - only such were requested
            continue
        ring = TopicRing.of(snapshot)
        if scope.engine == "spark":
            from core.spark.jobs.topics import place_topics_on_spark  # noqa: PLC0415  # takes seconds

            found = place_topics_on_spark(context.spark(), ring, parts, context.progress)
        else:
            found = place_topics(ring, parts, context.progress)
        sentences.append(f"{name}: {found.sentence}")
        for key, table in topic_tables(found).items():
            column = pa.repeat(pa.scalar(name), table.num_rows)
            whole.setdefault(key, []).append(table.add_column(0, "cluster", column))
    _write(context, {key: pa.concat_tables(tables) for key, tables in whole.items()})
    return JobAnswer(
        sentence=" ".join(sentences),
        tables={
            "bundles": "What each bundle would carry, most throughput first.",
            "brokers": "The same by the brokers that own the bundles now.",
            "concentrated": "Partitioned topics with most partitions in one bundle.",
            "spread": "How many partitioned topics there are of each size and crowding.",
        },
        facts={"clusters": len(sentences)},
    )


def topic_tables(found: TopicLoads) -> dict[str, pa.Table]:
    """Return the tables by name."""
    names = ("bundles", "brokers", "concentrated", "spread")
    return {name: getattr(found, name) for name in names}


KINDS: Final = (
    JobKind(
        name="trends",
        title="Trends",
        answers="What did brokers, bundles, nodes and tables carry, and who changed most?",
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
    JobKind(
        name="what_if",
        title="Every pair of strategies on every cluster",
        answers="Which shedding and placement would bring each cluster within the target?",
        scope=PoolScope,
        request=WhatIfRequest,
        run=_what_if,
        system="pulsar",
    ),
    JobKind(
        name="topics",
        title="Where millions of topics land",
        answers="Which bundles and brokers would carry the topics of a file?",
        scope=TopicsScope,
        run=_topics,
        system="pulsar",
    ),
    JobKind(
        name="drill",
        title="Failure drill",
        answers="Which brokers get hot, and which bundles stay unassigned when a broker fails?",
        scope=FleetScope,
        request=DrillRequest,
        run=_drill,
    ),
)
