"""A large cluster after some rounds of a simulation: what has changed of its bundles, and no copy.

The bundles stay on Spark as the snapshot has them, packed and dealt out by broker. What rounds
change is little: who moved, which this process keeps, and how many samples the averages have taken
since, which makes them anew whenever somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from core.health.measures import Measures, column_values, measure
from core.pulsar.ranges import Codes
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats
from core.schemas import PULSAR_TABLES
from core.simulation.averages import AVERAGES, after_each, known_sums, seeds_of, set_column, sums
from core.simulation.model import Landed
from core.snapshot import PulsarSnapshot
from core.spark.large.cluster import NEEDED, LargeCluster
from core.spark.large.health import SparkBundles
from core.spark.large.scan import CODE, NAMED, OWN, ROW, Coder, Cut, joined
from core.spark.large.sums import TOTALS, ByBroker, Measured, totaled
from core.spark.lift import Kernel
from core.spark.progress import followed
from core.spark.tables import MOST_ROWS, collected

SIMULATED: Final = (
    *NEEDED,
    *("short_samples", "long_samples", "producer_count", "consumer_count", "cache_size_bytes"),
)
"""Columns of bundles that a simulation goes by."""

SINCE: Final = "since"
_ROWS_A_GROUP: Final = 65_536
_SUMS: Final = pa.schema([*TOTALS, *(pa.field(f"sum_{name}", pa.float64()) for name in AVERAGES)])
"""One row a broker; sums of averages over the bundles that its report names."""


_MOVED: Final = pa.schema(
    [
        *(PULSAR_TABLES["bundles"].field(name) for name in SIMULATED),
        *(pa.field(name, pa.int32()) for name in (OWN, NAMED, CODE)),
        *(pa.field(name, pa.int64()) for name in (ROW, SINCE)),
    ]
)


@dataclass(frozen=True, eq=False)
class Kept:
    """The bundles of a cluster at the start, packed by broker, for as long as a simulation goes on.

    Attributes:
        origin: The cluster.
        pieces: Kept by the executors.
        groups: How many groups of brokers.
    """

    origin: LargeCluster
    pieces: DataFrame
    groups: int

    @classmethod
    def of(cls, origin: LargeCluster) -> Kept:
        """Deal them out; nothing is read before somebody asks."""
        groups = max(origin.bundle_count // _ROWS_A_GROUP, 2)
        pieces = origin.pieces(Cut(_whole, ByBroker(groups)), SIMULATED)
        return cls(origin, pieces.repartition(groups, "group").persist(), groups)

    def drop(self) -> None:
        """Let the executors forget them."""
        self.pieces.unpersist()


def _whole(part: pa.Table) -> pa.Table:
    return part


@dataclass(frozen=True, eq=False)
class Evolved(LargeCluster):
    """The cluster after some rounds.

    Attributes:
        kept: Its bundles at the start.
        brokers_after: Brokers with the load that followed the bundles, averages aside.
        moved: Bundles that moved, as they were when they did, but for where they are;
            :data:`SINCE`: first round whose samples they take.
        samples: How many samples of every bundle the leader took in each round.
        owned: Movable bundles that each broker owns.
        unclear: Movable bundles whose owner nobody could tell.
    """

    kept: Kept
    brokers_after: pa.Table
    moved: pa.Table
    samples: tuple[int, ...]
    owned: Floats
    unclear: int

    @classmethod
    def start(cls, origin: LargeCluster) -> Evolved:
        """Return the cluster before the first round."""
        bundles = SparkBundles(origin)
        kept = Kept.of(origin)
        return cls(
            origin.spark,
            origin.directory,
            origin.manifest,
            origin.progress,
            kept,
            origin.skeleton.brokers,
            _MOVED.empty_table(),
            (),
            bundles.settled_counts,
            bundles.unclear,
        )

    # -- what a cluster tells, as it is now -----------------------------------------------------

    @cached_property
    def skeleton(self) -> PulsarSnapshot:
        """Brokers as they are now."""
        brokers = self.brokers_after
        if self.samples:
            for name in AVERAGES:
                totals = np.zeros(brokers.num_rows)
                totals[self._sums[CODE].to_numpy()] = self._sums[f"sum_{name}"].to_numpy()
                brokers = set_column(brokers, name, known_sums(brokers, name, totals))
        tables = {**self.kept.origin.skeleton.tables, "brokers": brokers}
        return PulsarSnapshot.build(self.manifest, tables)

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids in row order, which stay."""
        return self.kept.origin.brokers

    @cached_property
    def namespaces(self) -> pa.Table:
        """The declared namespaces, which stay."""
        return self.kept.origin.namespaces

    @cached_property
    def quota_bundles(self) -> tuple[str, ...]:
        """Bundles with a quota of their own, which stay."""
        return self.kept.origin.quota_bundles

    @cached_property
    def has_report(self) -> Flags:
        """Whether anything of each broker's report is known: what is not known stays so."""
        return self.kept.origin.has_report

    @cached_property
    def coder(self) -> Coder:
        """Numbers brokers; whatever has moved is reported from then on."""
        before = self.kept.origin.coder
        return replace(before, is_reported=before.is_reported or self.moved.num_rows > 0)

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return SIMULATED

    def skeleton_frame(self) -> PulsarSnapshot:
        """What every task needs of the cluster."""
        return self.kept.origin.skeleton_frame()

    def ask(
        self,
        kernel: Kernel,
        columns: Iterable[str],  # noqa: ARG002  # they are all there
        schema: pa.Schema,
        words: str,
        *,
        most: int = MOST_ROWS,
    ) -> pa.Table:
        """Bring here what a kernel answers to the bundles as they are now, group by group."""
        told = _each_kept(self.kept.pieces, self._change, kernel, schema)
        with followed(self.spark, self.progress, words):
            return collected(told, schema, most=most)

    @property
    def _change(self) -> Change:
        frame = self.skeleton_frame() if self.quota_bundles else None
        return Change(self.coder, self.moved, self.samples, self.kept.groups, frame)

    @cached_property
    def _sums(self) -> pa.Table:
        kernel = _Sums(Measured(self.skeleton_frame(), bool(self.quota_bundles)))
        words = "summing up bundles by broker"
        return self.ask(kernel, SIMULATED, _SUMS, words).sort_by(CODE)

    @cached_property
    def totals(self) -> pa.Table:
        """Sums and counts by broker."""
        return self._sums.select(TOTALS.names)

    # -- rounds ---------------------------------------------------------------------------------

    def after(
        self, brokers: pa.Table, rows: pa.Table, moves: Sequence[Landed], samples: int
    ) -> Evolved:
        """Return the cluster after moves and the samples of their reports.

        Args:
            brokers: With the load that follows.
            rows: The bundles that move, in the order of the moves, as they were brought here.
            moves: Where each goes.
            samples: How many the leader takes.
        """
        counts = (*self.samples, samples)
        if not moves:
            return replace(self, brokers_after=brokers, samples=counts)
        place = {name: row for row, name in enumerate(self.brokers)}
        ends = np.array([place[str(move.destination)] for move in moves], np.int32)
        owned, unclear = self._owned_after(rows, ends)
        return replace(
            self,
            brokers_after=brokers,
            moved=self._moved_after(rows, ends),
            samples=counts,
            owned=owned,
            unclear=unclear,
        )

    def _moved_after(self, rows: pa.Table, ends: Codes) -> pa.Table:
        names = pa.array(self.brokers, pa.string()).take(pa.array(ends))
        for name, values in (("owner", names), ("reported_by", names)):
            rows = set_column(rows, name, values)
        for name in (OWN, NAMED, CODE):
            rows = set_column(rows, name, pa.array(ends, pa.int32()))
        since = np.full(rows.num_rows, len(self.samples))
        rows = rows.append_column(SINCE, pa.array(since))
        if not self.moved.num_rows:
            return rows
        again = pc.is_in(self.moved[ROW], value_set=rows[ROW].combine_chunks())
        return pa.concat_tables([self.moved.filter(pc.invert(again)), rows]).combine_chunks()

    def _owned_after(self, rows: pa.Table, ends: Codes) -> tuple[Floats, int]:
        own = rows[OWN].to_numpy()
        owned = self.owned.copy()
        np.subtract.at(owned, own[own >= 0], 1)
        np.add.at(owned, ends, 1)
        nobody = pc.and_(pc.is_null(rows["owner"]), pc.is_null(rows["owner_source"]))
        return owned, self.unclear - int(pc.sum(nobody).as_py() or 0)

    def measures(self, settings: EffectiveSettings) -> Measures:
        """Return how even the load is."""
        counts = np.where(self.owned == 0, np.nan, self.owned) if self.unclear else self.owned
        snapshot = PulsarSnapshot.build(self.manifest, self.skeleton.tables)
        snapshot.derived.get("owned_bundle_counts", lambda: counts)
        return measure(snapshot, settings)


