"""Jobs on Pulsar clusters: shed, place, simulate, what-ifs, and where topics land."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator

from connectors.jobs.kinds.fleet import (
    FleetScope,
    PoolScope,
    answers_of,
    counted_answer,
    failed,
    kind_of,
    sources_of,
    write,
)
from connectors.jobs.model import JobAnswer, JobContext, JobKind, ScopedRequest
from core.operations.simulate import seeds
from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.planning.what_if.compare import totals_of, what_if_sentence
from core.planning.what_if.request import WhatIfRequest
from core.pulsar.requests import PlaceRequest, ShedRequest
from core.snapshot import PulsarSnapshot
from core.spark.fleet import FleetRequest
from core.spark.pulsar.jobs.place import PLACE
from core.spark.pulsar.jobs.shed import SHED
from core.spark.pulsar.jobs.what_if import WHAT_IF
from core.units import pluralize


class TopicsScope(FleetScope):
    """Topic file of a job; it must be on the job's machine.

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
            raise ValueError("use the absolute path of the file")
        return value


def _shed(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = answers_of(context, job.scope, FleetRequest(SHED, job.request), "pulsar")
    write(context, found)
    moves = pc.sum(found["rounds"]["moves"]).as_py() or 0
    count = len(set(found["rounds"]["strategy"].to_pylist()))
    names = "1 strategy" if count == 1 else f"{count} strategies"
    return counted_answer(
        found,
        "rounds",
        f"{names} would unload {pluralize(moves, 'bundle')} in total.",
        {
            "rounds": "What each strategy would do in each cluster, and why.",
            "moves": "Every selected bundle, with its most likely destination.",
        },
    )


def _place(context: JobContext, job: ScopedRequest) -> JobAnswer:
    found = answers_of(context, job.scope, FleetRequest(PLACE, job.request), "pulsar")
    write(context, found)
    bundles = pc.sum(found["placement"]["bundles"]).as_py() or 0
    unassigned = pc.sum(found["placement"]["unassigned"]).as_py() or 0
    said = f"{pluralize(bundles, 'bundle')} placed"
    return counted_answer(
        found,
        "placement",
        f"{said}; {unassigned:,} stay unassigned." if unassigned else f"{said}.",
        {
            "placement": "Strategy and bundles without a broker, by cluster.",
            "namespaces": "The most likely broker for the bundles of each namespace, and the "
            "bundles that stay.",
        },
    )


def _what_if(context: JobContext, job: ScopedRequest) -> JobAnswer:
    request: WhatIfRequest = job.request
    found = dict(answers_of(context, job.scope, FleetRequest(WHAT_IF, request), "pulsar"))
    totals = totals_of(found["pairs"])
    write(context, {**found, "totals": totals})
    tables = {
        "pairs": "Every pair of strategies in each cluster, best first.",
        "totals": "The same pairs summed over the clusters.",
    }
    problem = failed(found, tables)
    return JobAnswer(
        sentence=what_if_sentence(found["pairs"], totals) + problem,
        tables=tables,
        facts={"pairs": found["pairs"].num_rows, "target": request.target},
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
    write(context, {key: pa.concat_tables(tables) for key, tables in whole.items()})
    return JobAnswer(
        sentence=" ".join(sentences),
        tables={
            "bundles": "Expected load of each bundle, most throughput first.",
            "brokers": "The same by the brokers that own the bundles now.",
            "concentrated": "Partitioned topics with most partitions in one bundle.",
            "spread": "Number of partitioned topics by size and by partitions per bundle.",
        },
        facts={"clusters": len(sentences)},
    )


def topic_tables(found: TopicLoads) -> dict[str, pa.Table]:
    """Return the tables by name."""
    names = ("bundles", "brokers", "concentrated", "spread")
    return {name: getattr(found, name) for name in names}


KINDS: Final = (
    JobKind(
        name="shed",
        title="What each strategy would unload",
        answers="What would every shedding strategy do in every cluster, and why?",
        scope=FleetScope,
        request=ShedRequest,
        run=_shed,
        system="pulsar",
    ),
    JobKind(
        name="place",
        title="Where every bundle would go",
        answers="Which broker would get each bundle, and which bundles stay unassigned?",
        scope=FleetScope,
        request=PlaceRequest,
        run=_place,
        system="pulsar",
    ),
    kind_of(seeds.OPERATION),
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
        title="Topic placement",
        answers="Which bundles and brokers would serve the topics of a file?",
        scope=TopicsScope,
        run=_topics,
        system="pulsar",
        role="admin",  # it names any file that the job server can read
    ),
)
