"""Where equal bundles stand in a map of Java's that holds all bundles, most of which are not here.

The order in which a ``ConcurrentHashMap`` took its keys shows only between keys of one bucket, and
only those decide that ever shared a bucket with it: a handful, whatever the map's size. They are
looked for on Spark, one part of the bundles a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from core.ids import namespace_of
from core.pulsar.ranges import Ints
from core.pulsar.shedding.java_order import (
    LEAST_BUCKETS,
    concurrent_bucket,
    concurrent_buckets,
    natural_order,
    shared_bucket,
    spread_hashes,
)
from core.pulsar.view import Flags, LoadView
from core.spark.large.cluster import LargeCluster
from core.spark.large.scan import CODE
from core.spark.large.sums import HASH


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
        names, hashes, inserted = self._keys(buckets)
        for bucket in buckets.tolist():
            shared = np.flatnonzero(shared_bucket(hashes, inserted, self.count, bucket))
            order = concurrent_bucket(hashes[shared], inserted[shared], self.count, bucket)
            ordered = names[shared[order]].tolist()
            self.known[bucket] = {name: rank for rank, name in enumerate(ordered)}
        self.asked.clear()

    def _keys(self, buckets: Ints) -> tuple[np.ndarray, Ints, Ints]:
        """Find the bundles that ever shared one of the buckets, and how many came before each.

        Returns:
            Names, their hashes, and how many keys came before.


        How many came before is told exactly only where it matters. The keys of a broker came one
        after the other, so most brokers' all came into a table of one size: there the order among
        those that were found is all there is to know.
        """
        before = np.zeros(len(self.cluster.brokers), np.int64)
        order = natural_order(self.cluster.brokers)
        measured = self.cluster.total("measured")[order]
        before[order] = np.cumsum(measured) - measured
        halves = before, before + self.cluster.total("measured")
        kernel = _Shared(before, _met_a_doubling(*halves, self.count), buckets, self.count)
        return _ranked(self.cluster.map_keys(kernel, "ordering equal bundles"), before)


def _met_a_doubling(first: Ints, end: Ints, count: int) -> Flags:
    """Return which brokers' keys came partly before and partly after a doubling of the map."""
    met = np.zeros(first.size, np.bool_)
    for size in _sizes(count):
        met |= (first * 4 < size * 3) & (end * 4 > size * 3)
    return met


def _sizes(count: int) -> Iterator[int]:
    """Yield the sizes that the map had before the last one."""
    size, whole = LEAST_BUCKETS, concurrent_buckets(count)
    while size < whole:
        yield size
        size *= 2


def _ranked(found: pa.Table, before: Ints) -> tuple[np.ndarray, Ints, Ints]:
    """Return names of keys, their hashes, and how many came before each."""
    texts = found["bundle"].to_pylist()
    names = np.array(texts, object)
    spaces, place = np.unique([namespace_of(text) for text in texts], return_inverse=True)
    ranks = np.empty(spaces.size, np.int64)
    ranks[natural_order(spaces.tolist())] = np.arange(spaces.size)
    start = before[found[CODE].to_numpy()]
    order = np.lexsort((names.astype(np.str_), ranks[place], start))
    start = start[order]
    inserted = start + np.arange(start.size) - np.searchsorted(start, start)
    return names[order], found[HASH].to_numpy()[order], inserted


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
class _Shared:
    """Picks the keys that ever shared one of the buckets.

    Attributes:
        before: How many keys came before those of each broker.
        is_whole: Brokers all of whose keys are picked.
        buckets: Of the whole map.
        count: Keys of the map.
    """

    before: Ints
    is_whole: Flags
    buckets: Ints
    count: int

    def __call__(self, keys: pa.Table) -> pa.Table:
        code, spread = keys[CODE].to_numpy(), keys[HASH].to_numpy()
        chosen = self.is_whole[code] | self._shared(spread, self.before[code])
        return keys.filter(pa.array(chosen))

    def _shared(self, spread: Ints, inserted: Ints) -> Flags:
        """See :func:`core.pulsar.shedding.java_order.shared_bucket`; here for many buckets."""
        whole = concurrent_buckets(self.count)
        shared = _is_one_of(spread, self.buckets, whole)
        for size in _sizes(self.count):
            early = np.flatnonzero(inserted * 4 < size * 3)
            shared[early] |= _is_one_of(spread[early], self.buckets, size)
        return shared


def _is_one_of(spread: Ints, buckets: Ints, size: int) -> Flags:
    """Return which keys are in one of the buckets of a table of a size."""
    wanted = np.zeros(size, np.bool_)
    wanted[buckets & (size - 1)] = True
    return np.asarray(wanted[spread & (size - 1)], np.bool_)
