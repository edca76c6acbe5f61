"""When nothing may be changed: freezes, and everything outside of maintenance windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from core.actions.model import Refusal

_MIDNIGHT_MIN = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time, once or every week; all times are UTC.

    Attributes:
        kind: ``freeze``: nothing is changed in it; ``maintenance``: only in one of these is
            anything changed.
        reason: For people.
        starts: Of one that is once; ``None`` if unlimited.
        ends: Of one that is once; ``None`` if endless.
        days: Of a weekly one: the days on which it starts, Monday is 0; empty: every day.
        from_min: Of a weekly one: minutes after midnight; ``None`` if not weekly.
        until_min: The same of its end; not after ``from_min``: on the next day.
    """

    kind: Literal["freeze", "maintenance"]
    reason: str = ""
    starts: datetime | None = None
    ends: datetime | None = None
    days: frozenset[int] = frozenset()
    from_min: int | None = None
    until_min: int = 0

    def covers(self, now: datetime) -> bool:
        """Return whether it contains a moment (aware UTC)."""
        if (self.starts and now < self.starts) or (self.ends and now >= self.ends):
            return False
        if self.from_min is None:
            return True
        length = (self.until_min - self.from_min) % _MIDNIGHT_MIN or _MIDNIGHT_MIN
        for back in (0, 1):
            day = now - timedelta(days=back)
            minute = now.hour * 60 + now.minute + back * _MIDNIGHT_MIN
            is_day = not self.days or day.weekday() in self.days
            if is_day and self.from_min <= minute < self.from_min + length:
                return True
        return False


def window_refusal(windows: Sequence[Window], cluster: str, now: datetime) -> Refusal | None:
    """Return the refusal outside change windows, or ``None`` if changes are allowed.

    Args:
        windows: Of the cluster.
        cluster: Its name.
        now: Aware UTC.
    """
    for window in windows:
        if window.kind == "freeze" and window.covers(now):
            why = f" ({window.reason})" if window.reason else ""
            until = f" until {window.ends:%Y-%m-%d %H:%M} UTC" if window.ends else ""
            return Refusal(
                code="frozen",
                sentence=f"{cluster} is frozen{until}{why}; changes are not allowed.",
                hint="Wait until the freeze ends, or ask an admin to change [[clusters.windows]].",
            )
    open_times = [window for window in windows if window.kind == "maintenance"]
    if not open_times or any(window.covers(now) for window in open_times):
        return None
    return Refusal(
        code="outside_maintenance",
        sentence=f"{cluster} can be changed only in its maintenance windows, and none is open.",
        hint="Wait for the next window, or ask an admin to change [[clusters.windows]].",
    )
