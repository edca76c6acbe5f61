"""How many bundles of each namespace each broker has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class RangeCounts:
    """Number of each namespace's bundles per broker: pairs sorted by namespace.

    Attributes:
        offsets: Shape ``(n_namespaces + 1,)``; the pairs of namespace i are offsets[i]..[i+1].
        broker: Broker of each pair.
        count: Bundles of each pair, at least 1.
    Source:
        Pulsar's ``brokerToNamespaceToBundleRange``: what brokers *report*, so an unloaded bundle
        counts for its old broker until that one reports again.
    """

    offsets: Ints
    broker: Codes
    count: Codes

    @classmethod
    def of(cls, namespace: Codes, broker: Codes, size: tuple[int, int]) -> RangeCounts:
        """Count bundles, given by their namespace and broker; ``size`` is (namespaces, brokers)."""
        placed = broker >= 0
        keys = namespace[placed].astype(np.int64) * max(size[1], 1) + broker[placed]
        pairs, counts = np.unique(keys, return_counts=True)
        rows, columns = np.divmod(pairs, max(size[1], 1))
        offsets = np.searchsorted(rows, np.arange(size[0] + 1))
        return cls(
            offsets=offsets.astype(np.int64),
            broker=columns.astype(np.int32),
            count=counts.astype(np.int32),
        )

    def dense(self, namespaces: Ints, n_brokers: int) -> Codes:
        """Return counts of some namespaces, shape ``(len(namespaces), n_brokers)``."""
        counts = np.zeros((namespaces.size, n_brokers), np.int32)
        starts, ends = self.offsets[namespaces], self.offsets[namespaces + 1]
        lengths = ends - starts
        rows = np.repeat(np.arange(namespaces.size), lengths)
        skipped = np.repeat(np.cumsum(lengths) - lengths, lengths)
        pairs = np.repeat(starts, lengths) + np.arange(lengths.sum()) - skipped
        counts[rows, self.broker[pairs]] = self.count[pairs]
        return counts


def row_index(names: pa.ChunkedArray) -> dict[str, int]:
    """Return the row of each name."""
    return {name: row for row, name in enumerate(names.to_pylist())}
