"""Who records a cluster, where several could: the one whose minute is the newest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from core.files import write_whole
from core.history.store.layout import HistoryError

_PERIODS: Final = 2.5
"""A recorder that was quiet for so many periods has ended, or is held up: another takes over."""

_LEAST_S: Final = 10.0
"""Shortest time after which another recorder counts as quiet: writing a minute takes some of it."""

_MAX_NUMBERS: Final = 64


class HeldError(HistoryError):
    """Another recorder records this cluster."""

    code = "history_held"


class Lease:
    """Recorder's lease, derived from the minutes of a history.

    Clocks must agree within a period. A recorder that starts again knows the segments that it
    began before, from a file, and goes on at once.

    Args:
        period_s: Seconds between two minutes.
        file: Where the numbers of own segments are stored; ``None`` if not stored.
    """

    def __init__(self, period_s: float, file: Path | None = None) -> None:
        self._period_s = period_s
        self._file = file
        self._own = _numbers(file)

    def reach_ms(self, duration_s: float) -> int:
        """Time for which a minute of another recorder blocks this one.

        Args:
            duration_s: How long the last capture took; a slow one is the period.
        """
        period_s = max(self._period_s, duration_s)
        return round(1_000 * max(_PERIODS * period_s, _LEAST_S))

    def began(self, number: int) -> None:
        """Remember a segment as an own one, before anybody can see it."""
        self._own = [*self._own, number][-_MAX_NUMBERS:]
        if self._file is None:
            return
        # when it cannot be stored, a new start waits until its own minutes are old: no harm
        with suppress(OSError):
            lines = "".join(f"{one}\n" for one in self._own)
            write_whole(self._file, lines.encode(), is_durable=False)

    def check(self, cluster: str, segment: int, reach_ms: int) -> None:
        """Look whether the newest minute is an own one.

        Args:
            cluster: Whose minutes.
            segment: Of the newest minute within reach.
            reach_ms: :meth:`reach_ms`.
        Raises:
            HeldError: It is another recorder's.
        """
        if segment not in self._own:
            raise HeldError(
                f"Another collector records {cluster!r} in this history.",
                hint="This collector is on standby and takes over when the other has been "
                f"silent for {reach_ms / 1_000:g} s.",
            )


def _numbers(file: Path | None) -> list[int]:
    if file is None:
        return []
    try:
        return [int(line) for line in file.read_text().split()][-_MAX_NUMBERS:]
    except (OSError, ValueError):
        return []
