"""The clock of a process that may be stopped."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Final

_NEVER = threading.Event()
ANSWERS_WITHIN_S: Final = 0.5
"""How long answers are waited for after the process was stopped: what a run has changed for its
time can be restored in a cluster that is well."""


class SystemClock:
    """The machine's time.

    Args:
        stop: Set when the process is to end.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._stopped_at_s: float | None = None

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

    def has_ended(self) -> bool:
        """Return whether the process was stopped, so that no answer is awaited."""
        if not self._stop.is_set():
            return False
        if self._stopped_at_s is None:
            self._stopped_at_s = self.monotonic()
        return self.monotonic() - self._stopped_at_s >= ANSWERS_WITHIN_S

    def hold(self, seconds: float) -> None:
        """Wait all of it, even if the process was stopped."""
        _NEVER.wait(seconds)
