"""Results shared by every session, each computed once.

Keys never go stale because they name content (a saved snapshot); the count bounds growth.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Condition
from typing import TypeVar

import cachetools

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def cached(compute: Callable[[K], V], *, max_entries: int) -> Callable[[K], V]:
    """Return a function that computes each result once, the least recently used dropped first.

    Callers with the same key wait for one computation; a failed one is computed again.

    Args:
        compute: Called with the key when there is no result yet.
        max_entries: How many results stay.
    """
    results: cachetools.LRUCache[object, V] = cachetools.LRUCache(max_entries)
    return cachetools.cached(results, condition=Condition())(compute)
