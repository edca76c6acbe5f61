"""How long alerts fired, day by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from core.units import datetime_to_ms

if TYPE_CHECKING:
    from core.alerts.model import AlertChange, AlertKey

_MINUTE_MS = 60_000
_DAY_MS = 86_400_000


def unhealthy_minutes(
    changes: Iterable[AlertChange], days: Sequence[int], now_ms: int
) -> list[int | None]:
    """Return the minutes of each day in which a critical alert was firing.

    Args:
        changes: Of one cluster, from the first one that is recorded.
        days: Starts, ms, UTC.
        now_ms: Now: an alert that is still firing fires until then.
    Returns:
        ``None`` for a day before the first change of any alert: whether alerts were evaluated is
        not known.
    """
    ordered = sorted(changes, key=lambda one: one.at)
    if not ordered:
        return [None] * len(days)
    since = datetime_to_ms(ordered[0].at)
    spans = _spans([one for one in ordered if one.severity == "critical"], now_ms)
    return [
        None if day + _DAY_MS <= since else round(_covered(spans, day) / _MINUTE_MS) for day in days
    ]


def _spans(changes: Sequence[AlertChange], now_ms: int) -> list[tuple[int, int]]:
    """Return when at least one alert was firing, without overlaps, ms."""
    firing: set[AlertKey] = set()
    spans: list[tuple[int, int]] = []
    began = 0
    for one in changes:
        at, was = datetime_to_ms(one.at), bool(firing)
        if one.state == "firing":
            firing.add(one.key)
        else:
            firing.discard(one.key)
        if firing and not was:
            began = at
        elif was and not firing:
            spans.append((began, at))
    return [*spans, (began, now_ms)] if firing else spans


def _covered(spans: Sequence[tuple[int, int]], day: int) -> int:
    return sum(max(min(end, day + _DAY_MS) - max(start, day), 0) for start, end in spans)
