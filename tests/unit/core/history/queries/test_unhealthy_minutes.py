"""Minutes with a critical alert, by day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.alerts.model import AlertChange, AlertKey
from core.alerts.past import unhealthy_minutes
from core.units import datetime_to_ms

DAY = datetime(2026, 11, 2, tzinfo=UTC)
DAYS = [datetime_to_ms(DAY + timedelta(days=number)) for number in (-2, -1, 0, 1)]
NOW = datetime_to_ms(DAY + timedelta(days=1, hours=2))


def change(hours: float, state: str, subject: str = "", severity: str = "critical") -> AlertChange:
    return AlertChange(
        at=DAY + timedelta(hours=hours),
        key=AlertKey("stale", "prod", subject),
        state=state,
        severity=severity,
        sentence="",
    )


def test_overlapping_alerts_count_once_and_days_are_cut_at_midnight() -> None:
    changes = [
        change(-1, "firing", "a"),
        change(1, "resolved", "a"),
        change(3, "firing", "a"),
        change(4, "firing", "b"),
        change(5, "resolved", "a"),
        change(6, "resolved", "b"),
    ]
    assert unhealthy_minutes(changes, DAYS, NOW) == [None, 60, 60 + 180, 0]


def test_an_alert_that_still_fires_counts_until_now() -> None:
    assert unhealthy_minutes([change(23, "firing")], DAYS, NOW) == [None, None, 60, 120]


def test_warnings_do_not_count_and_no_record_is_unknown() -> None:
    warnings = [change(1, "firing", severity="warning"), change(2, "resolved", severity="warning")]
    assert unhealthy_minutes(warnings, DAYS, NOW) == [None, None, 0, 0]
    assert unhealthy_minutes([], DAYS, NOW) == [None] * 4
