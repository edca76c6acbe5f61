"""Times as people write them at a prompt: ISO 8601, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from dashboard.cli.output import UsageFaultError

HINT: Final = "Use 2026-11-21T12:00 (UTC unless an offset is given), -2h for two hours ago, or now."
_AGO: Final = re.compile(r"-\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)\Z")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def moment(text: str, now: datetime) -> datetime:
    """Return the aware UTC time that a text means.

    Args:
        text: ``2026-11-21T12:00:00Z``, ``2026-11-21``, ``-90min``, ``now``.
        now: The present moment.
    Raises:
        UsageFaultError: It means none.
    """
    plain = text.strip()
    if plain == "now":
        return now
    ago = _AGO.match(plain)
    try:
        if ago is not None:
            return now - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
        found = datetime.fromisoformat(plain)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise UsageFaultError(f"{text!r} is not a time.", hint=HINT) from exc


def span(
    start: str | None, end: str | None, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the two ends of a range; ``None`` where nothing is said.

    Raises:
        UsageFaultError: One of them is no time, or the range ends before it begins.
    """
    first = None if start is None else moment(start, now)
    last = None if end is None else moment(end, now)
    if first is not None and last is not None and last < first:
        raise UsageFaultError(
            f"The range ends ({end}) before it begins ({start}).", hint="Swap --from and --to."
        )
    return first, last
