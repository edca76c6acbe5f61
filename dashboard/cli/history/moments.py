"""Times as people write them at a prompt: ISO 8601, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from dashboard.cli.output import UsageFaultError
from dashboard.presenters.moments import ago_of

HINT: Final = "Use 2026-11-21T12:00 (UTC unless an offset is given), -2h for two hours ago, or now."


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
    ago = ago_of(plain)
    try:
        if ago is not None:
            return now - ago
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
