"""Findings: what a person should look at, one sentence each, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from core.health.bundles import BundleFacts, BundleTable
from core.health.measures import DEFAULT_TARGET, Measures, Target, measure
from core.health.recorded import RecordedPast
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.snapshot import PulsarSnapshot

Severity = Literal["error", "warning", "unknown", "info"]
SubjectKind = Literal[
    "cluster",
    "broker",
    "bundle",
    "namespace",
    "policy",
    "setting",
    "table",
    "node",
    "pegasus_table",
]
State = Literal["bad", "attention", "unknown", "ok"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "unknown", "info")
"""Worst first. ``unknown``: it could not be judged, so it is not green."""

MAX_OF_ONE_CODE: Final = 20
"""Findings of one code that are listed one by one; the rest is counted in one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to look at.

    Attributes:
        code: Stable word of the rule's verdict.
        severity: ``error`` hurts now, ``warning`` will, ``unknown`` cannot be judged, ``info`` is
            worth knowing.
        subject_kind: What kind of thing ``subject`` names.
        subject: Broker id, bundle or namespace name, policy, setting, table or node; empty for a
            cluster.
        sentence: One sentence with its numbers.
        evidence: The facts behind it, ready for JSON; ``rows`` holds a list when there are several.
        hint: One sentence: what to do; empty when there is nothing to do.
    """

    code: str
    severity: Severity
    subject_kind: SubjectKind
    subject: str
    sentence: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""

    @property
    def is_rest(self) -> bool:
        """Whether it counts what is not listed of its code; see :func:`capped`."""
        return "more" in self.evidence


@dataclass(frozen=True, eq=False)
class HealthContext:
    """What every rule may look at, computed once."""

    snapshot: PulsarSnapshot
    settings: EffectiveSettings
    measures: Measures
    target: Target = DEFAULT_TARGET
    elsewhere: BundleFacts | None = None
    """Who holds the bundles, where the snapshot does not."""
    past: RecordedPast | None = None
    """What was recorded of the cluster; ``None``: no history was read."""

    @cached_property
    def bundles(self) -> BundleFacts:
        """The bundles that can move."""
        return self.elsewhere or BundleTable(self.snapshot)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """So many more findings of a code than a rule makes."""

    code: str
    count: int


Rule = Callable[[HealthContext], Iterator[Finding | Unlisted]]


def assess(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings | None = None,
    *,
    target: Target = DEFAULT_TARGET,
    bundles: BundleFacts | None = None,
) -> tuple[Finding, ...]:
    """Judge one snapshot by every rule.

    Args:
        snapshot: Any snapshot; what it does not hold becomes a finding of severity ``unknown``.
        settings: The settings in force; by default those of the snapshot.
        target: What counts as balanced.
        bundles: Who holds the bundles, where the snapshot does not.
    Returns:
        Worst first, then in the order of the rules; at most :data:`MAX_OF_ONE_CODE` of one code,
        the rest counted in one more finding.
    """
    from core.health.rules import RULES  # noqa: PLC0415 - the rules import this module

    chosen = effective_settings(snapshot) if settings is None else settings
    context = HealthContext(snapshot, chosen, measure(snapshot, chosen), target, bundles)
    found = [finding for rule in RULES for finding in capped(rule(context))]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def capped(findings: Iterable[Finding | Unlisted], limit: int = MAX_OF_ONE_CODE) -> list[Finding]:
    """Keep the first ``limit`` findings of each code and count the others in one more."""
    kept: list[Finding] = []
    count: dict[str, int] = {}
    first_over: dict[str, Finding] = {}
    for finding in findings:
        if isinstance(finding, Unlisted):
            count[finding.code] = count.get(finding.code, 0) + finding.count
            continue
        count[finding.code] = count.get(finding.code, 0) + 1
        if count[finding.code] <= limit:
            kept.append(finding)
        else:
            first_over.setdefault(finding.code, finding)
    for code, finding in first_over.items():
        more = count[code] - limit
        kept.append(
            Finding(
                code=code,
                severity=finding.severity,
                subject_kind="cluster",
                subject="",
                sentence=f"{more} more of the same kind ({code.replace('_', ' ')}).",
                evidence={"more": more},
                hint=finding.hint,
            )
        )
    return kept


def overall_state(findings: Iterable[Finding]) -> State:
    """Return the worst state: ``ok`` only when nothing is wrong and nothing is unknown."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "bad"
    if "warning" in severities:
        return "attention"
    return "unknown" if "unknown" in severities else "ok"


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Return how many findings there are of each severity, worst first, zeros included."""
    counts: dict[Severity, int] = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        counts[finding.severity] += 1
    return counts
