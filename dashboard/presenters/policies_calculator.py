"""What the quota calculator shows: shares by both formulas, and their course over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.errors import InputError
from core.planning.advisors.share_steps import played, usage_list, whole_limit
from core.planning.advisors.shares import ShareCourse, shares
from core.units import counted, format_ratio
from dashboard.charts.share_course import CourseData


def number(text: str, what: str) -> float:
    """Return a number that a person typed.

    Raises:
        InputError: It is none, or endless.
    """
    plain = text.replace(",", "").replace("_", "").strip()
    try:
        value = float(plain)
    except ValueError:
        raise InputError(f"{what} is {text[:40]!r}; it is a number.") from None
    if not math.isfinite(value):
        raise InputError(f"{what} is {text[:40]!r}; it is a finite number.")
    return value


def calculated(limit: str, usage: str) -> pd.DataFrame:
    """Return one row a broker: what it uses, and may use by both formulas.

    Raises:
        InputError: The limit or a usage is no number, or none that brokers can hold.
    """
    whole = whole_limit(number(limit, "The limit"))
    used = usage_list(usage)
    upstream = shares(whole, [float(math.floor(one)) for one in used])
    published = shares(whole, used, "published")
    return pd.DataFrame(
        {
            "broker": [f"broker {at}" for at in range(1, len(used) + 1)],
            "used": used,
            "upstream": upstream,
            "published": published,
            "room": [share - use for share, use in zip(published, used, strict=True)],
        }
    )


def calculated_answer(rows: pd.DataFrame, limit: str) -> str:
    """Return what the shares add up to, and who would be held back."""
    if number(limit, "The limit") < 0:
        return "Without a limit every broker lets everything through."
    together = float(rows["upstream"].sum())
    held = rows[rows["upstream"] < np.floor(rows["used"])]
    lost = float((held["used"] - held["upstream"]).sum())
    told = f"The brokers together allow {together:,.0f} a second"
    if held.empty:
        return f"{told}; nobody is held back."
    return f"{told}; {counted(len(held), 'broker')} would hold {lost:,.0f} a second back."


def course_data(
    limit: str, steps: str, *, period: str, tolerance: str
) -> tuple[CourseData, ShareCourse]:
    """Return the chart's numbers of a simulation, and the simulation.

    Raises:
        InputError: Any of it cannot be.
    """
    period_s = number(period, "The report interval")
    course, whole = played(
        number(limit, "The limit"),
        steps,
        period_s=period_s,
        tolerance_percent=number(tolerance, "The tolerance"),
    )
    periods, brokers = course.wanted.shape
    first = np.full((1, brokers), np.nan if whole < 0 else float(whole))
    allowed = np.vstack([first, course.share[:-1]])
    return CourseData(
        seconds=np.arange(periods, dtype=np.float64) * period_s,
        brokers=[f"broker {at}" for at in range(1, brokers + 1)],
        wanted=course.wanted,
        used=course.used,
        share=np.where(np.isfinite(allowed), allowed, np.nan),
        reports=course.reports,
        limit=np.nan if whole < 0 else float(whole),
    ), course


def course_answer(data: CourseData, course: ShareCourse) -> str:
    """Return how much was held back, where most, and how far over the limit it went."""
    held = course.held_back
    wanted = float(course.wanted.sum())
    if not wanted:
        return "Nobody wants to send anything."
    told = f"{format_ratio(float(held.sum()) / wanted)} of what clients wanted was held back"
    if held.any():
        worst = int(np.argmax(held.sum(axis=0)))
        told += f", most of it at {data.brokers[worst]}"
    sums = course.used.sum(axis=1)
    over = sums > data.limit if np.isfinite(data.limit) else np.zeros(len(sums), np.bool_)
    if over.any():
        most = float(sums.max() / data.limit) if data.limit else math.inf
        told += (
            f"; in {counted(int(over.sum()), 'period')} more than the limit got through, "
            f"{most:,.1f} times it at the worst, as brokers share out on what was reported before"
        )
    silent = int((~course.reports).sum())
    if silent:
        told += f"; {counted(silent, 'report')} of {course.reports.size:,} were kept back"
    return f"{told}."


def course_table(data: CourseData, course: ShareCourse) -> pd.DataFrame:
    """Return one row a period and broker, for downloads."""
    periods, brokers = course.wanted.shape
    names: Sequence[str] = data.brokers
    return pd.DataFrame(
        {
            "second": np.repeat(data.seconds, brokers),
            "broker": list(names) * periods,
            "wanted": course.wanted.ravel(),
            "got_through": course.used.ravel(),
            "allowed": data.share.ravel(),
            "reported": course.reports.ravel(),
        }
    )
