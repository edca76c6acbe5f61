"""A large cluster after some rounds of a simulation: what has changed of its bundles, and no copy.

The bundles stay on Spark as the snapshot has them, packed and distributed by broker. What rounds
change is little: who moved, which this process keeps, and how many samples the averages have taken
since, which computes them again for every query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.arrays import column_values
from core.pulsar.averages import AVERAGES, known_sums, set_column, sums
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.measures import Measures, measure
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags
from core.schemas import conform
from core.schemas.pulsar import RATES
from core.simulation.model import SimulatedMove
from core.snapshot import PulsarSnapshot
from core.spark.lift import Kernel
from core.spark.progress import followed
from core.spark.pulsar.large.bundle_state import (
    MOVED,
    SIMULATED,
    SINCE,
    BundleChange,
    CachedBundles,
    aged,
)
from core.spark.pulsar.large.cluster import LargeCluster, OwnedBundles
from core.spark.pulsar.large.scan import CODE, NAMED, OWN, ROW, Coder
from core.spark.pulsar.large.sums import (
    KEYS,
    PAIRS,
    TOTALS,
    BundleFilter,
    ReportedSums,
    added_up,
    totaled,
)
from core.spark.tables import MAX_ROWS, collected

_SUMS: Final = pa.schema(
    [
        *TOTALS,
        pa.field("is_still", pa.bool_()),  # no further sample changes any average
        *(pa.field(f"sum_{name}", pa.float64()) for name in AVERAGES),
    ]
)
"""One row a broker; sums of averages over the bundles that its report names."""


@dataclass(frozen=True, eq=False)
class EvolvedCluster(LargeCluster):
    """The cluster after some rounds.

    Attributes:
        cached: Its bundles at the start.
        brokers_after: Brokers with the load that followed the bundles, averages aside.
        moved: Bundles that moved, as they were when they did, but for where they are;
            :data:`SINCE`: first round whose samples they take.
        samples: How many samples of every bundle the leader took in each round; the extensible
            manager's takes none.
        ownership: Movable bundles by owner.
        shifts: Table of :data:`PAIRS`: what moves add to, and take from, the counts of namespaces.
        summed: Sums of an earlier moment, :data:`_SUMS`; ``None`` if nothing is known yet.
        touched: Rows of the brokers that gave or took bundles since.
        published: Tables that brokers of the extensible manager have published since.
    """

    cached: CachedBundles
    brokers_after: pa.Table
    moved: pa.Table
    samples: tuple[int, ...]
    ownership: OwnedBundles
    shifts: pa.Table
    summed: pa.Table | None = None
    touched: frozenset[int] = frozenset()
    published: Mapping[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def start(cls, origin: LargeCluster) -> EvolvedCluster:
        """Return the cluster before the first round."""
        cached = CachedBundles.of(origin)
        return cls(
            origin.spark,
            origin.directory,
            origin.manifest,
            origin.progress,
            cached,
            origin.skeleton.brokers,
            MOVED.empty_table(),
            (),
            origin.owned,
            PAIRS.empty_table(),
        )

    # -- the cluster as it is now -----------------------------------------------------

    @cached_property
    def skeleton(self) -> PulsarSnapshot:
        """Brokers as they are now."""
        brokers = self.brokers_after
        if self.samples:
            for name in AVERAGES:
                totals = np.zeros(brokers.num_rows)
                totals[self._sums[CODE].to_numpy()] = self._sums[f"sum_{name}"].to_numpy()
                brokers = set_column(brokers, name, known_sums(brokers, name, totals))
        tables = {**self.cached.origin.skeleton.tables, **self.published, "brokers": brokers}
        return PulsarSnapshot.build(self.manifest, tables)

    @cached_property
    def brokers(self) -> tuple[str, ...]:
        """Broker ids in row order, which stay."""
        return self.cached.origin.brokers

    @cached_property
    def namespaces(self) -> pa.Table:
        """The declared namespaces, which stay."""
        return self.cached.origin.namespaces

    @cached_property
    def quota_bundles(self) -> tuple[str, ...]:
        """Bundles with a quota of their own, which stay."""
        return self.cached.origin.quota_bundles

    @cached_property
    def coder(self) -> Coder:
        """Numbers brokers, which stay."""
        return self.cached.origin.coder

    @cached_property
    def owned(self) -> OwnedBundles:
        """Movable bundles by owner."""
        return self.ownership

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return SIMULATED

    def skeleton_frame(self) -> PulsarSnapshot:
        """Cluster data that every task needs."""
        return self.cached.origin.skeleton_frame()

    def ask(
        self,
        kernel: Kernel,
        columns: Iterable[str],  # noqa: ARG002  # they are all there
        schema: pa.Schema,
        words: str,
        *,
        limit: int = MAX_ROWS,
    ) -> pa.Table:
        """Bring here what a kernel answers to the bundles as they are now, some brokers at once.

        Of bundles that are only picked, those of other brokers are not looked at.
        """
        keys = self._keys_of(kernel) if isinstance(kernel, BundleFilter) else None
        return self._asked(kernel, schema, words, keys, limit)

    def _asked(
        self, kernel: Kernel, schema: pa.Schema, words: str, keys: Ints | None, limit: int
    ) -> pa.Table:
        change = self._change
        answers = change.answer_with(self.cached.chosen(keys), kernel, schema)
        with followed(self.spark, self.progress, words):
            found = collected(answers, schema, limit=limit)
        # those that came to brokers without cached bundles
        ends = np.unique(self.cached.key_of(self.moved[CODE].to_numpy()))
        new = np.setdiff1d(ends if keys is None else np.intersect1d(ends, keys), self.cached.there)
        if not new.size:
            return found
        more = change.answered(kernel, new, change.nothing).select(schema.names)
        return pa.concat_tables([found, conform(more, schema, name="answer")])

    def _keys_of(self, chosen: BundleFilter) -> Ints | None:
        """Return the keys under which bundles may be that are picked; ``None`` for any."""
        if chosen.namespaces or chosen.owners or not set(chosen.bundles) <= set(self.quota_bundles):
            return None
        codes = np.array(
            [*chosen.codes, *([chosen.leader] if chosen.leader >= 0 else [])], np.int64
        )
        keys = [self.cached.key_of(codes)]
        if chosen.leader >= 0:
            keys.append(self.cached.uncounted_keys)
        if chosen.bundles:
            names = pa.array(chosen.bundles, pa.string())
            went = self.moved.filter(pc.is_in(self.moved["bundle"], value_set=names))
            keys += [self.cached.quota_keys, self.cached.key_of(went[CODE].to_numpy())]
        return self.cached.narrowed(np.unique(np.concatenate(keys)))

    def map_keys(self, shared: Kernel, words: str) -> pa.Table:
        """Fetch some keys of the leader's current map of averages."""
        stayed_keys = self._change.map_keys(self.cached.by_key, shared)
        with followed(self.spark, self.progress, words):
            stayed = collected(stayed_keys, KEYS)
        moved = shared(self._change.moved_keys(self.skeleton_frame()))
        return pa.concat_tables([stayed, moved])

    @cached_property
    def _change(self) -> BundleChange:
        return BundleChange(self.coder, self.moved, self.samples, self.cached.keys, self._frame)

    @property
    def _frame(self) -> PulsarSnapshot | None:
        """Initial averages of bundles with a quota, or ``None`` without quotas."""
        return self.skeleton_frame() if self.quota_bundles else None

    @cached_property
    def _sums(self) -> pa.Table:
        """Sums by broker; those of brokers whose bundles and averages stay are taken over."""
        kernel = _Sums(ReportedSums(self.skeleton_frame(), bool(self.quota_bundles)))
        words, known = "summing up bundles by broker", self.summed
        if known is None:
            return self._asked(kernel, _SUMS, words, None, MAX_ROWS).sort_by(CODE)
        moving = known.filter(pc.invert(known["is_still"]))[CODE].to_numpy()
        touched = np.array(sorted(self.touched), np.int64)
        keys = np.unique(self.cached.key_of(np.concatenate([moving, touched])))
        if not keys.size:
            return known
        few = self.cached.narrowed(keys)
        if few is None:
            return self._asked(kernel, _SUMS, words, None, MAX_ROWS).sort_by(CODE)
        stay = ~np.isin(self.cached.key_of(known[CODE].to_numpy()), keys)
        fresh = self._asked(kernel, _SUMS, words, keys, MAX_ROWS)
        return (
            pa.concat_tables([known.filter(pa.array(stay)), fresh]).combine_chunks().sort_by(CODE)
        )

    def pairs(self, namespaces: Collection[str]) -> pa.Table:
        """Return the number of each namespace's bundles per broker: initial ones, and moves."""
        names = pa.array(namespaces, pa.string())
        moves = self.shifts.filter(pc.is_in(self.shifts["namespace"], value_set=names))
        return added_up([self.cached.pairs_of(namespaces), moves])

    def have_counted(self, namespaces: Collection[str]) -> None:
        """Have bundles of namespaces counted at once that will be needed one after the other."""
        if namespaces:
            self.cached.pairs_of(namespaces)

    @cached_property
    def totals(self) -> pa.Table:
        """Sums and counts by broker."""
        return self._sums.select(TOTALS.names)

    # -- rounds ---------------------------------------------------------------------------------

    def after(
        self, brokers: pa.Table, rows: pa.Table, moves: Sequence[SimulatedMove], samples: int | None
    ) -> EvolvedCluster:
        """Return the cluster after moves and the samples of their reports.

        Args:
            brokers: With the load that follows.
            rows: The bundles that move, in the order of the moves, as they were brought here.
            moves: Where each goes.
            samples: How many the leader takes; ``None`` if it keeps no averages.
        """
        counts = self.samples if samples is None else (*self.samples, samples)
        known = self.__dict__.get("_sums")
        sums = (self.summed, self.touched) if known is None else (known, frozenset[int]())
        if samples is None and sums[0] is not None:
            sums = _all_still(sums[0]), sums[1]
        if not moves:
            return replace(
                self, brokers_after=brokers, samples=counts, summed=sums[0], touched=sums[1]
            )
        place = {name: row for row, name in enumerate(self.brokers)}
        ends = np.array([place[str(move.destination)] for move in moves], np.int32)
        counted = rows[CODE].to_numpy()
        given = counted >= 0
        both = np.concatenate([counted[given], ends])
        count = np.repeat([-1, 1], [given.sum(), ends.size])
        spaces = pa.concat_tables([rows.filter(pa.array(given)), rows])["namespace"]
        return replace(
            self,
            brokers_after=brokers,
            moved=self._moved_after(rows, ends),
            samples=counts,
            ownership=self._ownership_after(rows, ends),
            shifts=pa.concat_tables(
                [self.shifts, pa.table([spaces, both, count], PAIRS.names).cast(PAIRS)]
            ).combine_chunks(),
            summed=sums[0],
            touched=sums[1] | {int(code) for code in both},
        )

    def brought_after(self, rows: pa.Table, moved: Ints) -> pa.Table:
        """Return bundles that were brought here before the last round, as they are now.

        Args:
            rows: As :meth:`fetch` gave them.
            moved: Which of them moved in that round.
        """
        stay = np.ones(rows.num_rows, np.bool_)
        stay[moved] = False
        went = rows[ROW].combine_chunks().take(pa.array(moved))
        came = self.moved.filter(pc.is_in(self.moved[ROW], value_set=went))
        both = [rows.filter(pa.array(stay)), came.select(rows.column_names).cast(rows.schema)]
        return aged(pa.concat_tables(both).sort_by(ROW), self._frame, self.samples[-1:])

    def after_reports(self, snapshot: PulsarSnapshot) -> EvolvedCluster:
        """Return the cluster with what brokers published; ``snapshot``: has their tables."""
        published = {name: snapshot.tables[name] for name in ("broker_loads", "top_bundles")}
        return replace(self, manifest=snapshot.manifest, published=published)

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

    def _ownership_after(self, rows: pa.Table, ends: Codes) -> OwnedBundles:
        own = rows[OWN].to_numpy()
        counts = self.ownership.counts.copy()
        np.subtract.at(counts, own[own >= 0], 1)
        np.add.at(counts, ends, 1)
        unowned = pc.and_(pc.is_null(rows["owner"]), pc.is_null(rows["owner_source"]))
        return OwnedBundles(counts, self.ownership.unclear - int(pc.sum(unowned).as_py() or 0))

    def measures(self, settings: EffectiveSettings) -> Measures:
        """Return the evenness of the load."""
        counts = self.ownership.counts
        if self.ownership.unclear:
            counts = np.where(counts == 0, np.nan, counts)
        snapshot = PulsarSnapshot.build(self.manifest, self.skeleton.tables)
        snapshot.derived.get("owned_bundle_counts", lambda: counts)
        return measure(snapshot, settings)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums and counts of a group's brokers."""

    measured: ReportedSums

    def __call__(self, rows: pa.Table) -> pa.Table:
        found = totaled(self.measured(rows))
        codes, named = found[CODE].to_numpy(), rows[NAMED].to_numpy()
        still = np.bincount(
            rows[CODE].to_numpy()[_is_moving(rows)], minlength=codes.max(initial=0) + 1
        )
        found = found.append_column("is_still", pa.array(still[codes] == 0))
        reporter = np.where(named >= 0, np.searchsorted(codes, named), -1)
        for name in AVERAGES:
            values = sums(reporter, column_values(rows, name), codes.size)
            found = found.append_column(f"sum_{name}", pa.array(values))
        return found.cast(_SUMS)


def _all_still(sums: pa.Table) -> pa.Table:
    return set_column(sums, "is_still", pa.array(np.ones(sums.num_rows, np.bool_)))


def _is_moving(rows: pa.Table) -> Flags:
    """Return the bundles whose averages the next samples change."""
    moving = np.zeros(rows.num_rows, np.bool_)
    for rate in RATES:
        last = column_values(rows, rate)
        for term in ("short", "long"):
            moving |= np.isfinite(last) & (column_values(rows, f"{term}_{rate}") != last)
    return np.asarray(moving & (rows[NAMED].to_numpy() >= 0), np.bool_)
