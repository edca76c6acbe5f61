"""Order of equal bundles in a map of Java's that holds all bundles, most of which are not here.

The few keys that decide it are looked for on Spark, one part of the bundles a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from core.pulsar.bundle_counts import Ints
from core.pulsar.shedding.map_order import Arrivals
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.scan import CODE
from core.spark.pulsar.large.sums import HASH


@dataclass(frozen=True, eq=False)
class BucketOrders:
    """Orders within buckets of the leader's own map; cached, as they belong to the cluster.

    Attributes:
        cluster: The whole.
        known: Rank of each bundle that was ever needed, by bucket.
        needed: Buckets that are needed and not known yet.
    """

    cluster: LargeCluster
    known: dict[int, Mapping[str, int]] = field(default_factory=dict)
    needed: set[int] = field(default_factory=set)

    def find(self) -> None:
        """Find the orders that are needed, all of them in one job.

        Raises:
            ComputeError: Spark failed.
        """
        buckets = np.array(sorted(self.needed), np.int64)
        arrivals = Arrivals.of(self.cluster.brokers, self.cluster.total("measured"))
        found = self.cluster.map_keys(_OrderKeys(arrivals, buckets), "ordering equal bundles")
        code, hashes = found[CODE].to_numpy(), found[HASH].to_numpy()
        self.known.update(arrivals.orders(found["bundle"].to_pylist(), code, hashes, buckets))
        self.needed.clear()

    def of(self, buckets: Ints) -> Mapping[int, Mapping[str, int]]:
        """Return the known content of some buckets, and note missing ones."""
        self.needed.update(set(buckets.tolist()) - self.known.keys())
        return {at: self.known[at] for at in buckets.tolist() if at in self.known}


@dataclass(frozen=True, eq=False)
class _OrderKeys:
    """Picks the keys that decide the order in some buckets.

    Attributes:
        arrivals: How all keys came.
        buckets: Of the whole map.
    """

    arrivals: Arrivals
    buckets: Ints

    def __call__(self, keys: pa.Table) -> pa.Table:
        code, hashes = keys[CODE].to_numpy(), keys[HASH].to_numpy()
        return keys.filter(pa.array(self.arrivals.decide(code, hashes, self.buckets)))
