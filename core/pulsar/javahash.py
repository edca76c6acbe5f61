"""The order in which Java iterates a hash set of texts.

Pulsar adds usage over a hash set of brokers; the order decides the last bit of a mean, and with it
a tie that sits exactly on a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MIN_BUCKETS: Final = 16
_LOAD_FACTOR: Final = 0.75


def java_string_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` as an unsigned 32-bit number.

    Example:
        >>> java_string_hash("ab")
        3105
    """
    total = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        total = (31 * total + (high << 8 | low)) & 0xFFFFFFFF
    return total


def java_hash_order(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the positions of ``texts`` in the order of a Java hash set that holds them all.

    Texts that share a bucket come in alphabetical order, so that the answer does not depend on the
    order of ``texts``; Java has them in the order of insertion.
    """
    buckets = _MIN_BUCKETS
    while buckets * _LOAD_FACTOR < len(texts):
        buckets *= 2
    hashes = np.array([java_string_hash(text) for text in texts], np.int64)
    slots = (hashes ^ (hashes >> 16)) & (buckets - 1)
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return np.lexsort((ranks, slots))
