"""Numbers of findings by page of the navigation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from core.findings.finding import Finding
from core.units import pluralize

Counts = Mapping[str, Counter[str]]
"""By page: how many errors and warnings."""

COUNTED = ("error", "warning")
"""Severities that ask for a look."""


def count_by_page(findings: Iterable[Finding], page_of: Callable[[Finding], str]) -> Counts:
    """Return the errors and warnings of each page.

    Args:
        findings: Of one cluster.
        page_of: Returns the page on which something can be done about a finding; empty: none.
    """
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        page = page_of(finding)
        if page and finding.severity in COUNTED:
            counts.setdefault(page, Counter())[finding.severity] += 1
    return counts


def badge_of(count: Counter[str]) -> str:
    """Return the Markdown that marks an entry with its number of findings; empty without any."""
    tone = "red" if count["error"] else "orange"
    return f" :{tone}-badge[{count.total()}]" if count.total() else ""


def describe_count(count: Counter[str]) -> str:
    """Return for example ``2 errors, 3 warnings``; empty without any."""
    return ", ".join(pluralize(count[one], one) for one in COUNTED if count[one])
