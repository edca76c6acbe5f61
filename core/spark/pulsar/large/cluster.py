"""A large cluster: its small tables here, its bundles on Spark, and what is summed up of them.

Everything that has a row a broker is small and lives in this process. Bundles are brought here by
broker, when a kernel needs those of one. What a kernel needs of *all* bundles are sums and
counts by broker: each part of the file is laid out by the same view as in process, and of that a
few narrow columns are distributed by broker and added up in the order of the snapshot's rows,
so that sums have the same last bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.progress import Progress
from core.pulsar.bundle_counts import Ints
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import Floats
from core.schemas import PULSAR_TABLES, conform
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.store import load_manifest, read_table
from core.spark.lift import Kernel
from core.spark.progress import followed
from core.spark.pulsar.large.scan import (
    CODE,
    NAMED,
    OWN,
    PIECES,
    ROW,
    Coder,
    Cut,
    Edits,
    Part,
    Reader,
    each_group,
    each_part,
    parts_of,
)
from core.spark.pulsar.large.sums import (
    KEYS,
    OWNED,
    PAIRS,
    RATES,
    TOTALED,
    TOTALS,
    BundleFilter,
    ByBroker,
    MapKeys,
    Pairs,
    ReportedSums,
    added_up,
    owned,
    totaled,
)
from core.spark.tables import MAX_ROWS, collected, snapshot_rows

SMALL: Final = ("brokers", "settings", "policies", "broker_loads", "top_bundles")
"""Tables with a few rows a broker at most."""

NEEDED: Final = (
    *("bundle", "namespace", "lower", "upper", "owner", "owner_source", "reported_by"),
    *("is_broker_bound", "topic_count"),
    *RATES,
)
"""Columns of bundles that decisions go by."""

CLIENTS: Final = ("producer_count", "consumer_count")

_ROWS_A_SUM: Final = 500_000
"""Rows, of six narrow columns, that one task sums up."""


_MAX_PAIRS: Final = 50_000_000


_NO_BUNDLE: Final[list[tuple[str, str, object]]] = [("subject_kind", "!=", "bundle")]
"""Claims of brokers, the leader and its averages: sessions and times, not one for each bundle."""


@dataclass(frozen=True, eq=False)
class OwnedBundles:
    """Movable bundles by owner.

    Attributes:
        counts: By broker row; shape ``(n_brokers,)``.
        unclear: Those of unknown owner.
    """

    counts: Floats
    unclear: int


@dataclass(frozen=True, eq=False)
class LargeCluster:
    """A snapshot directory whose bundles stay on Spark.

    Attributes:
        spark: Session; its executors must be able to read the directory.
        directory: Of the snapshot.
        manifest: Its manifest.
        progress: Receives the tasks done.
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
        tables["claims"] = self._claims([_NO_BUNDLE])
        return PulsarSnapshot.build(self.manifest, tables)

    def settings(
        self, overrides: Mapping[str, object] | None = None, release: str | None = None
    ) -> EffectiveSettings:
        """Return the active settings with assumptions on top.

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
    def leader_claims(self) -> pa.Table:
        """Claims of the leading broker, whose age shows what it placed on itself, and sessions."""
        return self._claims([_NO_BUNDLE, [("broker", "=", self.manifest.leader or "")]])

    def _claims(self, filters: list[list[tuple[str, str, object]]]) -> pa.Table:
        """Read the claims that one of some filters lets through."""
        path = self.directory / "claims.parquet"
        schema = PULSAR_TABLES["claims"]
        if not path.exists():
            return schema.empty_table()
        return conform(pq.read_table(path, filters=filters), schema, name="claims")

    @cached_property
    def broker_bound(self) -> PulsarSnapshot:
        """The skeleton with the heartbeat and SLA bundles, a few a broker, and their claims."""
        schema = PULSAR_TABLES["bundles"]
        stored = self.stored.where(sf.col("is_broker_bound")).orderBy(ROW)
        wanted = pa.schema([schema.field(name) for name in (*NEEDED, *CLIENTS)])
        with followed(self.spark, self.progress, "reading heartbeat bundles"):
            found = collected(stored.select(*wanted.names), wanted)
        names = found["bundle"].to_pylist()
        tables = {
            **self.skeleton.tables,
            "bundles": conform(found, schema, name="bundles"),
            "claims": self._claims([_NO_BUNDLE, *([[("subject", "in", names)]] if names else [])]),
        }
        return PulsarSnapshot.build(self.manifest, tables)

    @cached_property
    def quota_bundles(self) -> tuple[str, ...]:
        """Bundles with a resource quota of their own."""
        policies = self.skeleton.policies
        rows = policies.filter(pc.equal(policies["kind"], "resource_quota"))
        return tuple(name for name in rows["name"].to_pylist() if name != "default")

    # -- bundles on Spark -----------------------------------------------------------------------

    @cached_property
    def stored(self) -> DataFrame:
        """Needed columns and clients as the snapshot has them, and the row number, for Spark."""
        schema = PULSAR_TABLES["bundles"]
        wanted = pa.schema([schema.field(name) for name in (*NEEDED, *CLIENTS)])
        read = snapshot_rows(
            self.spark, {self.manifest.cluster: self.directory}, "bundles", wanted, row_number=ROW
        )
        return read.drop("cluster")

    @property
    def _file(self) -> Path:
        return self.directory / "bundles.parquet"

    @property
    def _path(self) -> str:
        return str(self._file.absolute())

    @property
    def edits(self) -> Edits | None:
        """Changes of bundles since they were written, or ``None``."""
        return None

    @cached_property
    def coder(self) -> Coder:
        """Numbers the brokers of bundles."""
        return Coder(self.brokers, self.manifest.load_manager)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Columns of the bundles that one task reads."""
        return parts_of(self._file)

    def ask(
        self,
        kernel: Kernel,
        columns: Iterable[str],
        schema: pa.Schema,
        words: str,
        *,
        limit: int = MAX_ROWS,
    ) -> pa.Table:
        """Bring here what a kernel answers to the bundles, which it gets part by part.

        Args:
            kernel: Gets the columns, and :mod:`core.spark.pulsar.large.scan`'s own ones.
            columns: Of the bundles table.
            schema: Of the answers, in no particular order.
            words: What is being done.
            limit: Rows of all answers.
        Raises:
            ComputeError: Spark failed, or there are more rows.
        """
        answers = each_part(self.spark, self.parts, self._reader(columns), kernel, schema)
        with followed(self.spark, self.progress, words):
            return collected(answers, schema, limit=limit)

    def pieces(self, cut: Cut, columns: Iterable[str]) -> DataFrame:
        """Return the bundles cut into packed pieces.

        See :func:`core.spark.pulsar.large.scan.each_group`.

        Args:
            cut: By what.
            columns: Of the bundles table, that it needs.
        """
        return each_part(self.spark, self.parts, self._reader(columns), cut, PIECES)

    def _reader(self, columns: Iterable[str]) -> Reader:
        return Reader(self._path, self.coder, tuple(columns), self.edits)

    @cached_property
    def totals(self) -> pa.Table:
        """Sums and counts by broker, in the order of their rows; see :data:`TOTALS`."""
        names = ("bundle",) if self.quota_bundles else ()
        measured = ReportedSums(self.skeleton_frame(), bool(self.quota_bundles))
        groups = max(self.bundle_count // _ROWS_A_SUM, 2)
        pieces = self.pieces(Cut(measured, ByBroker(groups)), (*names, *TOTALED))
        with followed(self.spark, self.progress, "summing up bundles by broker"):
            found = collected(each_group(pieces, totaled, TOTALS), TOTALS)
        return found.sort_by(CODE)

    @cached_property
    def owned(self) -> OwnedBundles:
        """Movable bundles by owner."""
        columns = ("owner", "owner_source", "is_broker_bound")
        found = self.ask(owned, columns, OWNED, "counting bundles by owner")
        own, bundles = found[OWN].to_numpy(), found["bundles"].to_numpy()
        known = own >= 0
        counts = np.bincount(own[known], bundles[known], minlength=len(self.brokers))
        return OwnedBundles(counts.astype(np.float64), int(found["unclear"].to_numpy().sum()))

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return NEEDED

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
            chosen: Keeps them, of a part with :attr:`fetched`.
            words: What is read.
        Raises:
            ComputeError: They are too many for one process.
        """
        schema = PULSAR_TABLES["bundles"]
        codes = [pa.field(name, pa.int32()) for name in (OWN, NAMED, CODE)]
        fields = [*map(schema.field, self.fetched), *codes, pa.field(ROW, pa.int64())]
        found = self.ask(chosen, self.fetched, pa.schema(fields), words).sort_by(ROW)
        counted = pa.array(found[CODE].to_numpy(), mask=found[CODE].to_numpy() < 0)
        names = pa.array(self.brokers, pa.string()).take(counted)
        at = found.schema.get_field_index("reported_by")
        return found.set_column(at, found.schema.field(at), names)

    def named(self, bundles: Iterable[str]) -> pa.Table:
        """Bring bundles here by their names; those that are not there are left out."""
        return self.fetch(BundleFilter(bundles=tuple(bundles)), "searching bundles by name")

    def pairs(self, namespaces: Collection[str]) -> pa.Table:
        """Return the number of each namespace's bundles per broker; see :data:`PAIRS`."""
        kernel = Pairs(tuple(sorted(namespaces)))
        words = "counting bundles by namespace"
        return added_up([self.ask(kernel, ("namespace",), PAIRS, words, limit=_MAX_PAIRS)])

    def map_keys(self, shared: Kernel, words: str) -> pa.Table:
        """Bring here some keys of the leader's map of averages.

        Args:
            shared: Keeps some of :data:`KEYS`, whatever the others are.
            words: What is being done.
        """
        kernel = MapKeys(self.skeleton_frame(), shared)
        return self.ask(kernel, ("bundle", *TOTALED), KEYS, words)

    def skeleton_frame(self) -> PulsarSnapshot:
        """Cluster data that every task needs: its kind and its policies."""
        manifest = replace(self.manifest, problems=(), tables={})
        return PulsarSnapshot.build(manifest, {"policies": self.skeleton.policies})
