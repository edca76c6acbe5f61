"""Health of one very large cluster: rules run here, on what Spark finds of bundles."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.arrays import Floats, row_of
from core.facts import Assumed
from core.findings.engine import MAX_OF_ONE_CODE
from core.findings.request import HealthRequest
from core.findings.verdict import Verdict
from core.operations.health.pulsar import PulsarHealth, source_of_worst, target_of
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.measures import Measures, Target, measure
from core.pulsar.rules.bundle_facts import (
    RING,
    SHOWN,
    STORM_EMPTY,
    STORM_NARROW,
    UNKNOWN_TOPICS,
    ForeignBundles,
    MisplacedBundles,
    RowSelection,
    UnassignedBundles,
    over_schema,
    pairs_schema,
    storm_schema,
)
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.split.algorithms import SplitLimits
from core.schemas.pulsar import NAMESPACES
from core.snapshot import PulsarSnapshot
from core.snapshot.store import load_manifest
from core.spark.progress import followed
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.scan import ROW
from core.spark.tables import collected

_LISTED: Final = MAX_OF_ONE_CODE + 1
"""One more than are listed: its hint is the hint of the others."""

_COUNTS: Final = pa.schema(
    [
        pa.field("owner", pa.string()),  # null: none
        *(pa.field(name, pa.int64()) for name in ("bundles", "unclear", "busy", "moved")),
    ]
)
_HOT: Final = pa.schema(
    [
        pa.field("bundle", pa.string()),
        pa.field("owner", pa.string()),
        pa.field("topic_count", pa.int64()),
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),
    ]
)
_ALONE: Final = pa.schema(
    [
        pa.field("namespace", pa.string()),
        pa.field("throughput", pa.float64(), metadata={"unit": "bytes/s"}),
        pa.field("rate", pa.float64(), metadata={"unit": "msgs/s"}),
    ]
)
_CROWDED: Final = pa.schema([("namespace", pa.string()), ("bundles", pa.int64())])
_NAMED: Final = pa.schema([(name, pa.string()) for name in ("bundle", "owner", "reported_by")])
_NAMESPACE: Final = pa.schema([("namespace", pa.string())])
_OWNER: Final = pa.schema([("owner", pa.string())])
_PAIR: Final = pa.schema([("namespace", pa.string()), ("owner", pa.string())])


@dataclass(frozen=True)
class LargeHealth:
    """Health of a large cluster.

    Attributes:
        measures: How even its load is.
        verdict: As :func:`core.pulsar.rules.verdict.verdict_of` gives it in process.
    """

    measures: Measures
    verdict: Verdict


def spread_health(
    spark: SparkSession,
    directory: str,
    assumed: Assumed,
    request: HealthRequest,
    progress: Progress,
) -> PulsarHealth:
    """Judge a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        ComputeError, JobStoppedError: See :func:`large_health`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    facts = PulsarFacts(cluster.skeleton, assumed)
    target = target_of(request, cluster.manifest)
    found = large_health(cluster, target)
    snapshot_id, manifest = load_manifest(cluster.directory)
    return PulsarHealth(
        snapshot_id=snapshot_id,
        manifest=manifest,
        measures=found.measures,
        verdict=found.verdict,
        target=target,
        source=source_of_worst(cluster.skeleton, found.measures, facts.settings),
    )


