"""Demand over time as a person writes it: ``5:10,50,30; 10:80,50,30``."""

from __future__ import annotations

import math
from typing import Final

from core.errors import InputError
from core.planning.advisors.shares import ShareTimeline, share_timeline
from core.units import is_whole

MAX_PERIODS: Final = 500
MAX_BROKERS: Final = 200
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_HINT: Final = "Use the form PERIODS:A,B,C separated by ; for example 5:10,50,30; 10:80,50,30."


def usage_list(text: str) -> list[float]:
    """Return the usage of each broker from ``10,50,30``.

    Raises:
        InputError: It is no list of numbers, or one is negative or endless.
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{text[:60]!r} is not a list of numbers.", hint="Use the form 10,50,30."
        ) from None
    wrong = next((value for value in found if not math.isfinite(value) or value < 0), None)
    if wrong is not None:
        raise InputError(f"{wrong:g} is not a valid usage.", hint="Specify numbers of 0 or more.")
    if len(found) > MAX_BROKERS:
        raise InputError(f"{len(found):,} brokers exceed the maximum of {MAX_BROKERS:,}.")
    return found


def demand_steps(text: str) -> list[list[float]]:
    """Return one row a period: what the clients of each broker would send, per second.

    Raises:
        InputError: It is no such text, or brokers come and go.
    """
    rows: list[list[float]] = []
    for part in (piece.strip() for piece in text.split(";")):
        if not part:
            continue
        count, sign, values = part.rpartition(":")
        if sign and not is_whole(count.strip()):
            raise InputError(f"{count[:40]!r} is not a number of periods.", hint=_HINT)
        periods = int(count) if sign else 1
        if not 1 <= periods <= MAX_PERIODS - len(rows):
            raise InputError(
                f"With {part[:40]!r} there are {len(rows) + periods:,} periods.",
                hint=f"Use 1 to {MAX_PERIODS:,}.",
            )
        rows += [usage_list(values)] * periods
    if not rows:
        raise InputError("No step of usage is specified.", hint=_HINT)
    odd = next((row for row in rows if len(row) != len(rows[0])), None)
    if odd is not None:
        raise InputError(
            f"One step has {len(rows[0])} brokers, another {len(odd)}.",
            hint="Specify a number for each broker in every step.",
        )
    return rows


def simulated_steps(
    limit: float, steps: str, *, period_s: float, tolerance_percent: float
) -> tuple[ShareTimeline, int]:
    """Simulate steps of demand, and return the timeline and the limit as brokers store it.

    Args:
        limit: Of the group, a second.
        steps: As :func:`demand_steps` takes them.
        period_s: ``resourceUsageTransportPublishIntervalInSecs``.
        tolerance_percent: A change of use up to this much is not reported.
    Raises:
        InputError: Any of it cannot be.
    """
    whole = whole_limit(limit)
    if not (1 <= period_s <= _INT_MAX and float(period_s).is_integer()):
        raise InputError(
            f"The report interval is {period_s:g} s.", hint="Use whole seconds, 1 or more."
        )
    if not 0 <= tolerance_percent <= 1_000_000:
        raise InputError(
            f"The tolerance is {tolerance_percent:g}%.", hint="Specify a percentage of 0 or more."
        )
    rows = demand_steps(steps)
    if sum(max(row) for row in zip(*rows, strict=True)) * period_s > _LONG_MAX:
        raise InputError(
            "The usage of a period exceeds the range of a broker's counter.",
            hint=f"The maximum is {_LONG_MAX:,}.",
        )
    timeline = share_timeline(
        whole, rows, period_s=int(period_s), tolerance_percent=tolerance_percent
    )
    return timeline, whole


def whole_limit(limit: float) -> int:
    """Return a limit as brokers hold it.

    Raises:
        InputError: It is no whole number, or none that they can hold; -1 is no limit.
    """
    if not math.isfinite(limit) or not float(limit).is_integer():
        raise InputError(
            f"The limit is {limit:g}; it must be a whole number.", hint="-1 means no limit."
        )
    if not -1 <= limit <= _LONG_MAX:
        raise InputError(
            f"The limit is {limit:,.0f}; the range is -1 to {_LONG_MAX:,}.",
            hint="-1 means no limit.",
        )
    return int(limit)
