"""Order of equal bundles in the leader's own map, without the map.

The order in which a ``ConcurrentHashMap`` took its keys shows only between keys of one bucket, and
only those decide that ever shared a bucket with it: a handful, whatever the map's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from core.ids import namespace_of
from core.pulsar.bundle_counts import Ints
from core.pulsar.java.maps import (
    MIN_BUCKETS,
    concurrent_bucket,
    concurrent_buckets,
    natural_order,
    shared_bucket,
)
from core.pulsar.view import Flags


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Arrival order of bundles in the leader's map: by broker, then by name (SHED-1).

    Attributes:
        before: How many keys came before those of each broker; shape (n_brokers,).
        is_split: Brokers whose keys came partly before and partly after the map doubled.
        count: Keys of the map.
    """

    before: Ints
    is_split: Flags
    count: int

    @classmethod
    def of(cls, brokers: Sequence[str], measured: Ints) -> Self:
        """Make it of broker names and how many keys each has, in the same order."""
        before = np.zeros(len(brokers), np.int64)
        order = natural_order(brokers)
        before[order] = np.cumsum(measured[order]) - measured[order]
        count = int(measured.sum())
        is_split = np.zeros(before.size, np.bool_)
        for size in _sizes(count):
            is_split |= (before * 4 < size * 3) & ((before + measured) * 4 > size * 3)
        return cls(before, is_split, count)

    def decide(self, code: Ints, hashes: Ints, buckets: Ints) -> Flags:
        """Return keys that ever shared one of the buckets, or record when others arrived.

        Args:
            code: Broker row of each key.
            hashes: Of :func:`core.pulsar.java.maps.spread_hashes`.
            buckets: Of the whole map.
        """
        inserted = self.before[code]
        shared = self.is_split[code] | _is_one_of(hashes, buckets, concurrent_buckets(self.count))
        for size in _sizes(self.count):
            early = np.flatnonzero(inserted * 4 < size * 3)
            shared[early] |= _is_one_of(hashes[early], buckets, size)
        return np.asarray(shared, np.bool_)

    def orders(
        self, names: Sequence[str], code: Ints, hashes: Ints, buckets: Ints
    ) -> Mapping[int, Mapping[str, int]]:
        """Return the rank of each key within its bucket.

        How many keys came before each is exact only where it matters. The keys of a broker
        came one after the other, so most brokers' all came into a table of one size: there the
        order among those that decide is all there is to know.

        Args:
            names: Of the keys that :meth:`decide`.
            code: Broker row of each.
            hashes: Of each.
            buckets: Of the whole map.
        """
        spaces, place = np.unique([namespace_of(name) for name in names], return_inverse=True)
        ranks = np.empty(spaces.size, np.int64)
        ranks[natural_order(spaces.tolist())] = np.arange(spaces.size)
        start = self.before[code]
        order = np.lexsort((np.array(names, np.str_), ranks[place], start))
        start, hashes = start[order], hashes[order]
        inserted = start + np.arange(start.size) - np.searchsorted(start, start)
        found = {}
        for bucket in buckets.tolist():
            shared = np.flatnonzero(shared_bucket(hashes, inserted, self.count, bucket))
            within = concurrent_bucket(hashes[shared], inserted[shared], self.count, bucket)
            found[bucket] = {
                names[at]: rank for rank, at in enumerate(order[shared[within]].tolist())
            }
        return found


def _sizes(count: int) -> Iterator[int]:
    """Yield the sizes that the map had before the last one."""
    size, whole = MIN_BUCKETS, concurrent_buckets(count)
    while size < whole:
        yield size
        size *= 2


def _is_one_of(hashes: Ints, buckets: Ints, size: int) -> Flags:
    """Return the keys in one of the buckets of a table of a size."""
    wanted = np.zeros(size, np.bool_)
    wanted[buckets & (size - 1)] = True
    return np.asarray(wanted[hashes & (size - 1)], np.bool_)


def doubtful(slots: Ints) -> Ints:
    """Return the buckets that more than one of some keys are in; ``slots``: the bucket of each."""
    buckets, times = np.unique(slots, return_counts=True)
    return np.asarray(buckets[times > 1], np.int64)


def ranks_within(
    orders: Mapping[int, Mapping[str, int]], names: Sequence[str], slots: Ints
) -> Ints:
    """Return the rank of each key within its bucket; 0 in a bucket whose order is not given.

    Args:
        orders: Of :meth:`Arrivals.orders`.
        names: Of the keys.
        slots: The bucket of each.
    """
    ranks = np.zeros(slots.size, np.int64)
    for at in np.flatnonzero(np.isin(slots, list(orders))).tolist():
        ranks[at] = orders[int(slots[at])][names[at]]
    return ranks
