"""What no plan that reaches a goal can undercut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.pegasus.even.weights import Floats, Weights, node_loads
from core.pegasus.view import NO_NODE, ClusterView


@dataclass(frozen=True)
class LowerBound:
    """Bounds from what has to leave the nodes that are too full, and reach those too empty.

    Attributes:
        moved_weight: Weight that changes its node, in all.
        step_count: Steps: each relieves one node and fills one, by one replica at most.
        copy_mb: Megabytes, of the measure's part that role changes cannot carry; ``None``: sizes
            are not known.
    """

    moved_weight: float
    step_count: int
    copy_mb: float | None


def lower_bound(view: ClusterView, weights: Weights, within: float, sizes_mb: Floats) -> LowerBound:
    """Return bounds for bringing every node within ``mean * (1 +- within)``.

    Args:
        view: The state.
        weights: The measure.
        within: Tolerance, share of the mean.
        sizes_mb: Shape ``(n_partitions,)``; NaN: unknown.
    """
    loads = node_loads(view, weights)
    mean = float(loads.mean()) if len(loads) else 0.0
    excess = np.maximum(loads - mean * (1 + within), 0.0)
    missing = np.maximum(mean * (1 - within) - loads, 0.0)
    known = weights.is_known
    is_sized = not bool(np.isnan(sizes_mb[known]).any())
    steps, copy_mb = 0, 0.0
    for node in np.nonzero(excess > 0)[0]:
        is_primary = (view.members[:, 0] == node) & known
        is_secondary = (view.members[:, 1:] == node).any(axis=1) & known & (node != NO_NODE)
        held = np.concatenate((weights.primary[is_primary], weights.secondary[is_secondary]))
        steps += _fewest(held, float(excess[node]))
        by_roles = float((weights.primary - weights.secondary)[is_primary].sum())
        rest = float(excess[node]) - by_roles
        if is_sized and rest > 0:
            rows = is_primary | is_secondary
            copy_mb += _cheapest(weights.secondary[rows], sizes_mb[rows], rest)
    steps = max(steps, _fewest_gained(weights.primary[known], missing))
    moved = max(float(excess.sum()), float(missing.sum()))
    return LowerBound(moved, steps, copy_mb if is_sized else None)


def _fewest(weights: Floats, wanted: float) -> int:
    """Return how many of the weights it takes at least to reach a sum."""
    sums = np.cumsum(np.sort(weights)[::-1])
    return min(int(np.searchsorted(sums, wanted * (1 - 1e-12))) + 1, len(weights))


def _fewest_gained(weights: Floats, missing: Floats) -> int:
    """Return how many steps at least fill the nodes that are too empty.

    A partition gives a node its primary's weight at most; which ones a node has already is not
    looked at, since the weights are sorted once for all nodes.

    Args:
        weights: Of the primaries, shape ``(n_known,)``.
        missing: Shape ``(n_nodes,)``: what each node lacks, 0 where nothing.
    """
    lacking = missing[missing > 0]
    if not len(weights) or not len(lacking):
        return 0
    sums = np.cumsum(np.sort(weights)[::-1])
    places = np.searchsorted(sums, lacking * (1 - 1e-12)) + 1
    return int(np.minimum(places, len(weights)).sum())


def _cheapest(weights: Floats, sizes_mb: Floats, wanted: float) -> float:
    """Return the least megabytes whose weight reaches a sum, parts of replicas allowed."""
    order = np.argsort(sizes_mb / np.maximum(weights, 1e-12), kind="stable")
    total = 0.0
    for weight, size_mb in zip(weights[order].tolist(), sizes_mb[order].tolist(), strict=True):
        if wanted <= weight:
            return total + (size_mb * wanted / weight if weight > 0 else 0.0)
        wanted -= weight
        total += size_mb
    return total
