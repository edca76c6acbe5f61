"""Numbers and texts of the page of alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import pandas as pd

from core.alerts.model import Alert, Severity, Silence
from core.alerts.rules import RULE_BY_CODE
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

_COLUMNS: Final = ["state", "severity", "cluster", "title", "subject", "since", "sent"]

_STATES: Final = {
    "firing": "▲ firing",
    "silenced": "◌ silenced",
    "pending": "○ pending",
    "resolved": "✔ resolved",
}

_STATUS: Final[Mapping[Severity, Status]] = {
    "critical": "bad",
    "warning": "warning",
    "info": "",
}


def state_of(alert: Alert, silences: Sequence[Silence], now: datetime) -> str:
    """Return ``firing``, ``silenced``, ``pending`` or ``resolved``."""
    is_quiet = alert.state == "firing" and any(one.covers(alert, now) for one in silences)
    return "silenced" if is_quiet else alert.state


def rows_of(alerts: Sequence[Alert], silences: Sequence[Silence], now: datetime) -> pd.DataFrame:
    """Return a row for each alert."""
    rows = [
        {
            "state": _STATES[state_of(one, silences, now)],
            "severity": one.severity,
            "cluster": one.key.cluster,
            "title": RULE_BY_CODE[one.key.rule].title if one.key.rule in RULE_BY_CODE else "",
            "subject": one.key.subject,
            "since": format_age((now - one.since).total_seconds()),
            "sent": format_ago((now - one.sent_at).total_seconds()) if one.sent_at else "not sent",
        }
        for one in alerts
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def key_figures(
    alerts: Sequence[Alert], silences: Sequence[Silence], targets: int, now: datetime
) -> list[KeyFigure]:
    """Return how many alerts are in each state, and how many targets are told."""
    states = [state_of(one, silences, now) for one in alerts]
    firing = states.count("firing")
    worst = next((one.severity for one in alerts if state_of(one, silences, now) == "firing"), None)
    return [
        KeyFigure(
            label="Firing",
            value=f"{firing:,}",
            note=f"worst: {worst}" if firing else "none",
            status=_STATUS[worst] if worst else "ok",
        ),
        KeyFigure(
            label="Pending", value=f"{states.count('pending'):,}", note="not long enough yet"
        ),
        KeyFigure(label="Silenced", value=f"{states.count('silenced'):,}", note="not sent"),
        KeyFigure(label="Resolved, 24 h", value=f"{states.count('resolved'):,}"),
        KeyFigure(
            label="Targets",
            value=f"{targets:,}",
            note="get messages" if targets else "no messages are sent",
            status="" if targets else "warning",
        ),
    ]


def answer(alerts: Sequence[Alert], silences: Sequence[Silence], now: datetime) -> str:
    """Return what is wrong now, one sentence."""
    firing = [one for one in alerts if state_of(one, silences, now) == "firing"]
    if not firing:
        return "No alert is firing."
    age = format_age((now - firing[0].since).total_seconds())
    more = f", and {pluralize(len(firing) - 1, 'other')}" if firing[1:] else ""
    return f"{firing[0].key.cluster}, for {age}: {firing[0].sentence.rstrip('.')}{more}."


def silence_words(silence: Silence) -> str:
    """Return a silence in words."""
    subject = f", {silence.subject}" if silence.subject != "*" else ""
    return (
        f"{silence.rule} on {silence.cluster}{subject}, until {silence.until:%Y-%m-%d %H:%M} UTC, "
        f"by {silence.by}: {silence.reason}"
    )
