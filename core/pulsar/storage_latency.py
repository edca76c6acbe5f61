"""How long brokers waited for their bookies, from the buckets that they expose."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BUCKETS: Final[dict[str, float]] = {
    "le_0_5": 0.5,
    "le_1": 1.0,
    "le_5": 5.0,
    "le_10": 10.0,
    "le_20": 20.0,
    "le_50": 50.0,
    "le_100": 100.0,
    "le_200": 200.0,
    "le_1000": 1000.0,
    "overflow": np.inf,
}
"""Suffix of each bucket and its upper bound in milliseconds.

Each bucket counts what fell between the bound before and its own, in the last period of statistics
(a minute): these are no buckets of a Prometheus histogram, which count everything below.

Source:
    Pulsar ``ManagedLedgerMBeanImpl`` (the bounds), ``StatsBuckets#refresh``,
    ``NamespaceStatsAggregator`` (the names).
"""


def quantile_ms(counts: Floats, quantile: float) -> Floats:
    """Return a quantile of the latency, milliseconds.

    Args:
        counts: Shape ``(n, 10)``, columns as in :data:`BUCKETS`; NaN makes the row unknown.
        quantile: 0..1.
    Returns:
        Shape ``(n,)``; linear inside a bucket; the last finite bound where the quantile is beyond
        it; NaN where nothing was written.
    """
    bounds = np.array([*BUCKETS.values()])
    below = np.concatenate([[0.0], bounds[:-1]])
    top = np.where(np.isfinite(bounds), bounds, below)
    total = counts.sum(axis=1)
    wanted = quantile * total
    reached = np.cumsum(counts, axis=1)
    at = (reached < wanted[:, None]).sum(axis=1).clip(max=len(bounds) - 1)
    rows = np.arange(len(counts))
    inside = counts[rows, at]
    before = reached[rows, at] - inside
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(inside > 0, (wanted - before) / inside, 0.0)
        value = below[at] + share * (top[at] - below[at])
    return np.where(total > 0, value, np.nan)
