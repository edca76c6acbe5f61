"""How the partitions of a topic fall into the bundles of its namespace, and how to fix it.

Every partition is a topic of its own with its own hash. Who splits the hash ring into n even
bundles and throws p partitions at it gets collisions: that is a matter of luck, which the name
decides, and it can be computed before the topic is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.pulsar.ring import initial_boundaries, topic_hash, validate_boundaries

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_PARTITIONS: Final = 100_000
MAX_BUNDLES: Final = 1_000_000
_TAIL: Final = 1e-12


def partition_hashes(topic: str, partitions: int) -> Ints:
    """Return the place of every partition of a topic on the ring, in order.

    Args:
        topic: Complete name without ``-partition-N``.
        partitions: How many.
    Raises:
        InputError: None, or more than can be looked at.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InputError(
            f"{partitions} is not a valid number of partitions.",
            hint=f"Use 1 to {MAX_PARTITIONS:,}.",
        )
    names = (f"{topic}-partition-{number}" for number in range(partitions))
    return np.fromiter((topic_hash(name) for name in names), np.int64, partitions)


def even_boundaries(bundles: int) -> tuple[int, ...]:
    """Return the boundaries of so many bundles of the same width.

    Raises:
        InputError: None, or more than can be looked at.
    """
    if not 1 <= bundles <= MAX_BUNDLES:
        raise InputError(
            f"{bundles} is not a valid number of bundles.", hint=f"Use 1 to {MAX_BUNDLES:,}."
        )
    return initial_boundaries(bundles)


@dataclass(frozen=True, eq=False)
class PartitionSpread:
    """Partitions of one topic by bundle.

    Attributes:
        boundaries: Of the namespace, n + 1 values.
        hashes: Of the partitions, in their order.
        bundle_of: Bundle of each partition.
        per_bundle: Partitions in each bundle.
    """

    boundaries: Ints
    hashes: Ints
    bundle_of: Ints = field(repr=False)
    per_bundle: Ints = field(repr=False)

    @property
    def worst(self) -> int:
        """Most partitions that share one bundle."""
        return int(self.per_bundle.max())

    @property
    def worst_bundle(self) -> int:
        """The first bundle with that many."""
        return int(self.per_bundle.argmax())

    @property
    def histogram(self) -> dict[int, int]:
        """Number of bundles with 0, 1, 2 ... partitions."""
        return dict(enumerate(np.bincount(self.per_bundle).tolist()))


def spread_of(boundaries: Sequence[int] | Ints, hashes: Ints) -> PartitionSpread:
    """Return the bundle of each partition.

    Raises:
        InputError: The boundaries do not tile the ring.
    """
    bounds = np.asarray(boundaries, np.int64)
    wrong = validate_boundaries(bounds.tolist())
    if wrong is not None:
        raise InputError(f"The boundaries do not cover the ring: {wrong}.")
    last = bounds.size - 2
    at = np.minimum(np.searchsorted(bounds, hashes, side="right") - 1, last)
    return PartitionSpread(bounds, hashes, at, np.bincount(at, minlength=last + 1))


def expected_worst(partitions: int, bundles: int) -> float:
    """Return the expected max of partitions per bundle, for random hashes.

    Computed from the chance that no bundle holds more than k, with bundles taken for independent
    (Poisson), which for the sizes of real namespaces is right to about one per cent.

    Args:
        partitions: Of the topic.
        bundles: Of the namespace, of equal width.
    Raises:
        InputError: Fewer than one of either.
    """
    if partitions < 1 or bundles < 1:
        raise InputError("Use at least 1 partition and 1 bundle.")
    if bundles == 1:
        return float(partitions)
    mean = partitions / bundles
    counts = np.arange(partitions + 1)
    logs = counts * np.log(mean) - mean - np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    at_most = np.minimum(np.cumsum(np.exp(logs)), 1.0)
    none_above = np.where(at_most > _TAIL, at_most**bundles, 0.0)
    # the fullest holds at least the mean, rounded up
    least = int(np.ceil(mean))
    return float(least + (1 - none_above[least:partitions]).sum())


@dataclass(frozen=True)
class CountAdvice:
    """Effect of one number of partitions.

    Attributes:
        partitions: How many.
        worst: Partitions in the fullest bundle, by the real hashes.
        expected_worst: The same for a random name.
        bundle_share: Share of the topic's traffic in the fullest bundle, traffic spread evenly.
        unevenness: Traffic of the fullest bundle over the mean of all, 1 is even.
    """

    partitions: int
    worst: int
    expected_worst: float
    bundle_share: float
    unevenness: float


def by_partition_count(
    topic: str, boundaries: Sequence[int] | Ints, counts: Sequence[int]
) -> list[CountAdvice]:
    """Return the effect of each number of partitions in the current bundles.

    Args:
        topic: Complete name.
        boundaries: Of its namespace.
        counts: Numbers of partitions.
    Raises:
        InputError: As :func:`partition_hashes` and :func:`spread_of`.
    """
    hashes = partition_hashes(topic, max(counts, default=0))
    bundles = len(boundaries) - 1
    found = []
    for count in counts:
        worst = spread_of(boundaries, hashes[:count]).worst
        share = worst / count
        found.append(
            CountAdvice(count, worst, expected_worst(count, bundles), share, share * bundles)
        )
    return found


def by_bundle_count(topic: str, partitions: int, counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return ``(bundles, worst)`` for namespaces made with so many even bundles.

    Raises:
        InputError: As :func:`partition_hashes`.
    """
    hashes = partition_hashes(topic, partitions)
    return [(count, spread_of(initial_boundaries(count), hashes).worst) for count in counts]
