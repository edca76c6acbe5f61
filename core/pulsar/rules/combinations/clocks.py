"""Periods that do not fit each other: who looks oftener than there is news."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from core.findings.engine import Rule
from core.findings.finding import Finding, Fix
from core.findings.quantity import Quantity
from core.pulsar.rules.combinations.model import INTERVAL, Case

_STATS: Final = "statsUpdateFrequencyInSecs"
_HOST: Final = "loadBalancerHostUsageCheckIntervalMinutes"
_CHECK: Final = "loadBalancerReportUpdateMinIntervalMillis"
_LONGEST: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_TRIGGER: Final = "loadBalancerReportUpdateThresholdPercentage"
_TTL: Final = "loadBalancerBrokerLoadDataTTLInSeconds"
_DEAF_PCT: Final = 50.0
_MINUTE_S: Final = 60.0
_SECOND_MS: Final = 1000.0


def rounds_before_news(case: Case) -> Iterator[Finding]:
    """Rounds that come sooner than the numbers they go by are renewed."""
    round_s = case.number(INTERVAL) * _MINUTE_S
    periods = {
        _STATS: case.number(_STATS),
        _HOST: case.number(_HOST) * _MINUTE_S,
        _CHECK: case.number(_CHECK) / _SECOND_MS,
    }
    slowest = max(periods, key=lambda key: periods[key])
    if not 0 < round_s < periods[slowest]:
        return
    yield Finding(
        code="rounds_before_reports",
        title="Rounds are more frequent than load data",
        measured=Quantity(round_s, "s"),
        limit=Quantity(periods[slowest], "s"),
        severity="warning",
        keys=(INTERVAL, slowest),
        sentence=f"A round runs every {round_s:g} s, but {slowest} is updated every "
        f"{periods[slowest]:g} s.",
        consequence="Rounds in between use data from before the previous round, and shed again.",
        hint="Set the interval to at least the slowest update interval.",
        fix=Fix(wanted={INTERVAL: math.ceil(periods[slowest] / _MINUTE_S)}),
    )


def reports(case: Case) -> Iterator[Finding]:
    """Load reports that are written too seldom, or without their trigger."""
    check_s, longest_s = case.number(_CHECK) / _SECOND_MS, case.number(_LONGEST) * _MINUTE_S
    if 0 < longest_s < check_s:
        yield Finding(
            code="report_bounds_crossed",
            title="Reports are checked later than due",
            measured=Quantity(check_s, "s"),
            limit=Quantity(longest_s, "s"),
            severity="warning",
            keys=(_CHECK, _LONGEST),
            sentence=f"A report is due after {longest_s:g} s at the latest, but the check "
            f"runs every {check_s:g} s.",
            consequence="Every check writes a report, later than configured.",
            hint="Check more often than the max interval.",
            fix=Fix(wanted={_LONGEST: max(1, math.ceil(check_s / _MINUTE_S))}),
        )
    trigger = case.number(_TRIGGER)
    if trigger >= _DEAF_PCT:
        yield Finding(
            code="reports_delayed",
            title="Reports wait for large load changes",
            measured=Quantity(trigger, "percent"),
            limit=Quantity(10, "percent"),
            severity="info",
            keys=(_TRIGGER, _LONGEST),
            sentence=f"A load may change by {trigger:g}% before its broker reports; "
            f"otherwise a report is written every {case.number(_LONGEST):g} min.",
            consequence="The leader decides on loads with that error.",
            hint="The upstream default is 10%.",
            fix=Fix(wanted={_TRIGGER: case.default(_TRIGGER)}),
        )


def data_expires(case: Case) -> Iterator[Finding]:
    """Load data of the extensible manager that go stale before they are written again."""
    valid_s, longest_s = case.number(_TTL), case.number(_LONGEST) * _MINUTE_S
    if case.is_extensible and valid_s < longest_s:
        yield Finding(
            code="data_expires",
            title="Load data expires before it is updated",
            measured=Quantity(valid_s, "s"),
            limit=Quantity(longest_s, "s"),
            severity="warning",
            keys=(_TTL, _LONGEST),
            sentence=f"Load data is valid for {valid_s:g} s, but a steady broker publishes "
            f"it every {longest_s:g} s.",
            consequence="In between, TransferShedder treats such brokers as outdated and skips "
            "them.",
            hint="Keep the data for two of the max intervals.",
            fix=Fix(wanted={_TTL: round(2 * longest_s)}),
        )


RULES: Final[tuple[Rule[Case], ...]] = (rounds_before_news, reports, data_expires)
