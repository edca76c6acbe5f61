"""The clock of a process that may be stopped."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from time import monotonic
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
        """Return seconds that only ever grow."""
        return monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait; ``True``, at once from then on, when the process was stopped."""
        return self._stop.wait(seconds)

    def has_ended(self) -> bool:
        """Return whether the process was stopped, and no answer is waited for any more."""
        if not self._stop.is_set():
            return False
        if self._stopped_at_s is None:
            self._stopped_at_s = monotonic()
        return monotonic() - self._stopped_at_s >= ANSWERS_WITHIN_S

    def hold(self, seconds: float) -> None:
        """Wait all of it, even if the process was stopped."""
        _NEVER.wait(seconds)
