"""Pools: brokers that an isolation policy keeps apart, and between which nothing is evened out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.arrays import Floats
from core.findings.measures import Spread
from core.pulsar.view import LoadView


@dataclass(frozen=True, eq=False)
class Pools:
    """Brokers that share their load by policy.

    Attributes:
        brokers: Broker ids.
        pool: Number of the pool of each broker; empty: all brokers are one pool.
        policies: Names of the policies that separate them.
    """

    brokers: tuple[str, ...] = ()
    pool: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    policies: frozenset[str] = frozenset()

    @classmethod
    def of(cls, view: LoadView, usage: Floats, overload_ratio: float) -> Self:
        """Return the pools of a cluster.

        A policy separates where it is in force and does no harm: it has primary brokers, every
        bundle that it governs is on one of its brokers, and no broker is overloaded while its
        cluster has room.

        Args:
            view: The cluster.
            usage: The largest usage of a resource that follows the load, by broker, ratio.
            overload_ratio: From this usage on a separation is no longer fine.
        """
        if not view.policies or bool((np.nan_to_num(usage) >= overload_ratio).any()):
            return cls()
        governed = view.namespace_policy[view.bundle_namespace]
        owner = view.owner
        allowed = view.is_primary | view.is_secondary
        owned = (governed >= 0) & (owner >= 0)
        is_misplaced = owned & ~allowed[governed, owner]
        misplaced = set(governed[is_misplaced].tolist())
        kept = [
            row
            for row in range(len(view.policies))
            if row not in misplaced and view.is_primary[row].any()
        ]
        if not kept:
            return cls()
        _, pool = np.unique(view.is_primary[kept].T, axis=0, return_inverse=True)
        return cls(
            brokers=tuple(view.brokers),
            pool=np.asarray(pool, np.int64).reshape(-1),
            policies=frozenset(view.policies[row].name for row in kept),
        )

    def deviation(self, spread: Spread) -> float | None:
        """Return the max deviation of a broker from the mean of its pool, share of the mean."""
        known = spread.known
        if not known.any():
            return None
        if not self.pool.size or spread.brokers != self.brokers:
            return float(np.abs(spread.deviations[known]).max())
        pool, values = self.pool[known], spread.values[known]
        counts = np.bincount(pool)
        means = np.bincount(pool, weights=values) / np.maximum(counts, 1)
        overall = float(values.mean())
        if not overall:
            return 0.0
        # a pool with next to no load is not uneven for a broker with a little more of it
        scale = np.maximum(means, overall)[pool]
        return float((np.abs(values - means[pool]) / scale).max())
