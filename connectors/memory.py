"""Lets a process that runs for weeks give memory back after answers that were large once.

glibc gives each of some dozen threads a pool of its own, and keeps up to 64 MB at the end of each:
after one round in which every broker answered without end, 200 MB stayed taken. Two pools are
enough where one thread computes at a time (``mallopt(3)``: ``M_ARENA_MAX``).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
from typing import Final

_M_ARENA_MAX: Final = -8
_POOLS: Final = 2
_GIVE_BACK_EVERY_S: Final = 60.0
_GARBAGE_OBJECTS: Final = 7_000

POOL_VARIABLES: Final = {
    "MALLOC_ARENA_MAX": str(_POOLS),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""For the environment of a process that is started: the same, from its first allocation on.

Arrow's own pools keep what a large table took once; glibc's can be given back.
"""


def use_few_pools() -> None:
    """Limit the pools of this process, before it starts threads; without glibc nothing happens."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _POOLS)


def collect_garbage_seldom() -> None:
    """Leave what is loaded out of garbage collection, and look for cycles a tenth as often.

    To decode one answer makes ten thousand objects that are no garbage: by default each 700 of them
    have the younger ones looked through again.
    """
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)


def give_back() -> None:
    """Return free memory to the system; glibc keeps it otherwise where used memory lies above."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_giving_back() -> None:
    """Give memory back every minute, in a thread that ends with the process."""

    def run() -> None:
        pause = threading.Event()
        while not pause.wait(_GIVE_BACK_EVERY_S):
            give_back()

    threading.Thread(target=run, name="memory", daemon=True).start()