def large_health(cluster: LargeCluster, target: Target) -> LargeHealth:
    """Judge a cluster whose bundles no process holds.

    Args:
        cluster: The whole.
        target: What counts as balanced.
    Raises:
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    bundles = SparkBundles(cluster)
    declared = cluster.namespaces
    blank = pa.nulls(declared.num_rows, NAMESPACES.field("boundaries").type)
    namespaces = declared.append_column("boundaries", blank)
    tables = {**cluster.skeleton.tables, "namespaces": namespaces}
    built = PulsarSnapshot.build(cluster.manifest, tables)
    # which counts the rows of its own tables; what was read of the cluster is in the whole's
    snapshot = replace(built, manifest=cluster.manifest)
    counts = bundles.owned_counts
    snapshot.derived.get("owned_bundle_counts", lambda: counts)
    settings = cluster.settings()
    measures = measure(snapshot, settings)
    return LargeHealth(measures, verdict_of(snapshot, settings, target=target, bundles=bundles))


@dataclass(frozen=True, eq=False)
class SparkBundles:
    """Bundles on Spark, as :class:`core.pulsar.rules.bundle_facts.BundleFacts` declares them."""

    cluster: LargeCluster

    @cached_property
    def _movable(self) -> DataFrame:
        return self.cluster.stored.where(~sf.col("is_broker_bound"))

    @cached_property
    def _owned(self) -> DataFrame:
        return self._movable.where(sf.col("owner").isNotNull())

    @cached_property
    def _counts(self) -> pa.Table:
        """Counts by owner, one pass for all rules."""
        counted = self._movable.groupBy("owner").agg(
            sf.count(sf.lit(1)).alias("bundles"),
            sf.count_if(_is_unclear()).alias("unclear"),
            sf.count_if(_is_known() & _is_busy()).alias("busy"),
            sf.count_if(sf.col("owner") != sf.col("reported_by")).alias("moved"),
        )
        return self._collected(counted, _COUNTS, "counting bundles by owner")

    def _collected(self, rows: DataFrame, schema: pa.Schema, words: str) -> pa.Table:
        with followed(self.cluster.spark, self.cluster.progress, words):
            return collected(rows, schema)

    def _count(self, rows: DataFrame, words: str) -> int:
        with followed(self.cluster.spark, self.cluster.progress, words):
            return rows.count()

    def _total(self, name: str) -> int:
        return int(pc.sum(self._counts[name]).as_py() or 0)

    @property
    def owned_counts(self) -> Floats:
        """Movable bundles by owner; see :func:`core.pulsar.measures.owned_bundle_counts`."""
        counts = self.known_counts
        return np.where(counts == 0, np.nan, counts) if self.unclear else counts

    @property
    def known_counts(self) -> Floats:
        """The same, with nothing for a broker of which it is unclear whether it owns any."""
        brokers = self.cluster.skeleton.brokers["broker"]
        rows = row_of(brokers, self._counts["owner"])
        counts = np.zeros(len(brokers))
        counts[rows[rows >= 0]] = self._counts["bundles"].to_numpy()[rows >= 0]
        return counts

    @property
    def unclear(self) -> int:
        """Movable bundles of unknown owner."""
        return self._total("unclear")

    @property
    def count(self) -> int:
        """All of them."""
        return self._total("bundles")

    def hot(self, ceiling: float) -> RowSelection:
        """Sort those above the ceiling."""
        flow = sf.col("msg_throughput_in") + sf.col("msg_throughput_out")
        # not a number is more than anything to Spark
        hot = self._movable.withColumn("throughput", flow).where(
            ~sf.isnan("throughput") & (sf.col("throughput") > ceiling)
        )
        return self._picked(hot, _HOT, "throughput", "searching for hot bundles")

    def alone(self, floor: float) -> RowSelection:
        """Sum up namespaces."""
        flow = sf.col("msg_throughput_in") + sf.col("msg_throughput_out")
        rate = sf.col("msg_rate_in") + sf.col("msg_rate_out")
        groups = self._movable.groupBy("namespace").agg(
            sf.sum(flow).alias("throughput"),
            sf.sum(rate).alias("rate"),
            sf.count(sf.lit(1)).alias("bundles"),
            sf.min(ROW).alias(ROW),
        )
        busy = ~sf.isnan("throughput") & (sf.col("throughput") > floor)
        single = groups.where((sf.col("bundles") == 1) & busy)
        return self._picked(
            single, _ALONE, "throughput", "searching for namespaces with one bundle"
        )

    def near_limit(self, least: float, below: float) -> RowSelection:
        """Count by namespace."""
        counts = self._movable.groupBy("namespace").agg(
            sf.count(sf.lit(1)).alias("bundles"), sf.min(ROW).alias(ROW)
        )
        near = counts.where((sf.col("bundles") >= least) & (sf.col("bundles") < below))
        return self._picked(near, _CROWDED, "bundles", "counting bundles by namespace")

    def over(
        self,
        limits: SplitLimits,
        *,
        topics: tuple[int, int],
        namespaces: Sequence[str] | None = None,
    ) -> RowSelection:
        """Compare columns."""
        is_extensible = self.cluster.manifest.load_manager == "extensible"
        rate, flow = (_compared(kind, is_last=is_extensible) for kind in _KINDS)
        count = sf.coalesce(sf.col("topic_count"), sf.lit(UNKNOWN_TOPICS))
        sessions = sf.coalesce(sf.col("producer_count") + sf.col("consumer_count"), sf.lit(0))
        shares = [
            count / max(limits.topics, 1),
            rate / max(limits.msgs_per_s, 1),
            flow / max(limits.bytes_per_s, 1),
        ]
        if limits.sessions > 0:
            shares.append(sessions / limits.sessions)
        over = self._movable.select(
            "namespace",
            "bundle",
            "owner",
            "topic_count",
            rate.alias("rate"),
            flow.alias("throughput"),
            sf.greatest(*shares).alias("excess"),
            ROW,
        ).where((sf.col("excess") > 1) & (count >= topics[0]) & (count <= topics[1]))
        words = "searching for bundles to split"
        if namespaces is None:
            return self._picked(over, over_schema(), "excess", words)
        of_those = over.where(sf.col("namespace").isin(list(namespaces)))
        return RowSelection.all_of(self._sorted(of_those, over_schema(), "excess", words))

    def storms(self) -> RowSelection:
        """Count by namespace, with the busiest bundle of each."""
        return self._storms

    @cached_property
    def _storms(self) -> RowSelection:
        rate, flow = (_compared(kind, is_last=True) for kind in _KINDS)
        topics = sf.coalesce(sf.col("topic_count"), sf.lit(0))
        width = sf.col("upper") - sf.col("lower")
        busiest = sf.struct(
            *("bundle", "owner", "topic_count", ROW),
            rate.alias("rate"),
            flow.alias("throughput"),
            width.alias("width"),
        )
        groups = self._movable.groupBy("namespace").agg(
            sf.count(sf.lit(1)).alias("bundles"),
            sf.count_if((rate == 0) & (topics == 0)).alias("empty"),
            sf.max_by(busiest, sf.struct(rate, -sf.col(ROW))).alias("hot"),
        )
        found = groups.where(
            (sf.col("empty") >= STORM_EMPTY)
            & (sf.col("empty") * 2 >= sf.col("bundles"))
            & (sf.col("hot.rate") > 0)
            & (sf.col("hot.width") * sf.col("bundles") * STORM_NARROW < RING)
        ).select("namespace", "hot.*", "bundles", "empty")
        return self._picked(found, storm_schema(), "rate", "searching for split storms")

    def with_entries(self) -> PulsarSnapshot:
        """Heartbeat and SLA bundles alone: no process holds the others."""
        return self.cluster.broker_bound

    def _sorted(self, rows: DataFrame, schema: pa.Schema, by: str, words: str) -> pa.Table:
        """Return all rows, the largest first, of equal ones the first in the snapshot's order."""
        wanted = pa.schema([*schema, pa.field(ROW, pa.int64())])
        found = self._collected(rows.select(*wanted.names), wanted, words)
        return found.sort_by([(by, "descending"), (ROW, "ascending")]).drop_columns(ROW)

    def _picked(self, rows: DataFrame, schema: pa.Schema, by: str, words: str) -> RowSelection:
        """Return the largest rows, of equal ones the first in the snapshot's order."""
        first = rows.orderBy(sf.col(by).desc(), ROW).limit(_LISTED)
        found = self._sorted(first, schema, by, words)
        is_all = found.num_rows < _LISTED
        return RowSelection(found, found.num_rows if is_all else self._count(rows, words))

    def unowned(self) -> UnassignedBundles:
        """Look for null owners."""
        unowned = pc.is_null(self._counts["owner"])
        whole = pc.sum(self._counts.filter(unowned)["bundles"]).as_py() or 0
        unclear, busy = self._total("unclear"), self._total("busy")
        known_owner = self._movable.where(_is_known())
        return UnassignedBundles(
            self._first(self._movable.where(_is_unclear()), unclear),
            self._first(known_owner.where(_is_busy()), busy),
            self._first(known_owner.where(~_is_busy()), whole - unclear - busy),
        )

    def moved(self) -> RowSelection:
        """Compare owner and reporter."""
        differs = sf.col("owner") != sf.col("reported_by")
        return self._first(self._movable.where(differs), self._total("moved"))

    def _first(self, rows: DataFrame, count: int) -> RowSelection:
        if not count:
            return RowSelection(_NAMED.empty_table(), 0)
        wanted = pa.schema([*_NAMED, pa.field(ROW, pa.int64())])
        found = self._collected(rows.orderBy(ROW).limit(SHOWN), wanted, "naming bundles")
        return RowSelection(found.sort_by(ROW).drop_columns(ROW), count)

    def owned_namespaces(self) -> Sequence[str]:
        """Return them sorted."""
        names = self._owned.select("namespace").distinct()
        found = self._collected(names, _NAMESPACE, "searching for namespaces")
        listed: list[str] = found.sort_by("namespace")["namespace"].to_pylist()
        return listed

    def misplaced(
        self, policy: Mapping[str, str], allowed: Mapping[str, AbstractSet[str]]
    ) -> MisplacedBundles:
        """Count pairs and leave out the allowed ones."""
        spark = self.cluster.spark
        governed = spark.createDataFrame(
            pa.table({"namespace": list(policy), "policy": list(policy.values())})
        )
        pairs = [(name, broker) for name, brokers in allowed.items() for broker in brokers]
        fine = spark.createDataFrame(
            pa.table(
                {
                    "policy": pa.array([name for name, _ in pairs], pa.string()),
                    "owner": pa.array([broker for _, broker in pairs], pa.string()),
                }
            )
        )
        wrong = (
            self._owned.join(sf.broadcast(governed), "namespace")
            .join(sf.broadcast(fine), ["policy", "owner"], "left_anti")
            .groupBy("namespace", "owner")
            .agg(sf.count(sf.lit(1)).alias("bundles"))
        )
        names = wrong.select("namespace").distinct()
        words = "searching for bundles on the wrong brokers"
        first = self._collected(names.orderBy("namespace").limit(_LISTED), _NAMESPACE, words)
        listed = first["namespace"].to_pylist()
        more = 0 if len(listed) < _LISTED else self._count(names, words) - len(listed)
        shown = wrong.where(sf.col("namespace").isin(listed))
        rows = self._collected(shown, pairs_schema(), words) if listed else None
        found = pairs_schema().empty_table() if rows is None else rows
        return MisplacedBundles(
            found.sort_by([("namespace", "ascending"), ("owner", "ascending")]), more
        )

    def foreign_bundles(self, namespaces: Sequence[str], owners: Sequence[str]) -> ForeignBundles:
        """Count pairs there; the first of them, and sums by namespace and by owner, come here."""
        words = "searching for bundles on reserved brokers"
        pairs = (
            self._owned.join(sf.broadcast(self._names("namespace", namespaces)), "namespace")
            .join(sf.broadcast(self._names("owner", owners)), "owner")
            .groupBy("namespace", "owner")
            .agg(sf.count(sf.lit(1)).alias("bundles"))
        )
        order = ["namespace", "owner"]
        rows = self._collected(pairs.orderBy(*order).limit(SHOWN), pairs_schema(), words)
        spaces = pairs.groupBy("namespace").agg(sf.sum("bundles").alias("bundles"))
        counts = self._collected(spaces, _CROWDED, words).sort_by("namespace")
        hosts = self._collected(pairs.select("owner").distinct(), _OWNER, words)
        return ForeignBundles(
            rows.sort_by([(name, "ascending") for name in order]),
            int(pc.sum(counts["bundles"]).as_py() or 0),
            counts["namespace"].to_pylist(),
            hosts.sort_by("owner")["owner"].to_pylist(),
        )

    def _names(self, column: str, names: Sequence[str]) -> DataFrame:
        table = pa.table({column: pa.array(list(names), pa.string())})
        return self.cluster.spark.createDataFrame(table)

    def owners_of(self, namespaces: Sequence[str]) -> pa.Table:
        """Return distinct pairs."""
        wanted = self._names("namespace", namespaces)
        pairs = self._owned.select("namespace", "owner").join(
            sf.broadcast(wanted), "namespace", "left_semi"
        )
        return self._collected(pairs.distinct(), _PAIR, "searching for owners of namespaces")


