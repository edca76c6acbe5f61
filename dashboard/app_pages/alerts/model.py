"""Numbers and texts of the page of alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import pandas as pd

from core.alerts.model import Alert, Limits, Severity, Silence
from core.alerts.rules import RULE_BY_CODE, RULES
from core.units import format_age, format_ago, pluralize
from dashboard.presenters.figures import KeyFigure, Status

SPANS: Final = {
    "30 min": timedelta(minutes=30),
    "2 h": timedelta(hours=2),
    "8 h": timedelta(hours=8),
    "1 d": timedelta(days=1),
    "7 d": timedelta(days=7),
}
"""How long a silence may last."""

SEVERITIES: Final[Mapping[str, str]] = {
    "critical": "✖ Critical",
    "warning": "▲ Warning",
    "info": "○ Info",
}
"""Severity as it is written, the most urgent first."""

STATES: Final[Mapping[str, str]] = {
    "firing": "▲ Firing",
    "silenced": "◌ Silenced",
    "pending": "○ Pending",
    "resolved": "● Resolved",
}
"""State as it is written; a firing alert that a silence covers is ``silenced``."""

_FINDING: Final = "problem"
"""The rule of findings at error; the subject of its alerts is the kind of the finding."""
_COLUMNS: Final = [
    *(
        "severity",
        "title",
        "object",
        "message",
        "since",
        "measured",
        "limit",
        "sent",
        "state",
        "ended",
    )
]
_STATUS: Final[Mapping[Severity, Status]] = {
    "critical": "bad",
    "warning": "warning",
    "info": "",
}


def state_of(alert: Alert, silences: Sequence[Silence], now: datetime) -> str:
    """Return ``firing``, ``silenced``, ``pending`` or ``resolved``."""
    is_quiet = alert.state == "firing" and any(silence.covers(alert, now) for silence in silences)
    return "silenced" if is_quiet else alert.state


def is_open(alert: Alert, silences: Sequence[Silence], now: datetime) -> bool:
    """Return whether an alert fires and no silence covers it."""
    return state_of(alert, silences, now) == "firing"


def all_clear(unread: Sequence[str]) -> str:
    """Return that no alert fires, with the clusters of which that is not known.

    Args:
        unread: Clusters without a snapshot.
    """
    return "No firing alerts." + (f" No data: {', '.join(unread)}." if unread else "")


def rows_of(alerts: Sequence[Alert], silences: Sequence[Silence], now: datetime) -> pd.DataFrame:
    """Return a row for each alert."""
    rows = [
        {
            "severity": [SEVERITIES[alert.severity]],
            "title": title_of(alert),
            "object": object_of(alert),
            "message": alert.sentence,
            "since": format_age((now - alert.since).total_seconds()),
            "measured": alert.measured,
            "limit": alert.limit,
            "sent": format_ago((now - alert.sent_at).total_seconds())
            if alert.sent_at
            else "not sent",
            "state": [STATES[state_of(alert, silences, now)]],
            "ended": format_ago((now - alert.ended_at).total_seconds()) if alert.ended_at else "",
        }
        for alert in alerts
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def object_of(alert: Alert) -> str:
    """Return the cluster, and the object in it; the kind of a finding is the title."""
    subject = "" if alert.key.rule == _FINDING else alert.key.subject
    return " · ".join(filter(None, (alert.key.cluster, subject)))


def title_of(alert: Alert) -> str:
    """Return the kind of a finding, else the title of the rule, or its code without a rule."""
    if alert.key.rule == _FINDING and alert.key.subject:
        return alert.key.subject.replace("_", " ").capitalize()
    rule = RULE_BY_CODE.get(alert.key.rule)
    return rule.title if rule is not None else alert.key.rule


_PAGES: Final[Mapping[str, str]] = {
    "uneven": "diagnose",
    "unhealthy": "pegasus_tables",
    _FINDING: "diagnose",
    "lively": "pegasus",
    "unread": "fleet",
    "flapping": "history",
    "settings_drift": "settings",
    "pipeline_lag": "jobs",
}
_RUN_RULES: Final = ("run_failed", "run_unassigned", "run_waiting", "approval_pending")


def link_of(alert: Alert) -> tuple[str, dict[str, str]] | None:
    """Return the page where something can be done about an alert, and its parameters."""
    if alert.key.rule in _RUN_RULES:
        return "run", {"run": alert.key.subject}
    page = _PAGES.get(alert.key.rule)
    return None if page is None else (page, {"cluster": alert.key.cluster})


def thresholds_table(
    limits: Limits, alerts: Sequence[Alert], silences: Sequence[Silence], now: datetime
) -> pd.DataFrame:
    """Return a row per rule: its condition, its duration, its severity, and its firing alerts.

    Args:
        limits: Effective ones.
        alerts: Every alert.
        silences: Active ones.
        now: Aware UTC.
    """
    firing = Counter(alert.key.rule for alert in alerts if is_open(alert, silences, now))
    rows = [
        {
            "title": rule.title,
            "severity": [SEVERITIES[rule.severity]],
            "condition": rule.condition(limits),
            "minutes": rule.minutes(limits),
            "firing": firing[rule.code],
        }
        for rule in RULES
    ]
    return pd.DataFrame(rows)


def key_figures(
    alerts: Sequence[Alert],
    silences: Sequence[Silence],
    targets: int,
    now: datetime,
    *,
    unread: int = 0,
) -> list[KeyFigure]:
    """Return the number of alerts in each state and the number of notification targets.

    Args:
        silences: The silences that cover alerts.
        targets: Number of notification targets.
        now: The present moment.
        unread: Clusters without a snapshot, whose alerts are unknown.
    """
    states = Counter(state_of(alert, silences, now) for alert in alerts)
    firing = Counter(alert.severity for alert in alerts if is_open(alert, silences, now))
    worst = next((one for one in _STATUS if firing[one]), None)
    counted = ", ".join(f"{firing[one]:,} {one}" for one in _STATUS if firing[one])
    return [
        KeyFigure(
            label="Firing",
            value=f"{states['firing']:,}",
            note=counted or (f"{pluralize(unread, 'cluster')} without data" if unread else "none"),
            status=_STATUS[worst] if worst else "unknown" if unread else "ok",
        ),
        KeyFigure(label="Pending", value=f"{states['pending']:,}", note="before their delay"),
        KeyFigure(label="Silenced", value=f"{states['silenced']:,}", note="no notifications"),
        KeyFigure(label="Resolved", value=f"{states['resolved']:,}", note="last 24 h"),
        KeyFigure(
            label="Targets",
            value=f"{targets:,}",
            note="receive notifications" if targets else "no notifications",
            status="" if targets else "warning",
        ),
    ]


def silence_words(silence: Silence) -> str:
    """Return the scope, end, author and reason of a silence."""
    covered = RULE_BY_CODE[silence.rule].title if silence.rule in RULE_BY_CODE else silence.rule
    parts = (
        "All alerts" if silence.rule == "*" else covered,
        "all clusters" if silence.cluster == "*" else silence.cluster,
        "" if silence.subject == "*" else silence.subject,
        f"until {silence.until:%Y-%m-%d %H:%M} UTC",
        f"{silence.by}: {silence.reason}",
    )
    return " · ".join(part for part in parts if part)
