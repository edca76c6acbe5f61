"""Bundles that a candidate splits: each half has half of what was recorded of the whole.

Splits of the record are followed as they were. A candidate splits by itself only where its own
settings say something about splits, for the record's balancer has split by the recorded ones
already. What the record never split has one column: its parts are shares of it.

Source: Pulsar ``ModularLoadManagerImpl#checkNamespaceBundleSplit``, ``BundleSplitterTask``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.history.backtest.dense import Ints
from core.history.backtest.fleet import Bundles
from core.history.backtest.leader import Leader
from core.history.backtest.model import Candidate
from core.history.backtest.series import LoadSeries
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split.algorithms import SplitLimits
from core.pulsar.view import LoadView

SWITCH: Final = "loadBalancerAutoBundleSplitEnabled"
UNLOADS: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"
SPLIT_SETTINGS: Final = frozenset(
    {
        SWITCH,
        UNLOADS,
        "loadBalancerNamespaceBundleMaxTopics",
        "loadBalancerNamespaceBundleMaxSessions",
        "loadBalancerNamespaceBundleMaxMsgRate",
        "loadBalancerNamespaceBundleMaxBandwidthMbytes",
        "loadBalancerNamespaceMaximumBundles",
    }
)
"""A candidate that sets one of these splits by itself."""

_FEWEST_TOPICS: Final = 2


class Roster:
    """All bundles of a run: the recorded ones, and parts of them at the end."""

    def __init__(self, series: LoadSeries) -> None:
        self._series = series
        count = series.shape[2]
        bundles = series.template.bundles
        self.names: list[str] = []
        self.column = np.arange(count)
        self.share = np.ones(count)
        self.is_whole = np.ones(count, np.bool_)
        self.lower = np.asarray(bundles["lower"].to_numpy(), np.int64)
        self.upper = np.asarray(bundles["upper"].to_numpy(), np.int64)
        self.is_bound = series.is_bound
        spaces = bundles["namespace"].combine_chunks().dictionary_encode().indices
        self.namespace = np.asarray(spaces.to_numpy(), np.int64)
        self._fields: dict[str, Any] = {}

    @property
    def has_grown(self) -> bool:
        """Whether anything was split."""
        return bool(self.names)

    def load(self, row: int) -> Bundles:
        """Return the load of all bundles in a minute of the record."""
        whole = Bundles.recorded(self._series, row)
        if not self.has_grown:
            return whole
        at, brokers = self.column, self._series.shape[1]
        here = whole.here[at] & self.is_whole
        owner = whole.owner[at]
        sign = np.where(self.is_whole, 1.0, -1.0)  # one that was split is counted in the record
        sign[: whole.here.size][self.is_whole[: whole.here.size]] = 0.0
        counts = np.bincount(owner + 1, weights=sign * whole.here[at], minlength=brokers + 1)
        return Bundles(
            rates=tuple(rate[at] * self.share for rate in whole.rates),
            topics=whole.topics[at] * self.share,
            clients=whole.clients[at] * self.share,
            here=here,
            is_known=whole.is_known[at],
            owner=np.where(here, owner, -1).astype(np.int32),
            reporter=np.where(here, whole.reporter[at], -1).astype(np.int32),
            surplus=counts[1:].astype(np.float64),
        )

    def halve(self, rows: Ints) -> Ints:
        """Split bundles in the middle of their ranges; return the bundle that each part is of."""
        self.names = self.names or [str(name) for name in self._series.bundles]
        middle = (self.lower[rows] + self.upper[rows]) // 2
        lower = np.stack([self.lower[rows], middle], axis=1).ravel()
        upper = np.stack([middle, self.upper[rows]], axis=1).ravel()
        parents = np.repeat(rows, 2)
        for parent, low, high in zip(parents.tolist(), lower.tolist(), upper.tolist(), strict=True):
            space = self.names[parent].rpartition("/")[0]
            self.names.append(f"{space}/0x{low:08x}_0x{high:08x}")
        self.is_whole[rows] = False
        self.is_whole = np.append(self.is_whole, np.ones(parents.size, np.bool_))
        self.column = np.append(self.column, self.column[parents])
        self.share = np.append(self.share, self.share[parents] / 2)
        self.is_bound = np.append(self.is_bound, self.is_bound[parents])
        self.namespace = np.append(self.namespace, self.namespace[parents])
        self.lower, self.upper = np.append(self.lower, lower), np.append(self.upper, upper)
        self._fields = {}
        return parents

    def fields(self, base: LoadView) -> dict[str, Any]:
        """Return the fields of a view that name bundles; none while nothing was split."""
        if self.has_grown and not self._fields:
            index = {name: row for row, name in enumerate(self.names)}
            self._fields = {
                "bundles": np.array(self.names, object),
                "bundle_names": pa.chunked_array([pa.array(self.names, pa.string())]),
                "shared_index": lambda: index,
                "bundle_namespace": base.bundle_namespace[self.column],
                "is_broker_bound": self.is_bound,
            }
        return self._fields


class Splitter:
    """The leader's check for bundles that are too large."""

    def __init__(self, settings: EffectiveSettings) -> None:
        self._limits = SplitLimits.of(settings)
        self.unloads = settings.flag(UNLOADS)

    @classmethod
    def of(
        cls, series: LoadSeries, candidate: Candidate, settings: EffectiveSettings
    ) -> Splitter | None:
        """Return the check of a candidate; ``None``: it does not split by itself."""
        is_own = not SPLIT_SETTINGS.isdisjoint(candidate.settings)
        is_modular = series.template.manifest.load_manager != "extensible"
        return cls(settings) if is_own and is_modular and settings.flag(SWITCH) else None

    def chosen(self, bundles: Bundles, roster: Roster, leader: Leader) -> Ints:
        """Return the rows that are split now, in row order (deviation SP-1).

        Args:
            bundles: Load now.
            roster: All bundles.
            leader: For its averages, and what it counts.
        """
        limits = self._limits
        rate, flow = leader.long_averages
        is_over = (bundles.topics > limits.topics) | (rate > limits.msgs_per_s)
        is_over |= flow > limits.bytes_per_s
        if limits.sessions > 0:
            is_over |= bundles.clients > limits.sessions
        may = bundles.here & (leader.counted >= 0) & ~roster.is_bound
        may &= (np.rint(bundles.topics) >= _FEWEST_TOPICS) & (roster.upper - roster.lower > 1)
        rows = np.flatnonzero(is_over & may)
        if not rows.size:
            return rows
        space = roster.namespace
        room = limits.bundles - np.bincount(space[bundles.here], minlength=int(space.max()) + 1)
        return rows[_turns(space[rows]) < room[space[rows]]]


def _turns(namespace: Ints) -> Ints:
    """Return how many of the same namespace come before each."""
    order = np.argsort(namespace, kind="stable")
    sorted_ = namespace[order]
    turns = np.empty(namespace.size, np.int64)
    turns[order] = np.arange(namespace.size) - np.searchsorted(sorted_, sorted_)
    return turns
