"""What an alert is: a condition that holds, for how long it has, and who was told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from core.actions.views import RunView
from core.findings.finding import Finding
from core.gauges import Gauge

Severity = Literal["info", "warning", "critical"]
AlertState = Literal["pending", "firing", "resolved"]


class AlertKey(NamedTuple):
    """Identity of an alert: rule, cluster, and subject within it or ""."""

    rule: str
    cluster: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Alert thresholds; minutes are the min duration of the condition.

    Attributes:
        deviation_ratio: ``(max - mean) / mean`` of traffic, or of the primaries of nodes; ``None``:
            the target of the cluster.
        deviation_min: For so long.
        unhealthy_min: A Pegasus cluster has unhealthy partitions.
        error_min: A cluster has a finding at error.
        lively_min: A Pegasus cluster is at ``lively``.
        stale_min: The newest snapshot is older, or there is none for so long.
        returned_per_hour: Moves back to a server that was left before.
        drift_min: Servers of a cluster run with different settings.
        waiting_min: A run waits, paused or for a worker.
        pipeline_lag_min: Hours of the history are rolled up later than this after their end.
    """

    deviation_ratio: float | None = None
    deviation_min: float = 30.0
    unhealthy_min: float = 10.0
    error_min: float = 0.0
    lively_min: float = 120.0
    stale_min: float = 5.0
    returned_per_hour: int = 5
    drift_min: float = 30.0
    waiting_min: float = 10.0
    pipeline_lag_min: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about one cluster at a moment.

    Attributes:
        cluster: Its name.
        now: Aware UTC.
        taken_at: Of the newest snapshot; ``None`` if there is none.
        collect_error: Last error of the collector, a sentence; empty: it reported none.
        gauges: Figures of it.
        findings: Of it.
        runs: The latest runs, newest first.
        waiting: Those of them that wait for approval.
        returned: Moves of the last hour back to a server that was left before.
        target_ratio: Deviation that the target of the cluster allows.
        pipeline_lag_s: Time since the end of the first recorded hour that is not rolled up;
            ``None`` if it is unknown.
    """

    cluster: str
    now: datetime
    taken_at: datetime | None = None
    collect_error: str = ""
    gauges: Sequence[Gauge] = ()
    findings: Sequence[Finding] = ()
    runs: Sequence[RunView] = ()
    waiting: Sequence[RunView] = ()
    returned: int = 0
    target_ratio: float = 0.2
    pipeline_lag_s: float | None = None

    def gauge(self, name: str, labels: Mapping[str, str]) -> float | None:
        """Return a value of the snapshot, or ``None`` if it has none."""
        for one in self.gauges:
            if one.name == name and labels.items() <= dict(one.labels).items():
                return one.value
        return None


class Condition(NamedTuple):
    """Something that holds now.

    Attributes:
        subject: What it is about, within the cluster; empty: all of it.
        sentence: What is measured against which limit, one sentence.
        hint: What to do.
        measured: The value, with its unit; empty: it is no number.
        limit: What the value is measured against, with its unit; empty: nothing.
        since: Start of its finding; ``None``: it has none, or the start is unknown.
    """

    subject: str
    sentence: str
    hint: str
    measured: str = ""
    limit: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of alert.

    Attributes:
        code: Stable word.
        title: In a few words.
        severity: How urgent it is.
        minutes: How long it must have held, by the limits.
        holds: Returns what holds now.
        condition: The condition as text, by the limits: ``age > 5 min``.
    """

    code: str
    title: str
    severity: Severity
    minutes: Callable[[Limits], float]
    holds: Callable[[Facts, Limits], Iterable[Condition]]
    condition: Callable[[Limits], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert as it stands.

    Attributes:
        key: Which one.
        state: ``pending``: it holds, not for long enough yet. ``firing``: it is told. ``resolved``.
        severity: How urgent it is.
        sentence: As of the latest look.
        hint: What to do.
        since: Since when it holds, aware UTC.
        told_at: When its present state was told last; ``None`` if it has to be told.
        ended_at: When it ceased to hold.
        measured: The value of the latest look, with its unit; empty: it is no number.
        limit: What the value is measured against, with its unit; empty: nothing.
    """

    key: AlertKey
    state: AlertState
    severity: Severity
    sentence: str
    hint: str
    since: datetime
    told_at: datetime | None = None
    ended_at: datetime | None = None
    measured: str = ""
    limit: str = ""

    @property
    def sent_at(self) -> datetime | None:
        """When a target got its present state last; ``None`` if none did."""
        # one that ends before it was sent has told_at = ended_at: its end is not sent either
        return None if self.told_at == self.ended_at else self.told_at


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange:
    """An alert that began to fire, or was resolved; what the past says of alerts.

    Attributes:
        at: When, aware UTC.
        key: Which one.
        state: ``firing`` or ``resolved``.
        severity: How urgent it was.
        sentence: What it said then.
    """

    at: datetime
    key: AlertKey
    state: AlertState
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Silenced alerts.

    Attributes:
        number: Its number.
        rule: Pattern of rule codes.
        cluster: Pattern of cluster names.
        subject: Pattern of subjects.
        until: Aware UTC.
        by: Who wants it.
        reason: Why.
    """

    number: int
    rule: str = "*"
    cluster: str = "*"
    subject: str = "*"
    until: datetime
    by: str
    reason: str

    def covers(self, alert: Alert, now: datetime) -> bool:
        """Return whether an alert is silenced now."""
        patterns = (self.rule, self.cluster, self.subject)
        return now < self.until and all(
            fnmatchcase(value, pattern) for value, pattern in zip(alert.key, patterns, strict=True)
        )


KEPT_RESOLVED = timedelta(hours=24)
"""How long an alert that is over is shown."""
