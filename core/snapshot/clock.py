"""Clock jumps: moments that are ahead of the clock, and a clock that was set to another time.

A collector whose clock is wrong for a while writes snapshots "from the future". They are never the
newest, and age retention does not use a clock that has jumped until it has run on for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from core.units import format_age

AHEAD_S: Final = 60.0
"""Clocks of several machines differ by some seconds; a moment further ahead is in the future."""

CONFIRMED_AFTER: Final = timedelta(days=1)
"""A clock that has run on for so long after a jump is believed."""


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Return whether ``moment`` is after ``now`` by more than usual clock differences."""
    return (moment - now).total_seconds() > AHEAD_S


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A gap between two recorded moments that a changed clock can explain as well as a pause.

    Attributes:
        before: The last moment before it.
        after: The first moment after it.
        until: From then on the clock is believed.
    """

    before: datetime
    after: datetime
    until: datetime

    def __str__(self) -> str:
        gap = format_age((self.after - self.before).total_seconds())
        return (
            f"Age retention is paused until {self.until:%Y-%m-%d %H:%M} UTC: no snapshot was "
            f"recorded for {gap} before {self.after:%Y-%m-%d %H:%M:%S} UTC, so the clock may "
            "have jumped. Check the clock of this machine."
        )


def clock_jump(
    moments: Sequence[datetime], now: datetime, max_age: timedelta, *, usual: timedelta
) -> ClockJump | None:
    """Return the last jump that age retention has to wait for, if there is one.

    Args:
        moments: What was recorded, in any order; moments in the future of ``now`` do not count.
        now: The clock.
        max_age: What retention drops.
        usual: The least distance that counts as a jump; three times the usual distance between two
            moments and an eighth of ``max_age`` do not count, either.
    """
    past = sorted(moment for moment in moments if not is_ahead(moment, now))
    if not past:
        return None
    steps = sorted(after - before for before, after in pairwise(past))
    typical = steps[len(steps) // 2] if len(steps) > 1 else timedelta(0)
    limit = max(usual, 3 * typical, max_age / 8)
    # now comes last: on a clock that has just jumped nothing may have been recorded yet
    gaps = [(a, b) for a, b in pairwise((*past, max(now, past[-1]))) if b - a > limit]
    if not gaps:
        return None
    before, after = gaps[-1]
    until = after + min(max_age, CONFIRMED_AFTER)
    return ClockJump(before, after, until) if now < until else None
