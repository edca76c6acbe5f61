"""Times as the address and the pickers write them: UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

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
