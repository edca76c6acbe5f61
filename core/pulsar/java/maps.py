"""The orders in which Java iterates the maps and sets that placement and shedding go through.

Ties between brokers and between bundles are decided by them, and so are the last bits of sums. The
order in which the keys came into a map decides within a bucket; that is not visible from outside.
Here they come in the order of a list that people would write: brokers by name, ``b-2`` before
``b-10``, and then the bundles of each by name (deviation SHED-1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.bundle_counts import Ints
from core.units import number_parts

MIN_BUCKETS: Final = 16
_BITS: Final = 0xFFFFFFFF
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
    buckets = MIN_BUCKETS
    while buckets * _LOAD_FACTOR < len(texts):
        buckets *= 2
    hashes = np.array([java_string_hash(text) for text in texts], np.int64)
    slots = (hashes ^ (hashes >> 16)) & (buckets - 1)
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return np.lexsort((ranks, slots))


def natural_order(names: Sequence[str]) -> Ints:
    """Return positions by name, numbers in a name compared as numbers.

    Example:
        >>> natural_order(["b-10", "b-2", "a-1"]).tolist()
        [2, 1, 0]
    """
    keys = [number_parts(name) for name in names]
    return np.array(sorted(range(len(names)), key=lambda at: (keys[at], names[at])), np.int64)


def spread_hashes(texts: Sequence[str]) -> Ints:
    """Return Java's ``h ^ (h >>> 16)`` of each text, unsigned.

    Args:
        texts: Any texts; those in ASCII are hashed as columns of characters.
    Source:
        ``String#hashCode``, ``HashMap#hash``, ``ConcurrentHashMap#spread``.
    """
    if not all(text.isascii() for text in texts):
        hashes = np.array([java_string_hash(text) for text in texts], np.int64)
        return hashes ^ (hashes >> 16)
    if not texts:
        return np.zeros(0, np.int64)
    fixed = np.array(texts, np.bytes_)
    letters = fixed.view(np.uint8).reshape(len(texts), -1)
    found = np.zeros(len(texts), np.int64)
    for column in letters.T:
        found = np.where(column > 0, (31 * found + column) & _BITS, found)
    return found ^ (found >> 16)


def hash_map_buckets(count: int) -> int:
    """Return the number of ``HashMap`` buckets of ``count`` keys: doubled above 3/4."""
    buckets = MIN_BUCKETS
    while buckets * 3 < count * 4:
        buckets *= 2
    return buckets


def concurrent_buckets(count: int) -> int:
    """Return the number of ``ConcurrentHashMap`` buckets: doubled at 3/4."""
    buckets = MIN_BUCKETS
    while buckets * 3 <= count * 4:
        buckets *= 2
    return buckets


def hash_map_order(spread: Ints, peak: int = 0) -> Ints:
    """Return positions in the order of a ``HashMap`` that took the keys in the given order.

    Args:
        spread: Of :func:`spread_hashes`, in the order of insertion.
        peak: Keys that the map held at most before it was emptied: it does not shrink.
    """
    slots = spread & (hash_map_buckets(max(spread.size, peak)) - 1)
    return np.argsort(slots, kind="stable")


def concurrent_order(spread: Ints) -> Ints:
    """Return positions in the order of a ``ConcurrentHashMap`` that took the keys in order.

    Args:
        spread: Of :func:`spread_hashes`, in the order of insertion.
    Source:
        ``ConcurrentHashMap#putVal`` and ``#transfer``: a doubling turns most of a bucket around.
    Parity:
        Buckets of eight and more keys, which become trees, are not distinguished.
    """
    table: list[list[int]] = [[] for _ in range(MIN_BUCKETS)]
    hashes = spread.tolist()
    for position, code in enumerate(hashes):
        table[code & (len(table) - 1)].append(position)
        if (position + 1) * 4 >= len(table) * 3:
            table = _doubled(table, hashes)
    return np.array([position for bucket in table for position in bucket], np.int64)


def _doubled(table: list[list[int]], hashes: list[int]) -> list[list[int]]:
    """Return the table after a doubling."""
    size = len(table)
    wider: list[list[int]] = [[] for _ in range(2 * size)]
    for slot, bucket in enumerate(table):
        if len(bucket) < 2:
            for position in bucket:
                wider[hashes[position] & (2 * size - 1)].append(position)
            continue
        wider[slot], wider[slot + size] = _halves(bucket, hashes, size)
    return wider


def _halves(bucket: list[int], hashes: list[int], size: int) -> tuple[list[int], list[int]]:
    """Return the two halves of a non-empty bucket when a table of ``size`` doubles.

    The longest tail of a bucket that stays together stays as it is; what comes before is put in
    front of it one by one, and so comes out reversed.
    """
    tail = len(bucket) - 1
    bit = hashes[bucket[tail]] & size
    while tail and hashes[bucket[tail - 1]] & size == bit:
        tail -= 1
    halves: tuple[list[int], list[int]] = ([], [])
    for position in reversed(bucket[:tail]):
        halves[bool(hashes[position] & size)].append(position)
    halves[bool(bit)].extend(bucket[tail:])
    return halves


def concurrent_bucket(spread: Ints, inserted: Ints, count: int, bucket: int) -> Ints:
    """Return positions in the order of one bucket of a ``ConcurrentHashMap``.

    Args:
        spread: Of :func:`spread_hashes`, of the keys that ever shared a bucket with it; see
            :func:`shared_bucket`. Others do no harm.
        inserted: How many keys came before each, of all keys of the map.
        count: Keys of the map.
        bucket: Of the whole map.
    """
    hashes, size, ordered = spread.tolist(), MIN_BUCKETS, list[int]()
    whole = concurrent_buckets(count)
    for position in np.argsort(inserted, kind="stable").tolist():
        while size < whole and inserted[position] * 4 >= size * 3:
            ordered = _halves(ordered, hashes, size)[bool(bucket & size)] if ordered else ordered
            size *= 2
        if hashes[position] & (size - 1) == bucket & (size - 1):
            ordered.append(position)
    while size < whole:
        ordered = _halves(ordered, hashes, size)[bool(bucket & size)] if ordered else ordered
        size *= 2
    return np.array(ordered, np.int64)


def shared_bucket(spread: Ints, inserted: Ints, count: int, bucket: int) -> NDArray[np.bool_]:
    """Return keys that ever collided in a ``ConcurrentHashMap`` bucket.

    Args:
        spread: Of :func:`spread_hashes`.
        inserted: How many keys came before each.
        count: Keys of the map.
        bucket: Of the whole map, that key's.
    """
    whole = concurrent_buckets(count)
    shared = (spread & (whole - 1)) == bucket
    size = MIN_BUCKETS
    while size < whole:
        shared |= ((spread & (size - 1)) == (bucket & (size - 1))) & (inserted * 4 < size * 3)
        size *= 2
    return np.asarray(shared, np.bool_)


def stable_descending(keys: NDArray[np.float64]) -> Ints:
    """Return positions by falling key; equal keys keep their order, as in ``Stream#sorted``."""
    return np.argsort(-keys, kind="stable")


def ordered_sum(values: NDArray[np.float64]) -> float:
    """Return the sum, added from left to right as a Java loop adds."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0
