"""On which page something can be done about a finding on a Pulsar cluster."""

from __future__ import annotations

from typing import Final

from core.findings.finding import Finding

_PAGES: Final[dict[str, str]] = {
    **dict.fromkeys(("isolation", "domain", "domains", "anti"), "isolation"),
    **dict.fromkeys(("hot", "single", "bundles"), "splits"),
    **dict.fromkeys(("owner", "unowned", "inconsistent", "conflicting", "twice"), "ownership"),
}
"""By the first word of its code."""


def page_of(finding: Finding) -> str:
    """Return the page; empty: only the overview of the fleet lists it."""
    return _PAGES.get(finding.code.partition("_")[0], "")
