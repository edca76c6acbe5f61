"""How a resource group's limit is shared out among brokers: by the real class, and as published.

Every broker reports what it used, and gives itself a share of the limit by its share of the use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError

Floats = NDArray[np.float64]
Formula = Literal["upstream", "published"]
FORMULAS: Final[tuple[Formula, ...]] = ("upstream", "published")

NO_LIMIT: Final = -1
REPORT_TOLERANCE_PERCENT: Final = 5.0
"""A change of use up to this much is not reported (``ResourceGroupService``)."""

MIN_REPORT_PERIODS: Final = 5
"""After so many periods use is reported whatever it is."""

_LONG_MAX: Final = 2**63 - 1


def upstream_share(limit: int, mine: int, total: int) -> int:
    """Return the share that a broker gives itself.

    Args:
        limit: Configured for the whole cluster, per second; negative: no limit.
        mine: What this broker reported last, per period.
        total: The same summed over all brokers.
    Returns:
        Per second, truncated; -1 without a limit.
    Raises:
        InputError: A negative use.
    Source:
        Pulsar ``ResourceQuotaCalculatorImpl#computeLocalQuota``: arithmetic in single precision.
    Example:
        >>> upstream_share(100, 20, 150), upstream_share(100, 0, 50), upstream_share(100, 0, 0)
        (13, 1, 100)
    """
    if limit < 0:
        return NO_LIMIT
    _refuse_negative([mine, total])
    if total == 0:
        return limit
    single = np.float32
    residual = single(limit - total)
    fraction = single(mine) / single(total)
    return min(int(max(single(mine) + residual * fraction, single(1.0))), _LONG_MAX)


def published_share(limit: float, mine: float, total: float) -> float:
    """Return the share by the formula of the published design, not truncated.

    Args:
        limit: Configured for the whole cluster; negative: no limit.
        mine: What this broker uses, in the limit's unit.
        total: What all brokers use.
    Raises:
        InputError: A negative use.
    Source:
        PIP-82.
    Example:
        >>> [round(published_share(100, use, 90), 2) for use in (10, 50, 30)]
        [11.11, 55.56, 33.33]
    """
    if limit < 0:
        return float(NO_LIMIT)
    _refuse_negative([mine, total])
    if total == 0:
        return float(limit)
    return max(mine + (limit - total) * mine / total, 1.0)


def shares(limit: float, usage: Sequence[float], formula: Formula = "upstream") -> list[float]:
    """Return each broker's share.

    Args:
        limit: Configured for the whole cluster; negative: no limit.
        usage: Of each broker.
        formula: ``upstream`` counts in whole numbers only.
    Raises:
        InputError: No broker, a negative or endless number, or parts of one with ``upstream``.
    """
    if not usage:
        raise InputError("No broker usage is specified.", hint="Specify at least one number.")
    if not np.isfinite([limit, *usage]).all():
        raise InputError("A limit or usage is not a finite number.", hint="Specify finite numbers.")
    if max(abs(limit), sum(map(abs, usage))) > _LONG_MAX:
        raise InputError(
            "The limit, or the total usage of all brokers, exceeds the range of a "
            "broker's counter.",
            hint=f"The maximum is {_LONG_MAX:,}.",
        )
    if formula == "published":
        total = sum(usage)
        return [published_share(limit, mine, total) for mine in usage]
    if any(value != int(value) for value in (limit, *usage)):
        raise InputError(
            "The real class counts whole messages and bytes.",
            hint="Specify whole numbers, or use --formula published.",
        )
    whole = [int(value) for value in usage]
    return [float(upstream_share(int(limit), mine, sum(whole))) for mine in whole]


def must_report(
    use: float,
    reported: float,
    periods_since: int,
    tolerance_percent: float = REPORT_TOLERANCE_PERCENT,
) -> bool:
    """Return whether a broker reports its usage in this period.

    Args:
        use: In this period.
        reported: What it reported last.
        periods_since: Periods since that.
        tolerance_percent: A change up to this much is not reported; brokers have no setting for it.
    Source:
        Pulsar ``ResourceGroup#needToReportLocalUsage``: falling to nothing alone is not reported.
    Example:
        >>> must_report(1051, 1000, 1), must_report(1050, 1000, 1), must_report(0, 100, 1)
        (True, False, False)
    """
    if periods_since >= MIN_REPORT_PERIODS:
        return True
    if use <= 0:
        return False
    if reported == 0:
        return True
    change = np.float32(100.0) * np.abs(np.float32(use - reported)) / np.float32(reported)
    return bool(change > np.float32(tolerance_percent))


@dataclass(frozen=True, eq=False)
class ShareTimeline:
    """Shares over time; rows are periods, columns brokers.

    Attributes:
        wanted: What clients would send, per second.
        used: What got through, per second.
        share: What each broker allows itself from this period on, per second.
        reports: Whether the broker reported in this period.
    """

    wanted: Floats
    used: Floats
    share: Floats
    reports: NDArray[np.bool_]

    @property
    def held_back(self) -> Floats:
        """Throttled amount, per second and broker."""
        return self.wanted - self.used


def share_timeline(
    limit: int,
    wanted: Iterable[Sequence[float]],
    *,
    period_s: int,
    tolerance_percent: float = REPORT_TOLERANCE_PERCENT,
) -> ShareTimeline:
    """Simulate periods of demand: brokers limit, report and share out again.

    A report counts for all brokers in the next period, and what a broker reported last stays known
    for good, as in the real cluster; before its first report a broker has the whole limit.

    Args:
        limit: Of the group, per second.
        wanted: For each period, what the clients of each broker would send, per second.
        period_s: ``resourceUsageTransportPublishIntervalInSecs``.
        tolerance_percent: A change of use up to this much is not reported.
    Raises:
        InputError: No period, brokers that come and go, or a negative demand.
    Source:
        Pulsar ``ResourceGroupService``, its periodic tasks.
    """
    demand = [list(row) for row in wanted]
    if not demand or not demand[0] or any(len(row) != len(demand[0]) for row in demand):
        raise InputError(
            "Every period needs one number for each broker.",
            hint="Specify rows of the same length.",
        )
    rows = np.array(demand, np.float64)
    _refuse_negative(rows.ravel().tolist())
    timeline = ShareTimeline(
        rows, np.zeros(rows.shape), np.zeros(rows.shape), np.zeros(rows.shape, np.bool_)
    )
    share = np.full(rows.shape[1], float(limit) if limit >= 0 else np.inf)
    reported, age = np.zeros(rows.shape[1]), np.full(rows.shape[1], MIN_REPORT_PERIODS)
    for number, row in enumerate(rows):
        timeline.used[number] = np.minimum(row, share)
        use = np.floor(timeline.used[number] * period_s)
        is_reported = [
            must_report(*each, tolerance_percent)
            for each in zip(use, reported, age.tolist(), strict=True)
        ]
        timeline.reports[number] = is_reported
        reported = np.where(is_reported, use, reported)
        age = np.where(is_reported, 1, age + 1)
        total = int(reported.sum())
        given = [upstream_share(limit, int(mine), total) for mine in reported]
        share = np.where(np.array(given) < 0, np.inf, np.array(given, np.float64))
        timeline.share[number] = share
    return timeline


def _refuse_negative(values: Iterable[float]) -> None:
    if any(value < 0 for value in values):
        raise InputError("A usage is negative.", hint="Usage must be 0 or more.")
