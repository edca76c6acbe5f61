"""A large cluster: its small tables here, its bundles on Spark, and what is summed up of them.

Everything that has a row a broker is small and lives in this process. Bundles are brought here by
broker, when a kernel asks for those of one. What a kernel needs of *all* bundles are sums and
counts by broker: they are made by the same view as in process, one group of brokers a task, its
bundles in the order of the snapshot's rows, so that sums have the same last bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.progress import Progress
from core.pulsar.load import usage_is_known
from core.pulsar.ranges import Ints
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import Flags, LoadView
from core.schemas import PULSAR_TABLES
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import load_manifest, read_table
from core.spark.lift import lift
from core.spark.progress import followed
from core.spark.tables import collected, snapshot_rows

SMALL: Final = ("brokers", "settings", "policies", "broker_loads", "top_bundles")
"""Tables with a few rows a broker at most."""

RATES: Final = tuple(
    f"{term}{kind}_{way}"
    for term in ("", "short_", "long_")
    for kind in ("msg_rate", "msg_throughput")
    for way in ("in", "out")
)
NEEDED: Final = (
    *("bundle", "namespace", "lower", "upper", "owner", "owner_source", "reported_by"),
    *("is_broker_bound", "topic_count"),
    *RATES,
)
"""Columns of bundles that decisions go by."""

ROW: Final = "row"
CODE: Final = "code"
_BROKERS_A_GROUP: Final = 64
"""Their bundles are one task's: some ten thousand rows."""

TOTALS: Final = pa.schema(
    [
        pa.field(CODE, pa.int32()),  # row of the broker
        pa.field("reported", pa.int64()),  # bundles in its report
        pa.field("measured", pa.int64()),
        pa.field("movable", pa.int64()),
        pa.field("long_rate", pa.float64(), metadata={"unit": "msgs/s"}),
        pa.field("fresh", pa.int64()),  # without a stored long-term rate
        pa.field("fresh_rate", pa.float64(), metadata={"unit": "msgs/s"}),
    ]
)
"""One row a broker that reports bundles."""


