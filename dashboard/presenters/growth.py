"""Texts of growth: dates, their uncertainty, and slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.history.queries.growth import HORIZON_DAYS
from core.units import format_deviation, format_ratio, ms_to_datetime
from dashboard.presenters.load import format_load

if TYPE_CHECKING:
    from core.history.queries.growth import Forecast


def format_forecast(one: Forecast) -> str:
    """Return the date: ``2027-03-01``, ``reached``, ``not in 2 years``, ``no trend``."""
    match one.state:
        case "date":
            return format_day(one.at_ms)
        case "reached":
            return "reached"
        case "beyond":
            return f"not in {HORIZON_DAYS // 365} years"
        case "steady":
            return "no trend"
        case "unknown":
            return "unknown"


def format_day(at_ms: int | None) -> str:
    """Return a date; ``None`` is farther ahead than dates are given."""
    if at_ms is None:
        return f"later than {HORIZON_DAYS // 365} years"
    return f"{ms_to_datetime(at_ms):%Y-%m-%d}"


def describe_forecast(one: Forecast) -> str:
    """Return interval, level and limit: ``2027-02-01 to 2027-05-07 · 61%, +2.1% a month``."""
    if one.state == "unknown":
        return one.reason
    parts = []
    if one.state == "date":
        parts.append(f"{format_day(one.earliest_ms)} to {format_day(one.latest_ms)}")
    if one.subject:
        parts.append(one.subject)
    level = format_deviation(one.now) if one.subject else format_ratio(one.now)
    parts.append(f"{level} now, {format_deviation(one.per_month)} a month")
    return " · ".join(parts)


def describe_limit(one: Forecast, *, has_key: bool = True) -> str:
    """Return the limit, with the setting that has it or without."""
    if one.limit_key and not has_key:
        return format_ratio(one.limit)
    if one.limit_key:
        return f"{format_ratio(one.limit)}, {one.limit_key}"
    return f"±{format_ratio(abs(one.limit))}" if one.limit is not None else "unknown"


def format_slope(measure: str, per_month: float) -> str:
    """Return a slope with its sign and unit."""
    sign = "+" if per_month >= 0 else "-"
    return f"{sign}{format_load(measure, abs(per_month))}"


def format_interval(measure: str, low: float, high: float) -> str:
    """Return the interval of a slope."""
    return f"{format_slope(measure, low)} to {format_slope(measure, high)}"
