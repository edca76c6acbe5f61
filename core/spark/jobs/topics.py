"""Topic-level placement on Spark: a task for each part of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.planning.topics.distribution import (
    MAX_WORST,
    TALLY,
    TopicLoads,
    TopicShares,
    answer,
    tally,
)
from core.planning.topics.files import TopicPart, read_part
from core.planning.topics.ring import TopicRing
from core.progress import Progress
from core.spark.lift import Kernel, lift
from core.spark.progress import followed

_CROWDED: Final = ("base", "partitions", "bundles", "most", "bundle")


def place_topics_on_spark(
    spark: SparkSession, ring: TopicRing, parts: Sequence[TopicPart], progress: Progress
) -> TopicLoads:
    """Return the distribution of a file's topics; see :mod:`core.planning.topics.distribution`.

    Args:
        spark: Session; its executors must be able to read the file by the same path.
        ring: The bundles; every task gets them.
        parts: Of the file.
        progress: Receives the tasks done.
    Raises:
        InputError, ComputeError: A part cannot be read.
        JobStoppedError: A stop was requested.
    """
    with followed(spark, progress, "placing topics"):
        numbers = pa.table({"part": pa.array(range(len(parts)), pa.int64())})
        tasks = spark.createDataFrame(numbers).repartition(max(len(parts), 1), "part")
        tallies = lift(tasks, ["part"], _kernel(ring, tuple(parts)), TALLY).persist()
        try:
            sums = tallies.where("base is null").drop("base").toArrow()
            shares = _shares(tallies.where("base is not null"))
        finally:
            tallies.unpersist()
    order = [("part", "ascending"), ("bundle", "ascending")]
    return answer(ring, sums.sort_by(order), shares)


def _kernel(ring: TopicRing, parts: tuple[TopicPart, ...]) -> Kernel:
    def kernel(group: pa.Table) -> pa.Table:
        numbers = pc.unique(group["part"]).to_pylist()
        return pa.concat_tables([tally(ring, read_part(parts[one]), one) for one in numbers])

    return kernel


def _shares(pairs: DataFrame) -> TopicShares:
    """Add up partitions by topic and bundle, natively: only the worst and the counts come back."""
    each = pairs.groupBy("base", "bundle").agg(sf.sum("topics").alias("count"))
    # of equal counts the first bundle: the least of (-count, bundle)
    largest = each.groupBy("base").agg(
        sf.sum("count").alias("partitions"),
        sf.count("bundle").alias("bundles"),
        sf.min(sf.struct((-sf.col("count")).alias("less"), "bundle")).alias("worst"),
    )
    whole = largest.select(
        "base",
        "partitions",
        "bundles",
        (-sf.col("worst.less")).alias("most"),
        sf.col("worst.bundle").alias("bundle"),
    ).persist()
    try:
        spread = whole.groupBy("partitions", "most").agg(sf.count("base").alias("topics"))
        worst = whole.orderBy(sf.desc("most"), sf.desc("partitions"), "base").limit(MAX_WORST)
        return TopicShares(worst.select(*_CROWDED).toArrow(), spread.toArrow())
    finally:
        whole.unpersist()