@dataclass(frozen=True, eq=False)
class LargeCluster:
    """A snapshot directory whose bundles stay on Spark.

    Attributes:
        spark: Session; its executors must be able to read the directory.
        directory: Of the snapshot.
        manifest: Its manifest.
        progress: Told of tasks.
    """

    spark: SparkSession
    directory: Path
    manifest: Manifest
    progress: Progress

    @classmethod
    def of(cls, spark: SparkSession, directory: Path, progress: Progress) -> LargeCluster:
        """Open a snapshot directory; nothing but its manifest is read yet.

        Raises:
            SnapshotError: There is none.
        """
        return cls(spark, directory, load_manifest(directory)[1], progress)

    @cached_property
    def skeleton(self) -> PulsarSnapshot:
        """The snapshot without bundles and namespaces: what settings are read from."""
        there = {name: self.directory / f"{name}.parquet" for name in SMALL}
        tables = {
            name: read_table(self.directory, name) for name, path in there.items() if path.exists()
        }
        return PulsarSnapshot.build(self.manifest, tables)

    def settings(
        self, overrides: Mapping[str, object] | None = None, release: str | None = None
    ) -> EffectiveSettings:
        """Return the settings in force with assumptions on top.

        Raises:
            UnknownNameError: An override, or the release line, that does not exist.
        """
        return effective_settings(self.skeleton, overrides=overrides, release=release)

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids in row order."""
        return tuple(self.skeleton.brokers["broker"].to_pylist())

    @cached_property
    def namespaces(self) -> pa.Table:
        """The declared namespaces without their boundaries, which are as many as the bundles."""
        with pq.ParquetFile(self.directory / "namespaces.parquet") as file:
            names = [name for name in file.schema_arrow.names if name != "boundaries"]
            return file.read(columns=names)

    @cached_property
    def quota_bundles(self) -> tuple[str, ...]:
        """Bundles with a resource quota of their own."""
        policies = self.skeleton.policies
        rows = policies.filter(pc.equal(policies["kind"], "resource_quota"))
        return tuple(name for name in rows["name"].to_pylist() if name != "default")

    @cached_property
    def has_report(self) -> Flags:
        """Whether anything of each broker's load report is known."""
        table = self.skeleton.brokers
        rate = np.asarray(table["msg_rate_in"].to_numpy(zero_copy_only=False), np.float64)
        return usage_is_known(table) | ~np.isnan(rate)

    # -- bundles on Spark -----------------------------------------------------------------------

    @cached_property
    def stored(self) -> DataFrame:
        """:data:`NEEDED` columns as the snapshot has them, and the row number."""
        schema = PULSAR_TABLES["bundles"]
        wanted = pa.schema([schema.field(name) for name in NEEDED])
        read = snapshot_rows(
            self.spark, {self.manifest.cluster: self.directory}, "bundles", wanted, row_number=ROW
        )
        return read.drop("cluster")

    @cached_property
    def bundles(self) -> DataFrame:
        """:data:`NEEDED` columns, the row number, and the row of the broker that counts it.

        ``reported_by`` is who the leader counts the bundle for, as
        :class:`core.pulsar.view.LoadView` has it, and ``code`` that broker's row; null: nobody.
        """
        known = self.spark.createDataFrame(
            pa.table(
                {
                    "name": pa.array(self.brokers, pa.string()),
                    "number": pa.array(np.arange(len(self.brokers), dtype=np.int32)),
                    "read": pa.array(self.has_report),
                }
            )
        )
        named = known.select(sf.col("name").alias("reported_by"), sf.col("number").alias("named"))
        own = known.select(
            sf.col("name").alias("owner"), sf.col("number").alias("own"), sf.col("read")
        )
        joined = self.stored.join(sf.broadcast(named), "reported_by", "left").join(
            sf.broadcast(own), "owner", "left"
        )
        unread = sf.when(~sf.col("read"), sf.col("own"))
        code = sf.coalesce(sf.col("named"), unread) if self._has_reports else sf.col("own")
        counted = joined.withColumn(CODE, code)
        names = known.select(sf.col("name").alias("counted_for"), sf.col("number").alias(CODE))
        return (
            counted.join(sf.broadcast(names), CODE, "left")
            .withColumn("reported_by", sf.col("counted_for"))
            .select(*NEEDED, ROW, CODE)
        )

    @cached_property
    def _has_reports(self) -> bool:
        """Whether any bundle is named by a report of a known broker."""
        names = self.spark.createDataFrame(
            pa.table({"reported_by": pa.array(self.brokers, pa.string())})
        )
        reported = self.stored.select("reported_by").where("reported_by is not null")
        there = reported.join(sf.broadcast(names), "reported_by", "left_semi").limit(1)
        with followed(self.spark, self.progress, "looking for load reports"):
            return bool(there.toArrow().num_rows)

    @cached_property
    def totals(self) -> pa.Table:
        """Sums and counts by broker, in the order of their rows; see :data:`TOTALS`."""
        kernel = _Totals(self.skeleton_frame(), bool(self.quota_bundles))
        names = ("bundle",) if self.quota_bundles else ()
        columns = (*names, "is_broker_bound", "topic_count", *RATES, ROW, CODE)
        rows = self.bundles.where(sf.col(CODE).isNotNull()).select(
            *columns, (sf.col(CODE) % self._groups).alias("group")
        )
        with followed(self.spark, self.progress, "summing up bundles by broker"):
            found = collected(lift(rows, ["group"], kernel, TOTALS), TOTALS)
        return found.sort_by(CODE)

    def total(self, name: str) -> Ints:
        """Return a count by broker row; 0 where a broker reports nothing."""
        whole = np.zeros(len(self.brokers), np.int64)
        whole[self.totals[CODE].to_numpy()] = self.totals[name].to_numpy()
        return whole

    @property
    def _groups(self) -> int:
        return max(len(self.brokers) // _BROKERS_A_GROUP, 1)

    def by_broker(self, columns: Iterable[str]) -> DataFrame:
        """Return bundles that somebody reports, with a column ``group`` that parts brokers."""
        rows = self.bundles.where(sf.col(CODE).isNotNull())
        return rows.select(*columns, ROW, CODE, (sf.col(CODE) % self._groups).alias("group"))

    def fetch(self, chosen: Column, words: str) -> pa.Table:
        """Bring the bundles that a condition chooses here, in the order of the snapshot's rows.

        Args:
            chosen: Condition on :attr:`bundles`.
            words: What is read.
        Raises:
            ComputeError: They are too many for one process.
        """
        schema = PULSAR_TABLES["bundles"]
        wanted = pa.schema([*(schema.field(name) for name in NEEDED), pa.field(ROW, pa.int64())])
        with followed(self.spark, self.progress, words):
            return collected(self.bundles.where(chosen), wanted).sort_by(ROW)

    def named(self, bundles: Iterable[str]) -> pa.Table:
        """Bring bundles here by their names; those that are not there are left out."""
        return self.fetch(sf.col("bundle").isin(list(bundles)), "looking for bundles by name")

    def skeleton_frame(self) -> PulsarSnapshot:
        """What every task needs of the cluster: its kind and its policies."""
        manifest = replace(self.manifest, problems=(), tables={})
        return PulsarSnapshot.build(manifest, {"policies": self.skeleton.policies})


@dataclass(frozen=True, eq=False)
class _Totals:
    """Sums up the bundles of a group of brokers, by the view that decisions go by."""

    frame: PulsarSnapshot
    has_names: bool

    def __call__(self, group: pa.Table) -> pa.Table:
        codes, view = view_of_group(self.frame, group.sort_by(ROW), has_names=self.has_names)
        basis, count = SheddingBasis.of(view), codes.size
        reporter = view.reporter
        fresh = np.asarray(pc.is_null(group.sort_by(ROW)["long_msg_rate_in"]))

        def summed(values: np.ndarray) -> np.ndarray:
            return np.bincount(reporter, weights=values, minlength=count)

        def counted(flags: np.ndarray) -> np.ndarray:
            return np.bincount(reporter[flags], minlength=count)

        return pa.table(
            {
                CODE: codes,
                "reported": basis.bundle_counts,
                "measured": counted(basis.is_measured),
                "movable": counted(basis.is_movable),
                "long_rate": summed(view.bundle_long_rate),
                "fresh": counted(fresh),
                "fresh_rate": np.bincount(
                    reporter[fresh], weights=view.bundle_msg_rate[fresh], minlength=count
                ),
            },
            schema=TOTALS,
        )


def view_of_group(
    frame: PulsarSnapshot, group: pa.Table, *, has_names: bool
) -> tuple[np.ndarray, LoadView]:
    """Return the view of the bundles of some brokers, and which rows of the whole those are.

    Args:
        frame: Manifest and policies.
        group: Bundles, all of them with a broker that counts them, in row order.
        has_names: Whether their names are told; else they have none.
    """
    codes, local = np.unique(group[CODE].to_numpy(), return_inverse=True)
    names = np.array([f"{code:08d}" for code in codes.tolist()], object)
    count = group.num_rows
    brokers = pa.table(
        {
            "broker": pa.array(names, pa.string()),
            "is_leader": np.zeros(codes.size, np.bool_),
            "msg_rate_in": np.zeros(codes.size),  # a report is there
        }
    )
    blank = pa.array([""], pa.string()).take(pa.array(np.zeros(count, np.int64)))
    whole = {name: group[name] for name in group.column_names if name not in (ROW, CODE, "group")}
    whole |= {
        "bundle": group["bundle"] if has_names else blank,
        "namespace": group["namespace"] if "namespace" in group.column_names else blank,
        "lower": np.zeros(count, np.int64),
        "upper": np.ones(count, np.int64),
        "reported_by": pa.array(names[local], pa.string()),
    }
    tables = {**frame.tables, "brokers": brokers, "bundles": pa.table(whole)}
    snapshot = PulsarSnapshot.build(frame.manifest, tables)
    return codes.astype(np.int32), LoadView.of(snapshot, EffectiveSettings.defaults())
