"""How fast topics are laid over bundles: hash, namespace, bundle, load, crowding of partitions.

    .venv/bin/python bench/topics.py [--topics 10000000] [--bundles 10000] [--spark 1,2]

Writes a Parquet file of so many topics (ten partitions each, with rates), lays it over a generated
fleet in this process, and, with ``--spark``, on ``local[N]`` for each N; the first run of each
session is not counted. Prints seconds, topics a second, the peak of this process's memory, and
whether the answers are the same.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fleet_builder import make_snapshot

from core.planning.topics.distribution import TopicLoads, place_topics
from core.planning.topics.files import parts_of
from core.planning.topics.ring import TopicRing
from core.progress import NoProgress
from core.schemas.pulsar import RATES
from core.snapshot import PulsarSnapshot

PART = 1_000_000
PARTITIONS = 10


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--topics", type=int, default=10_000_000)
    arguments.add_argument("--bundles", type=int, default=10_000)
    arguments.add_argument("--spark", default="", help="numbers of cores, for example 1,2")
    options = arguments.parse_args()
    snapshot = make_snapshot(brokers=100, bundles=options.bundles)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "topics.parquet"
        write_topics(path, snapshot, options.topics)
        print(f"{options.topics:,} topics, {path.stat().st_size / 1e6:,.0f} MB of Parquet")
        ring = TopicRing.of(snapshot)
        parts = parts_of(path)
        here = measured(
            "in process", options.topics, lambda: place_topics(ring, parts, NoProgress())
        )
        print(f"  {here.sentence}")
        for cores in [int(one) for one in options.spark.split(",") if one]:
            on_spark(cores, ring, path, options.topics, here)


def write_topics(path: Path, snapshot: PulsarSnapshot, count: int) -> None:
    """Write partitioned topics of all ordinary namespaces."""
    spaces = [name for name in snapshot.namespaces["namespace"].to_pylist() if ":" not in name]
    schema = pa.schema([("topic", pa.string()), *((name, pa.float64()) for name in RATES)])
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, count, PART):
            numbers = range(start, min(start + PART, count))
            names = [
                f"persistent://{spaces[at // PARTITIONS % len(spaces)]}/"
                f"topic-{at // PARTITIONS}-partition-{at % PARTITIONS}"
                for at in numbers
            ]
            rates = {name: rng.pareto(1.5, len(names)) for name in RATES}
            writer.write_table(pa.table({"topic": names, **rates}, schema=schema))


def measured(title: str, count: int, run: Callable[[], TopicLoads]) -> TopicLoads:
    started = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - started
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{title}: {seconds:.1f} s, {count / seconds / 1e6:.2f} million topics/s; "
        f"peak {peak_mb:,.0f} MB in this process"
    )
    return found


def on_spark(cores: int, ring: TopicRing, path: Path, count: int, here: TopicLoads) -> None:
    from connectors.sandbox.java import find_java  # noqa: PLC0415  # only when asked for
    from core.spark.jobs.topics import place_topics_on_spark  # noqa: PLC0415  # the same
    from core.spark.session import SparkOptions, end_session, session  # noqa: PLC0415  # the same

    spark = session(SparkOptions(master=f"local[{cores}]", java_home=find_java().home))
    try:
        parts = parts_of(path)
        place_topics_on_spark(spark, ring, parts[:1], NoProgress())
        there = measured(
            f"Spark, local[{cores}]",
            count,
            lambda: place_topics_on_spark(spark, ring, parts, NoProgress()),
        )
        print(f"  the same answer: {all(same(there, here))}")
    finally:
        end_session()


def same(there: TopicLoads, here: TopicLoads) -> Iterator[bool]:
    for name in ("bundles", "brokers", "concentrated", "spread"):
        yield getattr(there, name).equals(getattr(here, name))


if __name__ == "__main__":
    main()
