"""The two methods by which the real classes pick bundles of one broker."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from core.pulsar.bundle_counts import Ints
from core.pulsar.shedding.basis import SheddingBasis
from core.pulsar.view import Flags, Floats

Spend = Callable[[float, float], float]
"""What is left of an amount after one bundle was taken: ``(left, key)`` to the new amount."""


def candidates_of(basis: SheddingBasis, broker: int, recent: Flags | None) -> Ints:
    """Return the bundle rows of a broker that may be picked at all."""
    rows = basis.bundles_of(broker)
    return rows if recent is None else rows[~recent[rows]]


def pick_until(basis: SheddingBasis, rows: Ints, keys: Floats, needed: float) -> Ints:
    """Return the biggest bundles that together reach an amount; at least one if there is any.

    Args:
        basis: For the order of equal bundles.
        rows: Candidates.
        keys: Throughput of each, bytes/s, 0 and up.
        needed: Amount to reach, bytes/s.
    Source:
        Pulsar ``ThresholdShedder#filterAndSelectBundle``; ``OverloadShedder`` does the same.
    Cost:
        O(n log n) in the bundles of one broker, no Python loop.
    """
    order = basis.falling(rows, keys)
    before = np.cumsum(keys[order])[:-1]
    return rows[order[: 1 + int(np.count_nonzero(before < needed))]]


def pick_within(
    ordered: Floats, room: float, spend: Spend, *, limit: int, slack: float
) -> list[int]:
    """Return positions picked greedily, largest first, each no larger than what is left.

    Args:
        ordered: Keys in falling order.
        room: Amount to give away.
        spend: What is left after a pick; never more than before.
        limit: Picks at most.
        slack: A bundle may be this much larger than what is left.
    Cost:
        One binary search a pick; what is too large is skipped at once, what weighs nothing taken at
        once.
    """
    rising = -ordered
    picked: list[int] = []
    at = 0
    while len(picked) < limit:
        # the first one from here on that fits
        at = max(at, int(np.searchsorted(rising, -(room + slack), side="left")))
        if at >= ordered.size:
            break
        key = float(ordered[at])
        if key == 0.0:
            picked.extend(range(at, min(ordered.size, at + limit - len(picked))))
            break
        picked.append(at)
        room = spend(room, key)
        at += 1
    return picked


def java_int(value: float) -> int:
    """Return Java's ``(int) value``: towards zero, clamped to 32 bits, 0 for NaN."""
    if math.isnan(value):
        return 0
    return math.trunc(min(max(value, -(2.0**31)), 2.0**31 - 1))
