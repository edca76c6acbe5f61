"""The rule engine: every rule of a system on one context, findings worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from core.findings.finding import SEVERITIES, Finding
from core.findings.quantity import Quantity
from core.progress import NO_PROGRESS, Progress

C = TypeVar("C")

MAX_OF_ONE_CODE: Final = 20
"""Findings of one code that are listed one by one; the rest is counted in one more."""


@dataclass(frozen=True, slots=True)
class UnlistedFindings:
    """Number of findings of a code above a rule's limit."""

    code: str
    count: int


Rule = Callable[[C], Iterator[Finding | UnlistedFindings]]
"""A rule: reads the context of its system, yields what it finds."""


def run_rules(
    rules: Iterable[Rule[C]], context: C, limit: int | None = MAX_OF_ONE_CODE
) -> tuple[Finding, ...]:
    """Judge a context by every rule.

    Args:
        rules: In the order in which findings of one severity are listed.
        context: What every rule reads.
        limit: Findings of one code and rule that are listed; the rest is counted in one more.
            ``None`` if all are listed.
    Returns:
        Worst first, then in the order of the rules.
    """
    found = [finding for rule in rules for finding in capped(rule(context), limit)]
    return worst_first(found)


def run_rules_by_area(
    rules_by_area: Mapping[str, Sequence[Rule[C]]], context: C, progress: Progress = NO_PROGRESS
) -> tuple[Finding, ...]:
    """Judge a context by the rules of every area; each finding has its area.

    Args:
        rules_by_area: In the order in which findings of one severity are listed.
        context: What every rule reads.
        progress: Called before each rule.
    Returns:
        Worst first, then in the order of the rules.
    """
    total, done = sum(map(len, rules_by_area.values())), 0
    found: list[Finding] = []
    for area, rules in rules_by_area.items():
        for rule in rules:
            progress.step(done, total, "rules")
            found += (replace(one, area=area) for one in run_rules((rule,), context))
            done += 1
    return worst_first(found)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by severity; those of one severity keep their order."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def capped(
    findings: Iterable[Finding | UnlistedFindings], limit: int | None = MAX_OF_ONE_CODE
) -> list[Finding]:
    """Keep the first ``limit`` findings of each code and count the others in one more."""
    remaining: list[Finding] = []
    count: dict[str, int] = {}
    first_over: dict[str, Finding] = {}
    for finding in findings:
        if isinstance(finding, UnlistedFindings):
            count[finding.code] = count.get(finding.code, 0) + finding.count
            continue
        count[finding.code] = count.get(finding.code, 0) + 1
        if limit is None or count[finding.code] <= limit:
            remaining.append(finding)
        else:
            first_over.setdefault(finding.code, finding)
    for code, finding in first_over.items():
        more = count[code] - (limit or 0)
        remaining.append(
            Finding(
                code=code,
                title=finding.title,
                measured=Quantity(f"{more} more"),
                severity=finding.severity,
                subject_kind="cluster",
                subject="",
                sentence=f"{more} more of the same kind ({code.replace('_', ' ')}).",
                evidence={"more": more},
                hint=finding.hint,
            )
        )
    return remaining
