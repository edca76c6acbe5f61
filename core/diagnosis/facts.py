"""Facts: findings at warning or above as causes, where no proven cause explains them.

What a fact costs clients is in its finding; it has no effect on balance, so nothing is simulated.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from core.diagnosis.model import Cause
from core.findings.finding import FREE, SEVERITIES, Cost, Finding
from core.findings.verdict import PROBLEMS, Verdict
from core.units import pluralize

MAX_TITLES: Final = 2
"""Kinds of facts that the headline names."""

_AFTER_PROVEN: Final = ("load", "settings", "policies")
"""Areas whose warnings without a cost follow the causes that a simulation proves: a setting that
contradicts another one is seldom what makes the load uneven."""


class ExplainedFindings(NamedTuple):
    """Findings of a system that need no cause of their own.

    Attributes:
        symptoms: Codes of findings that are the problem itself, never its cause.
        by_cause: Code of a proven cause to the codes of the findings that it explains.
        by_object: Code of a proven cause to the codes that it explains of its own objects only.
        by_completion: Codes that any cause explains whose fix gives bundles or partitions a server.
        after_proven: Codes of observations that follow the proven causes unless they cost clients.
        unit: What its servers serve, a singular noun.
    """

    symptoms: Collection[str]
    by_cause: Mapping[str, Collection[str]]
    by_object: Mapping[str, Collection[str]] = MappingProxyType({})
    by_completion: Collection[str] = ()
    after_proven: Collection[str] = ()
    unit: str = "bundle"


def with_facts(
    proven: Iterable[Cause], verdict: Verdict, explained: ExplainedFindings
) -> tuple[Cause, ...]:
    """Return the proven causes and the facts of a verdict, the first to act on first.

    Facts come first by severity, then by what they cost clients; then what a simulation proves;
    then what contradicts among settings and policies without a cost.

    Args:
        proven: Causes with an effect, best first.
        verdict: On the same snapshot.
        explained: What needs no cause of its own.
    """
    causes = [_with_severity(one, verdict, explained) for one in proven]
    open_findings = [
        one
        for one in verdict.problems
        if one.code not in explained.symptoms
        and not one.is_rest
        and not any(_explains(cause, one, explained) for cause in causes)
    ]
    causes += _facts(open_findings)
    completing = list(itertools.takewhile(_completes, causes))
    return tuple(sorted(causes, key=lambda one: _turn(one, explained, is_first=one in completing)))


def headline(causes: Sequence[Cause], load: str) -> str:
    """Return the problems: facts and the sentence about load, in the order of the causes.

    Args:
        causes: The first to act on first.
        load: What is wrong with the load; blank: nothing.
    """
    facts = fact_headline(causes)
    if not (facts and load and causes[0].effect is not None):
        return " ".join(filter(None, (facts, load)))
    return f"{load} Also seen: {facts}"


def fact_headline(causes: Iterable[Cause]) -> str:
    """Return the summary of facts among causes: ``1 error: Bundles are refused.``, or "".

    It names up to :data:`MAX_TITLES` kinds, and the number of the others.
    """
    facts = [one for one in causes if one.effect is None and one.title]
    if not facts:
        return ""
    counts = Counter(one.severity for one in facts)
    parts = [pluralize(counts[one], one) for one in PROBLEMS if counts[one]]
    titles = list(dict.fromkeys(one.title for one in facts))
    names = titles[:MAX_TITLES]
    if len(titles) > MAX_TITLES:
        names.append(f"{len(titles) - MAX_TITLES:,} more")
    return f"{', '.join(parts)}: {'; '.join(names)}."


def _facts(findings: Iterable[Finding]) -> Iterator[Cause]:
    """Yield one cause for findings of one code that ask for the same thing."""
    by_order: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        by_order.setdefault((one.code, one.hint), []).append(one)
    for same in by_order.values():
        first = same[0]
        names = [name for one in same for name in (one.subject, *one.servers) if name]
        is_setting = first.subject_kind == "setting"
        keys = [key for one in same for key in one.keys]
        more = f" And {len(same) - 1:,} more of this kind." if len(same) > 1 else ""
        measured, limit = first.measured, first.limit
        yield Cause(
            code=first.code,
            keys=tuple(dict.fromkeys((*keys, *names) if is_setting else keys)),
            objects=() if is_setting else tuple(dict.fromkeys(names)),
            summary=f"{first.text}{more}",
            title=first.title,
            fix=first.fix,
            hint=first.hint or _orders(first),
            measured=None if measured is None else _number(measured.value),
            threshold=None if limit is None else _number(limit.value),
            unit="" if measured is None else measured.unit,
            severity=first.severity,
            cost=Cost(
                bundles=sum(one.cost.bundles for one in same),
                topics=sum(one.cost.topics for one in same),
                connections=sum(one.cost.connections for one in same),
                unit=first.cost.unit,
            ),
            area=first.area,
        )


def _orders(finding: Finding) -> str:
    orders = [f"{key}={value}" for key, value in finding.fix.wanted.items()]
    lines = [*orders, *finding.fix.lines]
    return f"Set {' and '.join(lines)}." if lines else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _with_severity(cause: Cause, verdict: Verdict, explained: ExplainedFindings) -> Cause:
    """Return a proven cause with the severity and the cost of the findings that it explains."""
    mine = [one for one in verdict.problems if _explains(cause, one, explained)]
    if cause.effect is None or not cause.effect.is_more_complete or not mine:
        return cause
    missing = cause.effect.before.missing - cause.effect.after.missing
    worst = min(mine, key=lambda one: SEVERITIES.index(one.severity))
    cost = max((one.cost for one in mine), key=lambda one: one.rank)
    return replace(
        cause,
        severity=worst.severity,
        cost=replace(cost, bundles=max(cost.bundles, missing), unit=explained.unit),
        area=worst.area,
    )


def _explains(cause: Cause, finding: Finding, explained: ExplainedFindings) -> bool:
    if finding.code == cause.code or finding.code in explained.by_cause.get(cause.code, ()):
        return True
    if finding.code in explained.by_object.get(cause.code, ()):
        return finding.subject in cause.objects
    if _completes(cause) and finding.code in explained.by_completion:
        return True
    deciding = cause.keys[:1]
    return bool(deciding) and deciding[0] in (*finding.keys[:1], finding.subject)


def _completes(cause: Cause) -> bool:
    return cause.effect is not None and cause.effect.is_more_complete


def _turn(
    cause: Cause, explained: ExplainedFindings, *, is_first: bool
) -> tuple[int, int, tuple[int, ...]]:
    """Sort key: what costs clients, what a simulation proves, settings that contradict."""
    if cause.effect is not None and not is_first:
        return (1, 0, ())
    is_costly = cause.severity == "error" or cause.cost != FREE
    is_later = cause.area in _AFTER_PROVEN or cause.code in explained.after_proven
    place = 2 if is_later and not is_costly else 0
    return (place, SEVERITIES.index(cause.severity), tuple(-one for one in cause.cost.rank))
