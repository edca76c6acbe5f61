"""Limits of memory in the options of a Java process."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = r"(\d+)([kKmMgGtT]?)(?![\w.])"
_HEAP: Final = re.compile(rf"-Xmx{_SIZE}")
_DIRECT: Final = re.compile(rf"-XX:MaxDirectMemorySize={_SIZE}")
_MIB: Final = {"": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def memory_limits(options: str) -> tuple[float | None, float | None]:
    """Return the largest heap and direct memory, MiB.

    Where an option is given twice, Java takes the last one. Direct memory without an option of its
    own may grow as large as the heap.

    Example:
        >>> memory_limits("-Xms1g -Xmx2g -XX:MaxDirectMemorySize=4096m")
        (2048.0, 4096.0)
    """
    heap = _last(_HEAP, options)
    direct = _last(_DIRECT, options)
    return heap, heap if direct is None else direct


def _last(pattern: re.Pattern[str], options: str) -> float | None:
    found = pattern.findall(options)
    if not found:
        return None
    digits, unit = found[-1]
    return float(digits) * _MIB[unit.lower()]
