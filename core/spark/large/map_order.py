"""Where equal bundles stand in a map of Java's that holds all bundles, most of which are not here.

The order in which a ``ConcurrentHashMap`` took its keys shows only between keys of one bucket, and
only those decide that ever shared a bucket with it: a handful, whatever the map's size. They are
looked for on Spark, one group of brokers a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from core.pulsar.ranges import Ints
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.shedding.java_order import (
    concurrent_bucket,
    concurrent_buckets,
    natural_order,
    shared_bucket,
    spread_hashes,
)
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.spark.large.cluster import RATES, ROW, LargeCluster, view_of_group
from core.spark.lift import lift
from core.spark.progress import followed
from core.spark.tables import collected

_KEYS: Final = pa.schema(
    [
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("inserted", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class BucketOrders:
    """Orders within buckets of the leader's own map; kept, for they are the cluster's.

    Attributes:
        cluster: The whole.
        known: Rank of each bundle that was ever asked for, by bucket.
        asked: Buckets that were asked for and are not known yet.
    """

    cluster: LargeCluster
    known: dict[int, dict[str, int]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Keys of the map: measured bundles of the whole."""
        return int(self.cluster.total("measured").sum())

    def find(self) -> None:
        """Find the orders that were asked for, all of them in one job.

        Raises:
            ComputeError: Spark failed.
        """
        buckets = np.array(sorted(self.asked), np.int64)
        names, inserted = self._keys(buckets)
        hashes = spread_hashes(names.tolist())
        for bucket in buckets.tolist():
            shared = np.flatnonzero(shared_bucket(hashes, inserted, self.count, bucket))
            order = concurrent_bucket(hashes[shared], inserted[shared], self.count, bucket)
            ordered = names[shared[order]].tolist()
            self.known[bucket] = {name: rank for rank, name in enumerate(ordered)}
        self.asked.clear()

    def _keys(self, buckets: Ints) -> tuple[np.ndarray, Ints]:
        """Find the bundles that ever shared one of the buckets, and how many came before each."""
        before = np.zeros(len(self.cluster.brokers), np.int64)
        order = natural_order(self.cluster.brokers)
        measured = self.cluster.total("measured")[order]
        before[order] = np.cumsum(measured) - measured
        kernel = _Keys(self.cluster.skeleton_frame(), before, buckets, self.count)
        columns = ("bundle", "namespace", "is_broker_bound", "topic_count", *RATES)
        rows = self.cluster.by_broker(columns)
        with followed(self.cluster.spark, self.cluster.progress, "ordering equal bundles"):
            found = collected(lift(rows, ["group"], kernel, _KEYS), _KEYS)
        names = np.array(found["bundle"].to_pylist(), object)
        return names, found["inserted"].to_numpy()


@dataclass(frozen=True, eq=False)
class InsertionRanks:
    """Ranks in the leader's own map, of the bundles of one bucket that are asked for together.

    Attributes:
        orders: What is known of the whole.
        view: The bundles that are here.
    """

    orders: BucketOrders
    view: LoadView

    def __getitem__(self, rows: Ints) -> Ints:
        """Return ranks that order bundles of one bucket among each other; others have rank 0."""
        names = self.view.bundles[rows]
        slots = spread_hashes(names.tolist()) & (concurrent_buckets(self.orders.count) - 1)
        buckets, place, counts = np.unique(slots, return_inverse=True, return_counts=True)
        ranks = np.zeros(rows.size, np.int64)
        for at in np.flatnonzero(counts[place] > 1).tolist():
            bucket = int(buckets[place[at]])
            known = self.orders.known.get(bucket)
            if known is None:
                self.orders.asked.add(bucket)
            else:
                ranks[at] = known[names[at]]
        return ranks


@dataclass(frozen=True, eq=False)
class _Keys:
    """Picks, out of the bundles of some brokers, those that ever shared one of the buckets."""

    frame: PulsarSnapshot
    before: Ints
    buckets: Ints
    count: int

    def __call__(self, group: pa.Table) -> pa.Table:
        codes, view = view_of_group(self.frame, group.sort_by(ROW), has_names=True)
        rows = np.flatnonzero(SheddingBasis.of(view).is_measured)
        rows = rows[np.lexsort((*_by_name(view, rows), view.reporter[rows]))]
        reporter = view.reporter[rows]
        # brokers stand one after the other: the place within its own is the distance to its first
        first = np.searchsorted(reporter, np.arange(codes.size))
        inserted = self.before[codes][reporter] + np.arange(rows.size) - first[reporter]
        names = view.bundles[rows]
        spread = spread_hashes(names.tolist())
        chosen = np.zeros(rows.size, np.bool_)
        for bucket in self.buckets.tolist():
            chosen |= shared_bucket(spread, inserted, self.count, bucket)
        return pa.table(
            {"bundle": pa.array(names[chosen], pa.string()), "inserted": inserted[chosen]},
            schema=_KEYS,
        )


def _by_name(view: LoadView, rows: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Keys for a sort by namespace, numbers in it as numbers, and then by name; last one first."""
    ranks = np.empty(len(view.namespaces), np.int64)
    ranks[natural_order(view.namespaces)] = np.arange(len(view.namespaces))
    return view.bundles[rows].astype(np.str_), ranks[view.bundle_namespace[rows]]
