"""What a replica weighs: the measures by which a cluster may be evened out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.pegasus.view import NO_NODE, ClusterView

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """One measure.

    Attributes:
        name: What is evened out, for people: ``primaries``, ``disk``.
        unit: Of the numbers: ``replicas``, ``MB``, ``requests/s``.
        primary: Shape ``(n_partitions,)``: what the primary weighs, >= 0; NaN: unknown.
        secondary: Shape ``(n_partitions,)``: what each secondary weighs, never more.
    """

    name: str
    unit: str
    primary: Floats
    secondary: Floats

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Partitions whose weight is known, shape ``(n_partitions,)``: only these are moved."""
        known: NDArray[np.bool_] = ~(np.isnan(self.primary) | np.isnan(self.secondary))
        return known


def replica_weights(view: ClusterView) -> Weights:
    """Every replica weighs the same."""
    ones = np.ones(view.partition_count)
    return Weights("replicas", "replicas", ones, ones)


def primary_weights(view: ClusterView) -> Weights:
    """Primaries alone weigh: they serve every request."""
    ones = np.ones(view.partition_count)
    return Weights("primaries", "primaries", ones, np.zeros(view.partition_count))


def disk_weights(view: ClusterView, sizes_mb: Floats) -> Weights:
    """Every replica weighs what it takes on its disk.

    Args:
        view: The state.
        sizes_mb: Shape ``(n_partitions,)``: megabytes of one replica; NaN: unknown.
    """
    return _checked(view, Weights("disk", "MB", sizes_mb, sizes_mb))


def rate_weights(
    view: ClusterView, name: str, unit: str, rates_per_s: Floats, *, secondary_share: float = 0.0
) -> Weights:
    """Primaries weigh what they serve: requests or capacity units a second.

    Args:
        view: The state.
        name: For people.
        unit: For people.
        rates_per_s: Shape ``(n_partitions,)``; NaN: unknown.
        secondary_share: What a secondary does of it, 0..1: it repeats writes, serves no reads.
    """
    return _checked(view, Weights(name, unit, rates_per_s, rates_per_s * secondary_share))


def node_loads(view: ClusterView, weights: Weights) -> Floats:
    """Return every node's load, shape ``(n_nodes,)``; unknown values count 0."""
    known = weights.is_known
    columns = view.members.shape[1]
    each = np.repeat(np.where(known, weights.secondary, 0.0)[:, None], columns, axis=1)
    each[:, 0] = np.where(known, weights.primary, 0.0)
    there = view.members != NO_NODE
    loads = np.zeros(len(view.nodes))
    np.add.at(loads, view.members[there], each[there])
    return loads


def _checked(view: ClusterView, weights: Weights) -> Weights:
    if weights.primary.shape != (view.partition_count,):
        raise InputError(
            f"{weights.name} has {len(weights.primary)} numbers for {view.partition_count} "
            "partitions.",
            hint="Specify one number per partition, NaN where it is unknown.",
        )
    if (weights.primary < 0).any() or (weights.secondary > weights.primary).any():
        raise InputError(
            f"{weights.name} has a weight below 0, or a secondary heavier than its primary.",
            hint="Check the source of the weights.",
        )
    return weights
