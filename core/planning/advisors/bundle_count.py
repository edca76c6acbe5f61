"""How many bundles a namespace should have for a number of brokers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Floats = NDArray[np.float64]

MAX_BUNDLES: Final = 4096
_LARGEST_TRIED: Final = 4096


@dataclass(frozen=True)
class BundleCount:
    """Effect of one number of bundles.

    Attributes:
        bundles: How many.
        per_broker: On average.
        step_ratio: What the move of one average bundle changes on a broker, share of its mean load.
        hottest_ratio: Load of the hottest bundle over the mean load of a broker; above 1 no
            placement can even it out.
        reachable_ratio: How far above the mean the busiest broker is at best: largest bundle or
            rounding, whichever is worse.
    """

    bundles: int
    per_broker: float
    step_ratio: float
    hottest_ratio: float
    reachable_ratio: float


def count_of(
    bundles: int, brokers: int, topic_positions: NDArray[np.int64], topic_loads: Floats
) -> BundleCount:
    """Return the effect of a number of even bundles, from the actual topics.

    Args:
        bundles: To try.
        brokers: That share the namespace.
        topic_positions: Place of every topic on the ring.
        topic_loads: Load of every topic, any unit.
    Raises:
        InputError: No broker, a number of bundles that cannot be, or lengths that differ.
    """
    if brokers < 1:
        raise InputError(f"A namespace needs at least 1 broker, not {brokers}.")
    if not 1 <= bundles <= MAX_BUNDLES:
        raise InputError(
            f"A namespace cannot have {bundles} bundles.", hint="The range is 1 to 4,096."
        )
    if topic_positions.shape != topic_loads.shape:
        raise InputError(f"{topic_positions.size} topics, but {topic_loads.size} loads.")
    width = (1 << 32) // bundles
    at = np.minimum(topic_positions // width, bundles - 1)
    loads = np.bincount(at, weights=topic_loads, minlength=bundles).astype(np.float64)
    mean = loads.sum() / brokers
    hottest = float(loads.max() / mean) if mean else 0.0
    rounding = math.ceil(bundles / brokers) / (bundles / brokers) - 1
    return BundleCount(
        bundles=bundles,
        per_broker=bundles / brokers,
        step_ratio=brokers / bundles,
        hottest_ratio=hottest,
        reachable_ratio=max(hottest - 1, _best_ratio(loads, brokers) if mean else rounding),
    )


def _best_ratio(loads: Floats, brokers: int) -> float:
    """Return the deviation of the busiest broker for a largest-first assignment."""
    totals = np.zeros(brokers)
    for load in np.sort(loads)[::-1]:
        totals[int(totals.argmin())] += load
    return float(totals.max() / totals.mean() - 1)


def advise(
    brokers: int,
    topic_positions: NDArray[np.int64],
    topic_loads: Floats,
    *,
    within: float = 0.2,
    max_bundles: int = 128,
) -> tuple[BundleCount | None, list[BundleCount]]:
    """Return the fewest bundles that can be spread within a share of the mean, and all tried.

    Args:
        brokers: That share the namespace.
        topic_positions: Place of every topic on the ring.
        topic_loads: Load of every topic.
        within: Tolerated distance above the mean, 0..1 (the vivo report: 0.2).
        max_bundles: ``loadBalancerNamespaceMaximumBundles``.
    Returns:
        The advice, ``None`` when no number up to the maximum is enough; the numbers tried,
        ascending: multiples of the brokers, and the powers of two.
    Raises:
        InputError: As :func:`count_of`.
    """
    top = min(max_bundles, _LARGEST_TRIED)
    tried = {2**power for power in range(13)} | {brokers * times for times in (1, 2, 3, 4, 6, 8)}
    counts = [
        count_of(number, brokers, topic_positions, topic_loads)
        for number in sorted(tried)
        if number <= top
    ]
    good = next((one for one in counts if one.reachable_ratio <= within), None)
    return good, counts
