"""Times as the address and the pickers write them: UTC, to the second."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from core.units import format_age

_FORMS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")


def stamp(moment: datetime) -> str:
    """Return ``2026-11-21 14:03:05``, UTC."""
    return moment.astimezone(UTC).strftime(_FORMS[0])


def parse_stamp(text: str) -> datetime | None:
    """Return the aware time that a text means (UTC), ``None`` when it means none."""
    plain = text.strip().removesuffix("Z").removesuffix(" UTC")
    for form in _FORMS:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


_WHOLE: Final = 0.9
"""Share of a span that is taken for all of it: the first saved snapshot is never at its begin."""


def last_span(times: Sequence[datetime], most: timedelta) -> str:
    """Return how far a chart reaches back: ``last 6 h``, ``last 4 min`` where no more is saved.

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
