"""Bounded memory of computed results, shared by every session, each computed once.

Keys never go stale because they name content (a kept snapshot); growth is bounded by count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Results by key, the least recently used dropped first.

    Two callers with the same key wait for one computation; a failed one is not kept.

    Args:
        compute: Called with the key when there is no result yet.
        max_entries: How many results are kept.
    """

    def __init__(self, compute: Callable[[K], V], *, max_entries: int) -> None:
        self._compute = compute
        self._max_entries = max_entries
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._busy: dict[K, Lock] = {}
        self._lock = Lock()

    def __call__(self, key: K) -> V:
        """Return the result for ``key``, computing it when it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            busy = self._busy.setdefault(key, Lock())
        with busy:
            with self._lock:
                if key in self._kept:
                    return self._kept[key]
            try:
                value = self._compute(key)
                with self._lock:
                    self._kept[key] = value
                    while len(self._kept) > self._max_entries:
                        self._kept.popitem(last=False)
            finally:
                with self._lock:
                    self._busy.pop(key, None)
            return value

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
