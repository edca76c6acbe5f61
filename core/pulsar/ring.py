"""The hash ring of a namespace: where a topic falls, and where a bundle is cut."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.ids import FULL_UPPER

RING_SIZE: Final = 1 << 32


def topic_hash(name: str) -> int:
    """Return the place of a topic on the ring, 0..2**32-1.

    Args:
        name: Complete topic name with domain, and ``-partition-N`` for a partition.
    Source:
        Pulsar ``NamespaceBundleFactory#getLongHashCode``: CRC-32 of the UTF-8 bytes.
    Example:
        >>> hex(topic_hash("persistent://public/default/topic-1"))
        '0x30f3aae7'
    """
    return zlib.crc32(name.encode())


def find_bundle_index(boundaries: Sequence[int] | NDArray[np.int64], position: int) -> int:
    """Return the bundle of the ring that contains a position.

    Args:
        boundaries: n + 1 ascending values of n bundles; a bundle holds its lower bound and not its
            upper one, except the last, which holds both.
        position: 0..2**32-1.
    Returns:
        0..n-1. The very last position, 0xffffffff, belongs to the last bundle; Pulsar's own search
        fails on it (one topic in four thousand million).
    Raises:
        InputError: The position is not inside the boundaries.
    Source:
        Pulsar ``NamespaceBundles#findBundle``: a binary search, never a modulo.
    """
    count = len(boundaries) - 1
    if count < 1 or not boundaries[0] <= position <= boundaries[-1]:
        raise InputError(
            f"Position 0x{position:08x} is in none of {max(count, 0)} bundles.",
            hint="The boundaries of the namespace are incomplete; capture it again.",
        )
    return min(int(np.searchsorted(boundaries, position, side="right")) - 1, count - 1)


def initial_boundaries(count: int) -> tuple[int, ...]:
    """Return the boundaries of a new namespace with ``count`` bundles.

    Raises:
        InputError: Fewer than one bundle.
    Source:
        Pulsar ``PoliciesUtil#getBundles``.
    Example:
        >>> [f"{bound:08x}" for bound in initial_boundaries(3)]
        ['00000000', '55555555', 'aaaaaaaa', 'ffffffff']
    """
    if count < 1:
        raise InputError(f"A namespace cannot have {count} bundles.", hint="Use 1 or more.")
    step = RING_SIZE // count
    return (*(index * step for index in range(count)), FULL_UPPER)


def range_equally_divide(lower: int, upper: int) -> int | None:
    """Return the boundary that halves a range, or ``None`` when it cannot be halved.

    Source:
        Pulsar ``RangeEquallyDivideBundleSplitAlgorithm``; the bounds on ``None`` are those of
        ``NamespaceBundleFactory#splitBundles``.
    Example:
        >>> hex(range_equally_divide(0, 0xFFFFFFFF))
        '0x7fffffff'
    """
    return lower + (upper - lower) // 2 if upper - lower > 1 else None


def validate_boundaries(boundaries: Sequence[int]) -> str | None:
    """Return the fault of a namespace's boundaries, or ``None`` if they cover the ring."""
    if len(boundaries) < 2:
        return "there are fewer than two boundaries"
    if boundaries[0] != 0:
        return f"they start at 0x{boundaries[0]:08x}, not at 0x00000000"
    if boundaries[-1] != FULL_UPPER:
        return f"they end at 0x{boundaries[-1]:08x}, not at 0xffffffff"
    values = np.asarray(boundaries, np.int64)
    steps = np.flatnonzero(np.diff(values) <= 0)
    if steps.size:
        return f"0x{values[steps[0] + 1]:08x} comes after 0x{values[steps[0]]:08x}"
    return None