@dataclass(frozen=True, eq=False)
class Change:
    """Makes the bundles of a group what they are now.

    Attributes:
        coder: Numbers brokers as the leader counts now.
        moved: Of all groups.
        samples: Of each round.
        groups: How many there are.
        frame: Manifest and policies where some bundle has a quota; ``None``: none has.
    """

    coder: Coder
    moved: pa.Table
    samples: tuple[int, ...]
    groups: int
    frame: PulsarSnapshot | None

    def __call__(self, group: int, rows: pa.Table) -> pa.Table:
        """Return them in the order of the snapshot's rows."""
        rows = rows.append_column(SINCE, pa.array(np.zeros(rows.num_rows, np.int64)))
        if self.moved.num_rows:
            gone = pc.is_in(rows[ROW], value_set=self.moved[ROW].combine_chunks())
            there = pa.array(self.moved[CODE].to_numpy() % self.groups == group)
            came = self.moved.filter(there).select(rows.column_names).cast(rows.schema)
            rows = pa.concat_tables([rows.filter(pc.invert(gone)), came]).sort_by(ROW)
        code = self.coder.counted_for(rows[OWN].to_numpy(), rows[NAMED].to_numpy())
        rows = set_column(rows, CODE, pa.array(code, pa.int32()))
        return self._aged(rows).drop_columns(SINCE)

    def _aged(self, rows: pa.Table) -> pa.Table:
        seeds = {}
        if self.frame is not None:
            tables = {**self.frame.tables, "bundles": rows}
            seeds = dict(seeds_of(PulsarSnapshot.build(self.frame.manifest, tables)))
        reported = rows[NAMED].to_numpy() >= 0
        return after_each(rows, reported, seeds, self.samples, rows[SINCE].to_numpy())


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums and counts of a group's brokers."""

    measured: Measured

    def __call__(self, rows: pa.Table) -> pa.Table:
        found = totaled(self.measured(rows))
        codes, named = found[CODE].to_numpy(), rows[NAMED].to_numpy()
        reporter = np.where(named >= 0, np.searchsorted(codes, named), -1)
        for name in AVERAGES:
            values = sums(reporter, column_values(rows, name), codes.size)
            found = found.append_column(f"sum_{name}", pa.array(values))
        return found.cast(_SUMS)


def _each_kept(pieces: DataFrame, change: Change, kernel: Kernel, schema: pa.Schema) -> DataFrame:
    """Return what a kernel answers to each group as it is now; a task has a group, or a few."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if not held:
            return
        whole = pa.Table.from_batches(held)
        for group in pc.unique(whole["group"]).to_pylist():
            rows = joined(whole.filter(pc.equal(whole["group"], group)))
            yield from kernel(change(group, rows)).select(schema.names).to_batches()

    return pieces.mapInArrow(run, from_arrow_schema(schema))
