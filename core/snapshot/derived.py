"""What was computed from a snapshot, kept with it: a frozen thing never makes it stale."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_MOST: Final = 16


class Derived:
    """The last few values by key; the longest unused one goes first.

    Two threads that ask at once may both compute: the values are equal, one of them stays.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``, made now if it is not kept."""
        try:
            value = self._values.pop(key)
        except KeyError:
            value = make()
        self._values[key] = value
        for oldest in list(self._values)[:-_MOST]:
            self._values.pop(oldest, None)
        return cast("T", value)
