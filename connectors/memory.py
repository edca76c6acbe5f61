"""Lets a process that runs for weeks give memory back after answers that were large once.

glibc gives each of some dozen threads a pool of its own, and keeps up to 64 MB at the end of each:
after one round in which every broker answered without end, 200 MB stayed taken. Two pools are
enough where one thread computes at a time (``mallopt(3)``: ``M_ARENA_MAX``).
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
_POOLS: Final = 2


def use_few_pools() -> None:
    """Limit the pools of this process, before it starts threads; without glibc nothing happens."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _POOLS)
