"""Jobs on Pulsar clusters: shed, place, simulate, what-ifs, and where topics land."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from pydantic import field_validator

from connectors.jobs.kinds.fleet import (
    FleetScope,
    kind_of,
    sources_of,
    write,
)
from connectors.jobs.model import JobAnswer, JobContext, JobKind
from core.operations import what_if
from core.operations.place import namespaces
from core.operations.shed import strategies
from core.operations.simulate import seeds
from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.snapshot import PulsarSnapshot


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
    kind_of(strategies.OPERATION),
    kind_of(namespaces.OPERATION),
    kind_of(seeds.OPERATION),
    kind_of(what_if.OPERATION),
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
