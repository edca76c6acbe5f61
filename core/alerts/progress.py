"""How alerts go on from look to look: pending, firing, resolved; and what is to be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from core.alerts.model import KEPT_RESOLVED, Alert, AlertKey, AlertState, Facts, Limits, Silence
from core.alerts.rules import RULES


def looked(
    known: Mapping[AlertKey, Alert], facts: Iterable[Facts], limits: Limits
) -> dict[AlertKey, Alert]:
    """Return the alerts after an evaluation of some clusters.

    Args:
        known: The alerts before it. Those of clusters that were not looked at stay as they are.
        facts: What is known of each cluster now.
        limits: From when on a person is told.
    """
    after = dict(known)
    for one in facts:
        holding: set[AlertKey] = set()
        for rule in RULES:
            minutes = rule.minutes(limits)
            for found in rule.holds(one, limits):
                key = AlertKey(rule.code, one.cluster, found.subject)
                holding.add(key)
                before = after.get(key)
                if before is None or before.state == "resolved":
                    before = Alert(
                        key=key,
                        state="pending",
                        severity=rule.severity,
                        sentence=found.sentence,
                        hint=found.hint,
                        since=found.since or one.now,
                    )
                # that of the objects in question now; a clock may have been ahead
                since = min(found.since or before.since, one.now)
                is_due = one.now - since >= timedelta(minutes=minutes)
                state: AlertState = "firing" if is_due or before.state == "firing" else "pending"
                after[key] = replace(
                    before,
                    state=state,
                    sentence=found.sentence,
                    hint=found.hint,
                    since=since,
                    measured=found.measured,
                    limit=found.limit,
                )
        for key in [key for key in after if key.cluster == one.cluster and key not in holding]:
            over = _over(after[key], one.now)
            if over is None:
                del after[key]
            else:
                after[key] = over
    return after


def _over(alert: Alert, now: datetime) -> Alert | None:
    """Return the resolved state of an alert that no longer holds, or ``None`` to drop it.

    The end of one that was never told, for it was silenced, is not told either.
    """
    if alert.state == "firing":
        told_at = now if alert.told_at is None else None
        return replace(alert, state="resolved", told_at=told_at, ended_at=now)
    is_old = alert.ended_at is not None and now - alert.ended_at > KEPT_RESOLVED
    return None if alert.state == "pending" or is_old else alert


def to_tell(
    alerts: Iterable[Alert], silences: Iterable[Silence], now: datetime, repeat: timedelta
) -> dict[str, list[Alert]]:
    """Return the due notifications, one per cluster.

    Args:
        alerts: As they stand.
        silences: Those in force, or over.
        now: Aware UTC.
        repeat: After so long a firing alert is told again.
    """
    quiet = tuple(silences)
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.state == "pending" or any(one.covers(alert, now) for one in quiet):
            continue
        # a clock that was ahead when it was sent must not keep it from being sent again
        is_due = alert.told_at is None or (
            alert.state == "firing" and abs(now - alert.told_at) >= repeat
        )
        if is_due:
            found.setdefault(alert.key.cluster, []).append(alert)
    return found


def message(cluster: str, alerts: Iterable[Alert]) -> tuple[str, str]:
    """Return title and text of the message about a cluster."""
    firing = [one for one in alerts if one.state == "firing"]
    resolved = [one for one in alerts if one.state == "resolved"]
    worst = "resolved" if not firing else max(firing, key=_urgency).severity
    counts = [f"{len(firing)} firing"] if firing else []
    counts += [f"{len(resolved)} resolved"] if resolved else []
    lines = []
    for one in sorted(firing, key=_urgency, reverse=True):
        since = f"{one.since:%Y-%m-%d %H:%M} UTC"
        lines.append(f"FIRING ({one.severity}) since {since}: {one.sentence}")
        lines.append(f"  {one.hint}")
    lines += [f"RESOLVED: {one.sentence}" for one in resolved]
    return f"[{worst}] {cluster}: {', '.join(counts)}", "\n".join(lines)


def _urgency(alert: Alert) -> int:
    return ("info", "warning", "critical").index(alert.severity)
