"""What every shedding strategy needs of a view: computed once, cached with the view."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from core.ids import SYSTEM_NAMESPACE
from core.pulsar.bundle_counts import Ints
from core.pulsar.java.maps import (
    concurrent_buckets,
    concurrent_order,
    hash_map_buckets,
    natural_order,
    spread_hashes,
    stable_descending,
)
from core.pulsar.shedding.map_order import Arrivals, doubtful, ranks_within
from core.pulsar.view import Flags, Floats, LoadView

_CACHED: Final = "_shedding_basis"
_SHORT: Final = np.iinfo(np.int16).max
_LARGE: Final = 5_000
"""A map of fewer bundles is laid out as a whole: that is sooner done."""

_MAX_BUCKETS: Final = 32
"""A map of which more buckets are needed is laid out as a whole, too."""


@lru_cache(maxsize=64)
def _map_order(names: tuple[str, ...]) -> Ints:
    """Return positions of brokers in the order of the map of the leader, which no round changes."""
    order = natural_order(names)
    found = order[concurrent_order(spread_hashes([names[at] for at in order]))]
    found.setflags(write=False)
    return found


@dataclass(frozen=True, eq=False)
class SheddingBasis:
    """Brokers in Java's order, and the bundles of each.

    Attributes:
        view: What it is made of.
    """

    view: LoadView

    @classmethod
    def of(cls, view: LoadView) -> SheddingBasis:
        """Return the basis of a view; the same one each time, as the view's own columns are."""
        cached = view.__dict__.get(_CACHED)
        if not isinstance(cached, cls):
            cached = cls(view)
            cached.keep()
        return cached

    def keep(self) -> None:
        """Make this the basis of its view: callers get this one from now on."""
        self.view.__dict__[_CACHED] = self

    @staticmethod
    def discard(view: LoadView) -> None:
        """Drop the basis of a view that is used no more.

        View and basis hold each other, so that their memory would wait for the garbage collector.
        """
        view.__dict__.pop(_CACHED, None)

    @cached_property
    def brokers(self) -> Ints:
        """Rows of the brokers whose load is known, in the order of the leader's own map."""
        view = self.view
        known = np.flatnonzero(view.has_report)
        return known[_map_order(tuple(view.brokers[row] for row in known))]

    @cached_property
    def broker_spread(self) -> Ints:
        """Java's hash of each of :attr:`brokers`, spread."""
        return spread_hashes([self.view.brokers[row] for row in self.brokers])

    @cached_property
    def is_measured(self) -> Flags:
        """Bundles of which the leader holds an average: those with statistics in a report."""
        view = self.view
        return (view.reporter >= 0) & view.is_measured

    @cached_property
    def is_movable(self) -> Flags:
        """Measured bundles of ordinary namespaces.

        Source:
            Pulsar ``LoadData#getBundleDataForLoadShedding``; 2.11.0 excludes ``pulsar/system``.
        """
        view = self.view
        movable = self.is_measured & ~view.is_broker_bound
        if not view.sheds_system:
            movable &= view.bundle_namespace != view.namespace_index.get(SYSTEM_NAMESPACE, -1)
        return movable

    @cached_property
    def bundle_counts(self) -> Ints:
        """Bundles in each broker's report, heartbeat bundles included; per broker row."""
        reporter = self.view.reporter
        brokers = np.append(reporter[reporter >= 0], self.view.further_reports[:, 1])
        return np.bincount(brokers, minlength=len(self.view.brokers))

    @cached_property
    def _grouped(self) -> tuple[Ints, Ints]:
        """Movable rows sorted by broker, and where each broker's begin."""
        rows = np.flatnonzero(self.is_movable)
        reporter = self.view.reporter[rows]
        further = self.view.further_reports
        if further.size:
            further = further[self.is_movable[further[:, 0]]]
            rows = np.append(rows, further[:, 0])
            reporter = np.append(reporter, further[:, 1])
        counts = np.bincount(reporter, minlength=len(self.view.brokers))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        if len(self.view.brokers) <= _SHORT:
            reporter = reporter.astype(np.int16)  # which numpy sorts several times as fast
        return rows[np.argsort(reporter, kind="stable")], offsets

    def bundles_of(self, broker: int) -> Ints:
        """Return the rows of the movable bundles that a broker reports."""
        rows, offsets = self._grouped
        return rows[offsets[broker] : offsets[broker + 1]]

    def recent(self, names: Collection[str]) -> Flags | None:
        """Return the bundles in their grace period, per bundle row, or ``None``."""
        view = self.view
        find = view.bundle_index.get if view.indexed_for(len(names)) else view.find_bundle
        rows = [row for row in map(find, names) if row is not None and row >= 0]
        if not rows:
            return None
        flags = np.zeros(view.bundles.size, np.bool_)
        flags[rows] = True
        return flags

    def falling(self, rows: Ints, keys: Floats) -> Ints:
        """Return positions of ``rows`` by falling key, ties in the order of the real class.

        Args:
            rows: Bundle rows.
            keys: What they are sorted by, same length.
        """
        order = stable_descending(keys)
        ordered = keys[order]
        ties = np.flatnonzero(ordered[1:] == ordered[:-1])
        if not ties.size:
            return order
        tied = np.union1d(ties, ties + 1)
        ranks = np.zeros(rows.size, np.int64)
        ranks[order[tied]] = self._java_ranks(rows[order[tied]])
        return np.lexsort((ranks, -keys))

    def _java_ranks(self, rows: Ints) -> Ints:
        """Return the rank of each bundle in the map that the real class streams.

        The leader keeps all bundles in a ``ConcurrentHashMap`` and makes a ``HashMap`` of the
        movable ones for every question.
        """
        spread = spread_hashes(self.view.bundles[rows].tolist())
        outer = spread & (hash_map_buckets(self._movable_count) - 1)
        inner = spread & (concurrent_buckets(self._measured_count) - 1)
        order = np.lexsort((inner, outer))
        pairs = np.stack([outer[order], inner[order]])
        if (pairs[:, 1:] == pairs[:, :-1]).all(axis=0).any():
            order = np.lexsort((self._bucket_ranks(rows, inner), inner, outer))
        return _ranks(order)

    @cached_property
    def _movable_count(self) -> int:
        return int(np.count_nonzero(self.is_movable))

    @cached_property
    def _measured_count(self) -> int:
        return int(np.count_nonzero(self.is_measured))

    def _bucket_ranks(self, rows: Ints, slots: Ints) -> Ints:
        """Return ranks of bundles that order those of one bucket of the leader's own map.

        Args:
            rows: Of measured bundles.
            slots: The bucket of each.
        """
        buckets, known = doubtful(slots), self._orders
        new = np.array([at for at in buckets.tolist() if at not in known], np.int64)
        if self._measured_count < _LARGE or len(known) + new.size > _MAX_BUCKETS:
            return self._insertion_ranks[rows]
        if new.size:
            known.update(self._ordered(new))
        return ranks_within(known, self.view.bundles[rows].tolist(), slots)

    @cached_property
    def _orders(self) -> dict[int, Mapping[str, int]]:
        """Orders within buckets that were needed so far."""
        return {}

    @cached_property
    def _measured(self) -> tuple[Ints, Ints, Ints]:
        """Measured rows, who reports each, and Java's hash of its name, spread."""
        view, rows = self.view, np.flatnonzero(self.is_measured)
        hashes = spread_hashes(view.bundles[rows].tolist())
        return rows, view.reporter[rows].astype(np.int64), hashes

    def _ordered(self, buckets: Ints) -> Mapping[int, Mapping[str, int]]:
        rows, code, hashes = self._measured
        counts = np.bincount(code, minlength=len(self.view.brokers))
        arrivals = Arrivals.of(self.view.brokers, counts)
        deciding = arrivals.decide(code, hashes, buckets)
        names = self.view.bundles[rows[deciding]].tolist()
        return arrivals.orders(names, code[deciding], hashes[deciding], buckets)

    @cached_property
    def _insertion_ranks(self) -> Ints:
        """Rank of every measured bundle in the leader's own map; seldom needed."""
        view = self.view
        rows, reporter, hashes = self._measured
        broker_rank, namespace_rank = (
            _ranks(natural_order(names)) for names in (view.brokers, view.namespaces)
        )
        by_name = view.bundles[rows].astype(np.str_)
        namespace = namespace_rank[view.bundle_namespace[rows]]
        order = np.lexsort((by_name, namespace, broker_rank[reporter]))
        ranks = np.zeros(view.bundles.size, np.int64)
        ranks[rows[order[concurrent_order(hashes[order])]]] = np.arange(rows.size)
        return ranks


def _ranks(order: Ints) -> Ints:
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.arange(order.size)
    return ranks