_KINDS: Final = ("msg_rate", "msg_throughput")


def _compared(kind: str, *, is_last: bool) -> Column:
    """Return in + out of what was measured last, or of the long-term average where there is one.

    Resource quotas, which begin an average of few bundles, are left out.
    """
    last = _known_sum(f"{kind}_in", f"{kind}_out")
    held = last if is_last else sf.coalesce(_known_sum(f"long_{kind}_in", f"long_{kind}_out"), last)
    return sf.coalesce(held, sf.lit(0.0))


def _known_sum(*names: str) -> Column:
    """Return the sum of what is known of some columns; null where nothing is."""
    parts = [sf.when(~sf.isnan(name), sf.col(name)) for name in names]
    filled = [sf.coalesce(part, sf.lit(0.0)) for part in parts]
    return sf.when(sf.coalesce(*parts).isNotNull(), functools.reduce(operator.add, filled))


def _is_unclear() -> Column:
    return sf.col("owner").isNull() & sf.col("owner_source").isNull()


def _is_known() -> Column:
    return sf.col("owner").isNull() & sf.col("owner_source").isNotNull()


def _is_busy() -> Column:
    parts = [
        sf.coalesce(sf.col(f"msg_rate_{direction}"), sf.lit(0.0)) for direction in ("in", "out")
    ]
    rate = parts[0] + parts[1]
    return sf.col("reported_by").isNotNull() | (~sf.isnan(rate) & (rate > 0.0))
