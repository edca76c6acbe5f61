"""The clock of a process that may be stopped."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from time import monotonic

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
        """Return seconds that only ever grow."""
        return monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait; ``True``, at once from then on, when the process was stopped."""
        return self._stop.wait(seconds)

    def hold(self, seconds: float) -> None:
        """Wait all of it, even if the process was stopped."""
        _NEVER.wait(seconds)
