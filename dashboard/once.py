"""What follows from its arguments alone is made once for the same values."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from threading import Lock
from typing import ParamSpec, TypeVar

import cachetools

P = ParamSpec("P")
R = TypeVar("R")


def made_once(results: cachetools.LRUCache[bytes, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that keeps the results of a function.

    Unlike ``lru_cache`` it takes frames and arrays: arguments are compared by their values. Callers
    share a result, and copy it to change it.

    Args:
        results: Where they are kept; several functions may share it.
    """
    lock = Lock()

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        @wraps(make)
        def made(*args: P.args, **options: P.kwargs) -> R:
            of = (make.__module__, make.__qualname__, args, options)
            key = blake2b(pickle.dumps(of), digest_size=16).digest()
            with lock:
                result = results.get(key)
            if result is None:
                result = make(*args, **options)
                with lock:
                    results[key] = result
            return result

        return made

    return decorate
