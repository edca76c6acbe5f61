"""The clock of a process that may be stopped."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

_NEVER = threading.Event()


class SystemClock:
    """The machine's time.

    Args:
        stop: Set when the process is to end.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def now(self) -> datetime:
        """Return the present moment, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only ever grow, also while the machine sleeps where it counts them.

        What was seen before a laptop was closed, or a virtual machine suspended, is old afterwards.
        """
        boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
        return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)

    def wait(self, seconds: float) -> bool:
        """Wait; ``True``, at once from then on, when the process was stopped."""
        return self._stop.wait(seconds)

    def hold(self, seconds: float) -> None:
        """Wait all of it, even if the process was stopped."""
        _NEVER.wait(seconds)
