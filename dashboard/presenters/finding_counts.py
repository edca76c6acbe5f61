"""Numbers of findings by page of the navigation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from core.findings.finding import Finding
from core.units import pluralize

Counts = Mapping[str, Counter[str]]
"""By page: how many errors and warnings."""

COUNTED = ("error", "warning")
"""Severities that ask for a look."""


def count_listed(findings: Iterable[Finding]) -> Counter[str]:
    """Return the errors and warnings among the findings that a page lists."""
    return Counter(one.severity for one in findings if one.severity in COUNTED)


def badge_of(count: Counter[str]) -> str:
    """Return the Markdown that marks an entry with its number of findings; empty without any."""
    tone = "red" if count["error"] else "orange"
    return f" :{tone}-badge[{count.total()}]" if count.total() else ""


def describe_count(count: Counter[str]) -> str:
    """Return for example ``2 errors, 3 warnings``; empty without any."""
    return ", ".join(pluralize(count[one], one) for one in COUNTED if count[one])
