"""Times as the address and the pickers write them: UTC, to the second."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from core.units import format_age

_FORMS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")


@lru_cache(maxsize=4_096)  # as parse_stamp below
def stamp(moment: datetime) -> str:
    """Return ``2026-11-21 14:03:05``, UTC."""
    return moment.astimezone(UTC).strftime(_FORMS[0])


@lru_cache(maxsize=4_096)  # the time selector has hundreds, the same in every run of a page
def parse_stamp(text: str) -> datetime | None:
    """Return the aware time that a text means (UTC), ``None`` when it means none."""
    plain = text.strip().removesuffix("Z").removesuffix(" UTC")
    for form in _FORMS:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def short_stamp(moment: datetime, now: datetime) -> str:
    """Return ``14:03:05`` for a moment of today (UTC), ``Nov 21 14:03:05`` for another day."""
    at, today = moment.astimezone(UTC), now.astimezone(UTC)
    return at.strftime("%H:%M:%S" if at.date() == today.date() else "%b %d %H:%M:%S")


_AGO: Final = re.compile(r"-\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)\Z")
_LONGEST_S: Final = 3_600.0 * 24 * 36_500
_SECONDS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def ago_of(text: str) -> timedelta | None:
    """Return the time span of a text such as ``-90min``; ``None`` if it is no such span."""
    match = _AGO.match(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.inf
    return timedelta(seconds=seconds) if seconds <= _LONGEST_S else None


_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?\Z")


def typed_moment(text: str, now: datetime) -> datetime | None:
    """Return the moment that a short text means: ``-90min``, or ``14:03``, the last such time.

    Args:
        text: As typed.
        now: The present moment, aware UTC.
    Returns:
        ``None`` where the text means neither.
    """
    ago = ago_of(text)
    if ago is not None:
        return now - ago
    clock = _CLOCK.match(text.strip())
    if clock is None:
        return None
    hour, minute, second = (int(part or 0) for part in clock.groups())
    found = now.astimezone(UTC).replace(hour=hour, minute=minute, second=second, microsecond=0)
    return found if found <= now else found - timedelta(days=1)


RANGES: Final[Mapping[str, timedelta]] = {
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
}
"""Ranges of charts by name, on the page and in the address."""

FIRST_RANGE: Final = "1 h"
DEFAULT_RANGE: Final = "6 h"


def offered_ranges(
    recorded: timedelta, *, first: str = FIRST_RANGE, kept: Collection[str] = ()
) -> list[str]:
    """Return the ranges that fit the record: from the first to the one that covers all of it.

    Args:
        recorded: From the first record to the end of the chart.
        first: The shortest.
        kept: Offered in any case.
    """
    names = list(RANGES)
    names = names[names.index(first) :]
    return [
        name
        for before, name in zip([first, *names], names, strict=False)
        if name in (first, *kept) or RANGES[before] < recorded
    ]


_WHOLE: Final = 0.9
"""Share of a span that is taken for all of it: the first saved snapshot is never at its begin."""


def last_span(times: Sequence[datetime], most: timedelta) -> str:
    """Return the span of a chart: ``last 6 h``, ``last 4 min`` where no more is saved.

    Args:
        times: Of what is shown, oldest first.
        most: Span that the page asks for.
    """
    if len(times) <= 1:
        return "last snapshot"
    shown = times[-1] - times[0]
    span = most if shown >= most * _WHOLE else shown
    return f"last {format_age(span.total_seconds())}"


def span_words(span: timedelta) -> str:
    """Return ``6 h 12 min`` and the like."""
    minutes = round(span.total_seconds() / 60)
    if minutes < 90:
        return f"{minutes} min" if minutes else format_age(span.total_seconds())
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, left = divmod(hours, 24)
    return f"{days} d {left} h" if left else f"{days} d"
