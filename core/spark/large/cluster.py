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
from pyspark.sql import DataFrame, SparkSession

from core.progress import Progress
from core.pulsar.load import usage_is_known
from core.pulsar.ranges import Ints
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import Flags, LoadView
from core.schemas import PULSAR_TABLES
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import load_manifest, read_table
from core.spark.large.scan import (
    CODE,
    NAMED,
    OWN,
    PIECES,
    ROW,
    Coder,
    Cut,
    Part,
    Reader,
    each_group,
    each_part,
    is_reported,
    parts_of,
)
from core.spark.lift import Kernel
from core.spark.progress import followed
from core.spark.tables import MOST_ROWS, collected, snapshot_rows

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

TOTALED: Final = ("is_broker_bound", "topic_count", *RATES)
"""Columns that sums and counts are made of."""

FETCHED: Final = (
    *NEEDED,
    *("short_samples", "long_samples", "producer_count", "consumer_count", "cache_size_bytes"),
)
"""Columns of bundles that are brought to the driver."""

_OWN_COLUMNS: Final = (ROW, CODE, OWN, NAMED, "group")

_ROWS_A_SUM: Final = 500_000
"""Rows, of six narrow columns, that one task sums up."""

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
        """:data:`NEEDED` columns as the snapshot has them, and the row number, for Spark itself."""
        schema = PULSAR_TABLES["bundles"]
        wanted = pa.schema([schema.field(name) for name in NEEDED])
        read = snapshot_rows(
            self.spark, {self.manifest.cluster: self.directory}, "bundles", wanted, row_number=ROW
        )
        return read.drop("cluster")

    @property
    def _file(self) -> Path:
        return self.directory / "bundles.parquet"

    @cached_property
    def coder(self) -> Coder:
        """Numbers the brokers of bundles."""
        return Coder(self.brokers, self.has_report, is_reported(self._file, self.brokers))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What one task reads of the bundles."""
        return parts_of(self._file)

    def ask(
        self,
        kernel: Kernel,
        columns: Iterable[str],
        schema: pa.Schema,
        words: str,
        *,
        most: int = MOST_ROWS,
    ) -> pa.Table:
        """Bring here what a kernel answers to the bundles, which it gets part by part.

        Args:
            kernel: Gets the columns, and :mod:`core.spark.large.scan`'s own ones.
            columns: Of the bundles table.
            schema: Of the answers, whose order is nobody's promise.
            words: What is being done.
            most: Rows of all answers.
        Raises:
            ComputeError: Spark failed, or there are more rows.
        """
        told = each_part(self.spark, self.parts, self._reader(columns), kernel, schema)
        with followed(self.spark, self.progress, words):
            return collected(told, schema, most=most)

    def pieces(self, cut: Cut, columns: Iterable[str]) -> DataFrame:
        """Return the bundles cut into packed pieces; see :func:`core.spark.large.scan.each_group`.

        Args:
            cut: By what.
            columns: Of the bundles table, that it needs.
        """
        return each_part(self.spark, self.parts, self._reader(columns), cut, PIECES)

    def _reader(self, columns: Iterable[str]) -> Reader:
        return Reader(str(self._file.absolute()), self.coder, tuple(columns))

    @cached_property
    def totals(self) -> pa.Table:
        """Sums and counts by broker, in the order of their rows; see :data:`TOTALS`."""
        names = ("bundle",) if self.quota_bundles else ()
        measured = Measured(self.skeleton_frame(), bool(self.quota_bundles))
        groups = max(self.bundle_count // _ROWS_A_SUM, 2)
        pieces = self.pieces(Cut(measured, ByBroker(groups)), (*names, *TOTALED))
        with followed(self.spark, self.progress, "summing up bundles by broker"):
            found = collected(each_group(pieces, totaled, TOTALS), TOTALS)
        return found.sort_by(CODE)

    @property
    def bundle_count(self) -> int:
        """Rows of the bundles table."""
        return self.manifest.tables["bundles"].rows

    def total(self, name: str) -> Ints:
        """Return a count by broker row; 0 where a broker reports nothing."""
        whole = np.zeros(len(self.brokers), np.int64)
        whole[self.totals[CODE].to_numpy()] = self.totals[name].to_numpy()
        return whole

    def fetch(self, chosen: Kernel, words: str) -> pa.Table:
        """Bring some bundles here, in the order of the snapshot's rows.

        ``reported_by`` is who the leader counts each for.

        Args:
            chosen: Keeps them, of a part with :data:`FETCHED`.
            words: What is read.
        Raises:
            ComputeError: They are too many for one process.
        """
        schema = PULSAR_TABLES["bundles"]
        codes = [pa.field(name, pa.int32()) for name in (OWN, NAMED, CODE)]
        fields = [*(schema.field(name) for name in FETCHED), *codes, pa.field(ROW, pa.int64())]
        found = self.ask(chosen, FETCHED, pa.schema(fields), words).sort_by(ROW)
        counted = pa.array(found[CODE].to_numpy(), mask=found[CODE].to_numpy() < 0)
        names = pa.array(self.brokers, pa.string()).take(counted)
        at = found.schema.get_field_index("reported_by")
        return found.set_column(at, found.schema.field(at), names)

    def named(self, bundles: Iterable[str]) -> pa.Table:
        """Bring bundles here by their names; those that are not there are left out."""
        return self.fetch(Chosen(bundles=tuple(bundles)), "looking for bundles by name")

    def skeleton_frame(self) -> PulsarSnapshot:
        """What every task needs of the cluster: its kind and its policies."""
        manifest = replace(self.manifest, problems=(), tables={})
        return PulsarSnapshot.build(manifest, {"policies": self.skeleton.policies})


@dataclass(frozen=True, eq=False)
class Chosen:
    """Keeps bundles that somebody asks for, whatever it is that makes them wanted.

    Attributes:
        codes: Counted for one of these brokers.
        bundles: By name.
        namespaces: All of these.
        leader: Owned by this broker and counted for nobody; -1: those are not asked for.
    """

    codes: tuple[int, ...] = ()
    bundles: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    leader: int = -1

    def __call__(self, part: pa.Table) -> pa.Table:
        """Keep them."""
        code = part[CODE].to_numpy()
        kept = np.isin(code, self.codes)
        for name, values in (("bundle", self.bundles), ("namespace", self.namespaces)):
            if values:
                found = pc.is_in(part[name], value_set=pa.array(values, pa.string()))
                kept |= found.to_numpy(zero_copy_only=False)
        if self.leader >= 0:
            is_bound = part["is_broker_bound"].to_numpy(zero_copy_only=False)
            kept |= (part[OWN].to_numpy() == self.leader) & (code < 0) & ~is_bound
        return part.filter(pa.array(kept))


@dataclass(frozen=True)
class ByBroker:
    """Deals out brokers, those of neighbouring rows to different groups."""

    groups: int

    def __call__(self, rows: pa.Table) -> Ints:
        """Return the group of each row."""
        return np.asarray(rows[CODE].to_numpy() % self.groups, np.int64)


@dataclass(frozen=True, eq=False)
class Measured:
    """What is summed up of each bundle that somebody reports, by the view that decisions go by.

    Attributes:
        frame: Manifest and policies.
        has_names: Whether names are told; else they have none.
    """

    frame: PulsarSnapshot
    has_names: bool

    def __call__(self, part: pa.Table) -> pa.Table:
        """Return a row a bundle, in their order."""
        rows = part.filter(pc.greater_equal(part[CODE], 0))
        _, view = view_of_group(self.frame, rows, has_names=self.has_names)
        basis = SheddingBasis.of(view)
        return pa.table(
            {
                CODE: rows[CODE],
                "is_measured": basis.is_measured,
                "is_movable": basis.is_movable,
                "is_fresh": pc.is_null(rows["long_msg_rate_in"]),
                "long_rate": view.bundle_long_rate,
                "rate": view.bundle_msg_rate,
            }
        )


def totaled(rows: pa.Table) -> pa.Table:
    """Sum up what :class:`Measured` gives, by broker; all rows of each are there, in order."""
    codes, local = np.unique(rows[CODE].to_numpy(), return_inverse=True)
    flags = {
        name: rows[f"is_{name}"].to_numpy(zero_copy_only=False)
        for name in ("measured", "movable", "fresh")
    }
    counts = {
        name: np.bincount(local[is_one], minlength=codes.size) for name, is_one in flags.items()
    }
    fresh, rate = flags["fresh"], rows["rate"].to_numpy()
    return pa.table(
        {
            CODE: codes.astype(np.int32),
            "reported": np.bincount(local, minlength=codes.size),
            "measured": counts["measured"],
            "movable": counts["movable"],
            "long_rate": np.bincount(
                local, weights=rows["long_rate"].to_numpy(), minlength=codes.size
            ),
            "fresh": counts["fresh"],
            "fresh_rate": np.bincount(local[fresh], weights=rate[fresh], minlength=codes.size),
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
    whole = {name: group[name] for name in group.column_names if name not in _OWN_COLUMNS}
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
