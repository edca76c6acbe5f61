"""Rules about the cluster: level, balance, switches, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from core.findings.coverage import coverage_of, problems_of
from core.findings.finding import Finding, Severity
from core.findings.quantity import Quantity
from core.pegasus.levels import FunctionLevel
from core.pegasus.rules.context import PegasusContext
from core.pegasus.snapshot import STORED_LEVEL, SWITCHES


def unusual_level(context: PegasusContext) -> Iterator[Finding]:
    """A level at which nothing is repaired, or that is unknown."""
    stored, effective = context.facts.stored_level, context.facts.effective_level
    if effective is None:
        reported = context.snapshot.settings.get(STORED_LEVEL)
        yield _of_cluster(
            "level_unknown",
            "unknown",
            "Effective level is unknown",
            "The meta server did not report the effective level"
            + (f"; the stored level is {reported}." if reported and stored is None else "."),
            "Check the problems of the snapshot.",
        )
        return
    if effective >= FunctionLevel.STEADY:
        return
    is_by_itself = stored is not None and stored > effective
    why = f"set to {stored.word}, but too few nodes are alive" if is_by_itself and stored else "set"
    yield _of_cluster(
        "level_low",
        "error",
        "Level is too low for repairs",
        f"Level {effective.word} is effective ({why}): nothing is repaired or moved.",
        "Start the missing nodes."
        if is_by_itself
        else "Set the level to steady unless this is intended.",
        measured=Quantity(effective.word),
        limit=Quantity(FunctionLevel.STEADY.word),
    )


def balance(context: PegasusContext) -> Iterator[Finding]:
    """The balancer's count if valid, else the reason it is unknown."""
    level = context.facts.effective_level
    if (
        context.ill_count
        or context.facts.columns.is_child.any()
        or level is None
        or level < FunctionLevel.STEADY
    ):
        return  # said by other rules
    verdict = context.facts.verdict()
    if verdict.state == "not_balanced":
        hint = "Balance shows the moves of level lively, round by round."
        counts = context.facts.operations
        yield _of_cluster(
            "not_balanced",
            "warning",
            "Replicas are not balanced",
            verdict.sentence,
            hint,
            measured=None if counts is None else Quantity(counts.total, "operations"),
            limit=Quantity(0),
        )
    elif verdict.state == "unknown":
        hint = "Balance computes the rounds from the snapshot."
        yield _of_cluster(
            "balance_unknown", "unknown", "Balance is unknown", verdict.sentence, hint
        )


def switches_left_on(context: PegasusContext) -> Iterator[Finding]:
    """Switches that hold the balancer back; lost with the leading meta server."""
    settings = context.snapshot.settings
    on = [name for name in SWITCHES if settings.get(name) == "true"]
    if settings.get("assign_secondary_black_list", "").strip():
        on.append("assign_secondary_black_list")
    for name in on:
        yield Finding(
            code="switch_on",
            title="Maintenance switch is set",
            measured=Quantity(settings[name]),
            limit=Quantity("not set"),
            severity="info",
            subject_kind="setting",
            subject=name,
            sentence=f"{name} is set: it limits balancing or repairs.",
            evidence={"value": settings[name]},
            hint="Reset it when the maintenance is over.",
        )


def coverage(context: PegasusContext) -> Iterator[Finding]:
    """Tables of the snapshot that hold fewer rows than there should be."""
    return coverage_of(context.snapshot.manifest)


def problems(context: PegasusContext) -> Iterator[Finding]:
    """Read problems, grouped by kind."""
    return problems_of(context.snapshot.manifest)


def _of_cluster(
    code: str,
    severity: Severity,
    title: str,
    sentence: str,
    hint: str,
    *,
    measured: Quantity | None = None,
    limit: Quantity | None = None,
) -> Finding:
    return Finding(
        code=code,
        title=title,
        measured=measured,
        limit=limit,
        severity=severity,
        subject_kind="cluster",
        subject="",
        sentence=sentence,
        hint=hint,
    )
