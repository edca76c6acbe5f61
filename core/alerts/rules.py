"""The rules of alerts: the one list of them. Each looks at the facts of one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import isclose
from typing import Final

from core.actions.describe import count_named
from core.alerts.model import Condition, Facts, Limits, Rule
from core.alerts.thresholds import describe
from core.findings.finding import Finding
from core.units import format_age, format_band, format_deviation, pluralize

_MEASURES: Final = {"throughput": "traffic", "primaries": "primaries"}
"""Measures that are told of, as the figures name them."""

_OFF_TARGET: Final = frozenset({"traffic_deviation", "node_deviation"})
"""Findings about a server outside the target."""

_TOLD_FOR: Final = timedelta(hours=24)
"""A failed run is an alert for so long, unless a later run ends well."""

_MAX_NAMED: Final = 3
"""Subjects of one kind of error that an alert names."""


def _uneven(facts: Facts, limits: Limits) -> Iterator[Condition]:
    own = limits.deviation_ratio
    limit, name = (facts.target_ratio, "target") if own is None else (own, "alert threshold")
    of_target = [one for one in facts.findings if one.code in _OFF_TARGET]
    for measure, word in _MEASURES.items():
        ratio = facts.gauge("max_deviation_ratio", {"measure": measure})
        if ratio is not None and ratio > limit:
            server = _server_at(of_target, ratio) or "Max deviation"
            yield Condition(
                word,
                f"{server}: {word} {format_deviation(ratio)} vs. mean; {name} "
                f"{format_band(limit)}.",
                f"Run: trimtab diagnose {facts.cluster}",
                measured=format_deviation(ratio),
                limit=format_band(limit),
                since=_start(of_target) if own is None else None,
            )


def _server_at(findings: Sequence[Finding], deviation_ratio: float) -> str:
    """Return the server whose finding measures a deviation; empty if no finding does."""
    found = (
        one.subject
        for one in findings
        if one.measured is not None
        and isinstance(one.measured.value, float)
        and isclose(one.measured.value, deviation_ratio)
    )
    return next(found, "")


def _unhealthy(facts: Facts, _: Limits) -> Iterator[Condition]:
    """Yield unhealthy partitions that are no error: an error is one of :func:`_problem`."""
    count = facts.gauge("unhealthy_partitions", {})
    is_error = any(
        one.severity == "error" and one.code.startswith("partition") for one in facts.findings
    )
    if count and not is_error:
        yield Condition(
            "",
            f"{pluralize(int(count), 'unhealthy partition')}.",
            f"Run: trimtab pegasus health {facts.cluster}",
            measured=pluralize(int(count), "partition"),
            limit="0",
        )


def _problem(facts: Facts, _: Limits) -> Iterator[Condition]:
    """Yield every error of the verdict, one condition a kind: each is named in it, or counted."""
    of_kind: dict[str, list[Finding]] = {}
    for one in facts.findings:
        if one.severity == "error":
            of_kind.setdefault(one.code, []).append(one)
    for code, found in of_kind.items():
        yield Condition(
            code,
            _summary(code, found),
            found[0].hint or f"Run: trimtab diagnose {facts.cluster}",
            *_quantities(found[0]),
            since=_start(found),
        )


def _start(findings: Sequence[Finding]) -> datetime | None:
    """Return the first known start of some findings; ``None``: none is known."""
    return min((one.since for one in findings if one.since is not None), default=None)


def _summary(code: str, found: Sequence[Finding]) -> str:
    """Return the sentence of the first error of a kind; before it, the subjects if several."""
    first = found[0].sentence
    count = sum(int(one.evidence["more"]) if one.is_rest else 1 for one in found)
    names = list(dict.fromkeys(one.subject for one in found if one.subject))[:_MAX_NAMED]
    rest = count - sum(one.subject in names for one in found)
    if count == 1:
        return first
    if not names:
        return f"{first} And {count - 1:,} more of this kind."
    return f"{_joined(names, rest)}: {code.replace('_', ' ')}. {first}"


def _joined(names: Sequence[str], rest: int) -> str:
    """Return names as a list, with the number of those that are not named."""
    parts = [*names, *([pluralize(rest, "other")] if rest else [])]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _lively(facts: Facts, _: Limits) -> Iterator[Condition]:
    if facts.gauge("meta_function_level", {"level": "lively"}):
        yield Condition(
            "",
            "The function level is lively: the meta server moves replicas automatically.",
            "Set it to steady when no balancing is intended: trimtab pegasus level "
            f"{facts.cluster} set steady",
            measured="lively",
            limit="steady",
        )


def _stale(facts: Facts, limits: Limits) -> Iterator[Condition]:
    if facts.taken_at is None:
        return  # has an age from its first snapshot on: see _unread
    age_s = (facts.now - facts.taken_at).total_seconds()
    if age_s > limits.stale_min * 60:
        yield Condition(
            "",
            f"The newest snapshot is {format_age(age_s)} old, limit {limits.stale_min:g} min.",
            "Run: trimtab check. Then see the collector's log.",
            measured=format_age(age_s),
            limit=f"{limits.stale_min:g} min",
        )


def _unread(facts: Facts, limits: Limits) -> Iterator[Condition]:
    if facts.taken_at is None:
        reason = f" Last error of the collector: {facts.collect_error}"
        yield Condition(
            "",
            f"{facts.cluster} has no snapshot.{reason if facts.collect_error else ''}",
            "Run: trimtab check. Then see the collector's log.",
            measured="no snapshot",
            limit=f"{limits.stale_min:g} min",
        )


def _flapping(facts: Facts, limits: Limits) -> Iterator[Condition]:
    if facts.returned > limits.returned_per_hour:
        yield Condition(
            "",
            f"{pluralize(facts.returned, 'move')} of the last hour returned to a previous "
            f"server, limit {limits.returned_per_hour}.",
            f"Run: trimtab diagnose {facts.cluster} --since 1h",
            measured=f"{facts.returned:,} moves/h",
            limit=f"{limits.returned_per_hour:,} moves/h",
        )


def _failed(facts: Facts, _: Limits) -> Iterator[Condition]:
    latest = next((view for view in facts.runs if view.is_ended), None)
    if latest is None or latest.state != "FAILED" or latest.ended_at is None:
        return
    if facts.now - latest.ended_at < _TOLD_FOR:
        yield Condition(
            latest.run_id,
            f"Run {latest.run_id} of {latest.requested_by} failed: {latest.sentence}",
            f"Run: trimtab runs {latest.run_id}",
        )


def _unassigned(facts: Facts, _: Limits) -> Iterator[Condition]:
    for view in facts.runs:
        is_recent = view.ended_at is None or facts.now - view.ended_at < _TOLD_FOR
        if view.unassigned and is_recent:
            yield Condition(
                view.run_id,
                f"{count_named('Unassigned', view.unassigned)}: run {view.run_id} of "
                f"{view.requested_by} unloaded them, and no broker owns them.",
                f"Run: trimtab runs {view.run_id}",
                measured=pluralize(len(view.unassigned), "bundle"),
                limit="0",
            )


def _waiting(facts: Facts, _: Limits) -> Iterator[Condition]:
    approvals = {view.run_id for view in facts.waiting}
    for view in facts.runs:
        if view.state in ("QUEUED", "PAUSED") and view.run_id not in approvals:
            word = "is paused" if view.state == "PAUSED" else "waits for a worker"
            yield Condition(
                view.run_id,
                f"Run {view.run_id} of {view.requested_by} {word}.",
                f"Run: trimtab runs {view.run_id}",
            )


def _approval(facts: Facts, _: Limits) -> Iterator[Condition]:
    for view in facts.waiting:
        yield Condition(
            view.run_id,
            f"Run {view.run_id} of {view.requested_by} waits for approval: {view.reason}",
            f"Run: trimtab review {view.run_id}",
        )


def _drift(facts: Facts, _: Limits) -> Iterator[Condition]:
    for one in facts.findings:
        if one.code == "settings_differ":
            yield Condition(one.subject, one.sentence, one.hint, *_quantities(one), since=one.since)


def _pipeline(facts: Facts, limits: Limits) -> Iterator[Condition]:
    lag_s = facts.pipeline_lag_s
    if lag_s is not None and lag_s > limits.pipeline_lag_min * 60:
        yield Condition(
            "",
            f"Recorded minutes are not rolled up since {format_age(lag_s)}, limit "
            f"{limits.pipeline_lag_min:g} min.",
            f"Run: trimtab pipeline status {facts.cluster}. Then see the collector's log.",
            measured=format_age(lag_s),
            limit=f"{limits.pipeline_lag_min:g} min",
        )


def _quantities(finding: Finding) -> tuple[str, str]:
    """Return the value of a finding and its limit, with units; empty where it has none."""
    value, limit = finding.measured, finding.limit
    return "" if value is None else value.text, "" if limit is None else limit.text


RULES: Final = (
    Rule(
        code="uneven",
        title="Uneven load",
        severity="warning",
        minutes=lambda limits: limits.deviation_min,
        holds=_uneven,
        condition=lambda limits: f"deviation > {describe(limits, 'deviation_ratio')}",
    ),
    Rule(
        code="unhealthy",
        title="Unhealthy partitions",
        severity="critical",
        minutes=lambda limits: limits.unhealthy_min,
        holds=_unhealthy,
        condition=lambda _: "unhealthy partitions > 0",
    ),
    Rule(
        code="problem",
        title="Finding at level error",
        severity="critical",
        minutes=lambda limits: limits.error_min,
        holds=_problem,
        condition=lambda _: "findings at level error > 0",
    ),
    Rule(
        code="lively",
        title="Level lively",
        severity="warning",
        minutes=lambda limits: limits.lively_min,
        holds=_lively,
        condition=lambda _: "function level = lively",
    ),
    Rule(
        code="stale",
        title="Stale data",
        severity="critical",
        minutes=lambda _: 0.0,
        holds=_stale,
        condition=lambda limits: f"age of snapshot > {limits.stale_min:g} min",
    ),
    Rule(
        code="unread",
        title="No snapshot",
        severity="critical",
        minutes=lambda limits: limits.stale_min,
        holds=_unread,
        condition=lambda _: "no snapshot",
    ),
    Rule(
        code="flapping",
        title="Flapping",
        severity="warning",
        minutes=lambda _: 0.0,
        holds=_flapping,
        condition=lambda limits: f"returned bundles > {limits.returned_per_hour:,}/h",
    ),
    Rule(
        code="run_failed",
        title="Run failed",
        severity="warning",
        minutes=lambda _: 0.0,
        holds=_failed,
        condition=lambda _: "latest run failed",
    ),
    Rule(
        code="run_unassigned",
        title="Bundles unassigned after a run",
        severity="critical",
        minutes=lambda _: 0.0,
        holds=_unassigned,
        condition=lambda _: "unassigned bundles > 0",
    ),
    Rule(
        code="run_waiting",
        title="Run waiting",
        severity="info",
        minutes=lambda limits: limits.waiting_min,
        holds=_waiting,
        condition=lambda _: "run paused or queued",
    ),
    Rule(
        code="approval_pending",
        title="Run awaiting approval",
        severity="info",
        minutes=lambda _: 0.0,
        holds=_approval,
        condition=lambda _: "run awaits approval",
    ),
    Rule(
        code="settings_drift",
        title="Settings differ between servers",
        severity="info",
        minutes=lambda limits: limits.drift_min,
        holds=_drift,
        condition=lambda _: "different settings > 0",
    ),
    Rule(
        code="pipeline_lag",
        title="History not rolled up",
        severity="warning",
        minutes=lambda _: 0.0,
        holds=_pipeline,
        condition=lambda limits: f"lag > {limits.pipeline_lag_min:g} min",
    ),
)
"""In the order in which they are listed."""

RULE_BY_CODE: Final = {rule.code: rule for rule in RULES}
