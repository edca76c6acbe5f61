"""How even the nodes are, as the meta server itself scores it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.pegasus.view import ClusterView


@dataclass(frozen=True)
class CountSpread:
    """Counts per node, in the view's numbering, and their spread.

    Attributes:
        primaries: Primaries of all tables, shape ``(n_nodes,)``.
        replicas: Replicas of either role, shape ``(n_nodes,)``.
        primary_stddev: Over nodes with a replica, two decimals.
        replica_stddev: The same of all replicas.
    """

    primaries: NDArray[np.int64]
    replicas: NDArray[np.int64]
    primary_stddev: float
    replica_stddev: float


def count_spread(view: ClusterView) -> CountSpread:
    """Measure a view whose nodes are all alive.

    Source:
        Pegasus ``greedy_load_balancer::score``, what ``cluster_info`` shows.
    """
    primaries = view.primary_counts.sum(axis=0, dtype=np.int64)
    replicas = view.replica_counts.sum(axis=0, dtype=np.int64)
    serving = replicas > 0
    return CountSpread(
        primaries,
        replicas,
        stddev(primaries[serving], is_sample=False),
        stddev(replicas[serving], is_sample=False),
    )


def stddev(counts: NDArray[np.int64], *, is_sample: bool) -> float:
    """Return the standard deviation as the meta server rounds it, 0 for fewer than two counts.

    Args:
        counts: Shape ``(n,)``.
        is_sample: Divide by n - 1: upstream does so while a dead node still has replicas.

    Source:
        Pegasus ``utils::mean_stddev``.
    """
    if len(counts) < 2:
        return 0.0
    exact = float(np.std(counts, ddof=1 if is_sample else 0))
    return math.trunc((exact + 0.005) * 100) / 100
