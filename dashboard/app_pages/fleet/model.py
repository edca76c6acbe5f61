"""Numbers and texts of the fleet overview: rows of clusters, key figures, recent activity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pandas as pd

from core.actions.views import RunView
from core.alerts.model import Limits
from core.findings.finding import Finding, State, count_by_severity
from core.findings.verdict import Verdict
from core.fleet_views import Sort
from core.units import (
    format_ago,
    format_band,
    format_bytes_per_s,
    format_deviation,
    format_ratio,
    pluralize,
)
from dashboard.presenters.figures import KeyFigure, Status, band_status
from dashboard.presenters.fleet import ActionStatus
from dashboard.presenters.moves import ObservedMove, returning
from dashboard.services.processes import ProcessState, title_of

STATE_WORDS: Final[dict[State, str]] = {
    "bad": "✖ Errors",
    "attention": "▲ Attention",
    "unknown": "? Unknown",
    "ok": "● Healthy",
}
NO_SNAPSHOT: Final = "? No snapshot"
UP: Final = "● Running"
DOWN: Final = "✖ Down"
NONE: Final = "\u2013"

HIGH_USAGE: Final = 0.85
"""Usage from which a broker counts as overloaded, unless its cluster is set otherwise."""

_DAY: Final = timedelta(days=1)
_MAX_EVENTS: Final = 12
_NEWS: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One cluster, whichever system it is of; ``None`` is unknown.

    Attributes:
        cluster: Its name.
        verdict: What is wrong, and what was examined; ``None``: there is no snapshot.
        deviation_ratio: Of the busiest broker from the mean traffic, or the largest of the nodes'
            primaries either way.
        measure: What the deviation is of: traffic or primaries.
        target_ratio: Deviation that its target allows; 0: there is no snapshot.
        trend: The same over the last hours, percent, oldest first.
        usage_ratio: Of the fullest broker.
        hottest: That broker, and what limits it.
        nodes: Brokers or nodes; ``alive/all`` where some are down.
        load: Traffic or requests, as people read it.
        traffic: Bytes/s.
        traffic_trend: MB/s over the last hours, oldest first.
        balancer: What the cluster's own balancer does.
        alerts: Alerts of it that are firing.
        moves: Seen in the last hour, oldest first.
        taken_at: Of the snapshot.
        acting: What is being done on it.
        group: Its group and tags, as the configuration has them.
    """

    cluster: str
    acting: ActionStatus
    group: str = ""
    verdict: Verdict | None = None
    deviation_ratio: float | None = None
    measure: str = ""
    target_ratio: float = 0.0
    trend: Sequence[float] = ()
    usage_ratio: float | None = None
    hottest: str = ""
    nodes: str = NONE
    load: str = NONE
    traffic: float | None = None
    traffic_trend: Sequence[float] = ()
    balancer: str = NONE
    alerts: int = 0
    moves: Sequence[ObservedMove] = field(default_factory=tuple)
    taken_at: datetime | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, worst first."""
        return () if self.verdict is None else self.verdict.findings

    @property
    def state(self) -> State | None:
        """The state of the verdict; with an alert that is firing never ``ok``."""
        if self.verdict is None:
            return None
        return "attention" if self.alerts and self.verdict.is_clear else self.verdict.state


def scope_words(rows: Sequence[FleetRow]) -> str:
    """Return the scope of the examination of each cluster; empty if none was examined."""
    known = [(row.cluster, row.verdict) for row in rows if row.verdict is not None]
    if len(known) == 1:
        return known[0][1].scope
    return " ".join(f"{name}: {verdict.scope}" for name, verdict in known)


def process_news(states: Sequence[ProcessState], now: datetime) -> list[ProcessState]:
    """Return the processes that are down, or were started again in the last hour."""
    return [
        state
        for state in states
        if not state.is_up or (state.restarts and now - state.since < _NEWS)
    ]


def processes_table(states: Sequence[ProcessState], now: datetime) -> pd.DataFrame:
    """Return one row a process."""
    return pd.DataFrame(
        [
            {
                "process": title_of(state.name).removeprefix("The ").capitalize(),
                "cluster": state.cluster or NONE,
                "state": [UP if state.is_up else DOWN],
                "since": state.since,
                "restarts": NONE if state.restarts is None else f"{state.restarts:,}",
                "end": state.last_end or NONE,
                "next": "now"
                if state.next_start_at is not None and state.next_start_at <= now
                else f"{state.next_start_at:%H:%M:%S}"
                if state.next_start_at
                else NONE,
                "log": state.log or NONE,
            }
            for state in states
        ]
    )


def in_order(rows: Sequence[FleetRow], sort: Sort) -> list[FleetRow]:
    """Return the clusters in the order of a view; unknown values are last.

    Args:
        rows: In the order of the configuration.
        sort: By name and group ascending, by numbers and states the worst first; without one by
            urgency: state, number of errors, firing alerts, then times the target.
    """

    def worst(value: float | None) -> float:
        return float("inf") if value is None else -abs(value)

    keys: dict[Sort, Callable[[FleetRow], Any]] = {
        "name": lambda one: one.cluster,
        "group": lambda one: (not one.group, one.group),
        "deviation": lambda one: worst(one.deviation_ratio),
        "usage": lambda one: worst(one.usage_ratio),
        "state": lambda one: _WORST_FIRST.index(one.state),
        "": _urgency,
    }
    return sorted(rows, key=keys[sort])


def _urgency(row: FleetRow) -> tuple[int, int, int, float]:
    """Sort key: the cluster to look at first."""
    errors = count_by_severity(row.findings)["error"]
    excess = abs(row.deviation_ratio or 0.0) / row.target_ratio if row.target_ratio else 0.0
    return (_WORST_FIRST.index(row.state), -errors, -row.alerts, -excess)


_WORST_FIRST: Final = ("bad", "attention", "unknown", None, "ok")


def subtitle(rows: Sequence[FleetRow]) -> str:
    """Return the number of clusters that need attention and of clusters without a verdict."""
    bad = sum(row.state in ("bad", "attention") for row in rows)
    unsure = sum(row.state in ("unknown", None) for row in rows)
    head = pluralize(len(rows), "cluster")
    if bad:
        head += f" · attention needed: {bad:,}"
    return head + (f" · unknown: {unsure}" if unsure else "")


def clusters_table(rows: Sequence[FleetRow], now: datetime) -> pd.DataFrame:
    """Return one row a cluster; unknown numbers are null."""
    return pd.DataFrame(
        [
            {
                "cluster": row.cluster,
                "group": row.group or NONE,
                "state": [_state(row)],
                "deviation": None if row.deviation_ratio is None else row.deviation_ratio * 100,
                "trend": list(row.trend) if len(row.trend) > 1 else [],
                "usage": None if row.usage_ratio is None else row.usage_ratio * 100,
                "nodes": row.nodes,
                "load": row.load,
                "balancer": row.balancer,
                "run": row.acting.run or row.acting.access,
                "age": "never"
                if row.taken_at is None
                else format_ago((now - row.taken_at).total_seconds()),
            }
            for row in rows
        ]
    )


def _state(row: FleetRow) -> str:
    """Return the worst of the findings with how many there are of it."""
    if row.state is None:
        return NO_SNAPSHOT
    counts = count_by_severity(row.findings)
    unexamined = 0 if row.verdict is None else len(row.verdict.unexamined)
    number = {
        "bad": pluralize(counts["error"], "error"),
        "attention": pluralize(counts["warning"], "warning")
        if counts["warning"]
        else pluralize(row.alerts, "alert"),
        "unknown": None if counts["unknown"] else f"{unexamined} not checked",
    }.get(row.state)
    return STATE_WORDS[row.state] if number is None else f"{STATE_WORDS[row.state][0]} {number}"


def key_figures(
    rows: Sequence[FleetRow],
    runs: Sequence[RunView] | None,
    alerts: Mapping[str, int] | None,
    now: datetime,
    limits: Limits | None = None,
) -> list[KeyFigure]:
    """Return the seven figures over every cluster.

    Args:
        rows: Every cluster.
        runs: The latest ones; ``None``: the journal cannot be read.
        alerts: How many are in each state; ``None``: they cannot be read.
        now: The present moment.
        limits: Of the alerts; ``None`` for the defaults.
    """
    limits = limits or Limits()
    return [
        _healthy(rows),
        _deviation(rows),
        _usage(rows),
        _traffic(rows),
        _moves(rows, limits.returned_per_hour),
        _runs(runs, now),
        _alerts(alerts, rows, now - timedelta(minutes=limits.stale_min)),
    ]


def _alerts(
    counts: Mapping[str, int] | None, rows: Sequence[FleetRow], stale: datetime
) -> KeyFigure:
    """Return the number of firing alerts; "unknown" if none are evaluated."""
    if counts is None:
        return KeyFigure(label="Alerts", value="unknown", status="unknown")
    firing = counts["firing"]
    quiet = f", {counts['silenced']} silenced" if counts["silenced"] else ""
    unread = sum(row.taken_at is None or row.taken_at < stale for row in rows)
    note = f"firing{quiet}" if firing or quiet else "0 firing"
    status: Status = "ok"
    if unread and not firing:
        note, status = f"not evaluated: {pluralize(unread, 'cluster')} not collected", "unknown"
    return KeyFigure(
        label="Alerts",
        value=f"{firing:,}",
        note=note,
        status="bad" if firing else status,
    )


def _healthy(rows: Sequence[FleetRow]) -> KeyFigure:
    counts = count_by_severity([finding for row in rows for finding in row.findings])
    healthy = sum(row.state == "ok" for row in rows)
    worst = {row.state for row in rows}
    status: Status = "ok"
    if {"unknown", None} & worst:
        status = "unknown"
    if "attention" in worst:
        status = "warning"
    if "bad" in worst:
        status = "bad"
    return KeyFigure(
        label="Clusters healthy",
        value=f"{healthy} / {len(rows)}",
        note=f"{pluralize(counts['error'], 'error')}, {pluralize(counts['warning'], 'warning')}",
        status=status,
        help="Clusters without errors, warnings or unknown areas.",
    )


def _deviation(rows: Sequence[FleetRow]) -> KeyFigure:
    known = [row for row in rows if row.deviation_ratio is not None]
    worst = max(known, key=_rank_of_deviation, default=None)
    value = None if worst is None else worst.deviation_ratio
    return KeyFigure(
        label="Max deviation",
        value=format_deviation(value),
        note=f"{worst.measure} of {worst.cluster}, target {format_band(worst.target_ratio)}"
        if worst
        else "",
        status=band_status(
            None if value is None else abs(value), worst.target_ratio if worst else 0.0
        ),
        trend=() if worst is None else worst.trend,
        help="Busiest broker, or node with the most or fewest primaries, vs. mean.",
    )


def _rank_of_deviation(row: FleetRow) -> tuple[bool, float]:
    """Return the order of the max deviation: clusters outside their target, then the largest."""
    size = abs(row.deviation_ratio or 0.0)
    return size > row.target_ratio, size


def _usage(rows: Sequence[FleetRow]) -> KeyFigure:
    known = [row for row in rows if row.usage_ratio is not None]
    worst = max(known, key=lambda one: one.usage_ratio or 0.0, default=None)
    value = None if worst is None else worst.usage_ratio
    return KeyFigure(
        label="Highest usage",
        value=format_ratio(value),
        note="" if worst is None else worst.hottest,
        status="" if value is None else "bad" if value > HIGH_USAGE else "ok",
        help="Highest weighted resource usage of a broker, or disk usage of a node.",
    )


def _traffic(rows: Sequence[FleetRow]) -> KeyFigure:
    known = [row for row in rows if row.traffic is not None]
    trends = [one.traffic_trend for one in known if one.traffic_trend]
    length = min((len(one) for one in trends), default=0)
    total = [sum(one[at - length] for one in trends) for at in range(length)]
    return KeyFigure(
        label="Traffic",
        value=format_bytes_per_s(sum(one.traffic or 0.0 for one in known) if known else None),
        note="in + out",
        trend=total,
        help="Clusters with traffic reports only.",
    )


def _moves(rows: Sequence[FleetRow], max_returned: int) -> KeyFigure:
    """Return the number of moves, and of these the returns."""
    returned = [len(returning(row.moves)) for row in rows]
    return KeyFigure(
        label="Moves, last hour",
        value=f"{sum(len(row.moves) for row in rows):,}",
        note=f"{sum(returned):,} returned",
        status="warning" if max(returned, default=0) > max_returned else "",
        help="Owner changes between saved snapshots. Returned: back to a previous broker or node, "
        "undos included.",
    )


def _runs(runs: Sequence[RunView] | None, now: datetime) -> KeyFigure:
    if runs is None:
        return KeyFigure(label="Runs", value="unknown", note="journal unreadable", status="unknown")
    going = sum(not run.is_ended for run in runs)
    today = sum(run.is_ended and now - (run.ended_at or now) < _DAY for run in runs)
    return KeyFigure(label="Runs", value=f"{going} active", note=f"{today} finished in 24 h")


def recent(
    rows: Sequence[FleetRow], runs: Sequence[RunView], max_events: int = _MAX_EVENTS
) -> pd.DataFrame:
    """Return the latest events, newest first: runs, and moves by the clusters themselves.

    Args:
        rows: Every cluster, with its moves.
        runs: The latest ones.
        max_events: At most so many.
    """
    events: list[dict[str, object]] = [
        {
            "at": run.ended_at or run.started_at or run.requested_at,
            "cluster": run.cluster,
            "what": f"Run {run.state.lower()}",
            "run": run.run_id,
        }
        for run in runs[:max_events]
    ]
    for row in rows:
        by_moment: dict[datetime, int] = {}
        for move in row.moves:
            by_moment[move.seen_at] = by_moment.get(move.seen_at, 0) + 1
        events += [
            {
                "at": at,
                "cluster": row.cluster,
                "what": pluralize(count, "move"),
                "run": "",
            }
            for at, count in by_moment.items()
        ]
    events.sort(key=lambda one: str(one["at"]), reverse=True)
    return pd.DataFrame(events[:max_events], columns=["at", "cluster", "what", "run"])
