"""Findings as rows of a table, and what each opens: no Streamlit, and no system by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pandas as pd

from core.findings.finding import SEVERITIES, Finding, Severity
from core.units import format_age
from dashboard.legible import searchable

SEVERITY_WORDS: Final[Mapping[Severity, str]] = {
    "error": "✖ Error",
    "warning": "▲ Warning",
    "unknown": "? Unknown",
    "info": "○ Note",
}
"""Shape and word of each severity; :data:`dashboard.components.tables.STATUS_COLORS` colours it."""

NONE: Final = "\u2013"
"""A dash: there is no such number, or it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingAction:
    """Page on which something can be done about a finding.

    Attributes:
        label: Of its button: ``Unload…``, ``Rebalance``, ``Settings``.
        page: Its name in the sitemap.
        parameter: That names the finding's subject there; empty: the page needs none.
    """

    label: str
    page: str
    parameter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLinks:
    """Pages that the findings of a system open.

    Attributes:
        subjects: By kind of subject: the page that shows it, and the parameter that names it.
        actions: By code of the finding.
        overview: The page of the cluster itself, for findings on all of it.
    """

    subjects: Mapping[str, tuple[str, str]]
    actions: Mapping[str, FindingAction]
    overview: str

    def target(self, finding: Finding) -> tuple[str, dict[str, str]]:
        """Return the page of the object of a finding, with its parameters."""
        page, parameter = self.subjects.get(finding.subject_kind, ("", ""))
        if page and finding.subject:
            return page, {parameter: finding.subject}
        if finding.keys and "setting" in self.subjects:
            page, parameter = self.subjects["setting"]
            return page, {parameter: finding.keys[0]}
        return self.overview, {}

    def action(self, finding: Finding) -> tuple[str, str, dict[str, str]] | None:
        """Return label, page and parameters of the action; ``None`` if no page has one."""
        found = self.actions.get(finding.code)
        if found is None:
            return None
        has = found.parameter and finding.subject
        return found.label, found.page, {found.parameter: finding.subject} if has else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A finding in the table.

    Attributes:
        cluster: Whose it is.
        finding: Itself.
        links: Of the cluster's system.
    """

    cluster: str
    finding: Finding
    links: FindingLinks

    @property
    def identity(self) -> tuple[str, str, str]:
        """The part that stays the same between snapshots: cluster, code, subject."""
        return self.cluster, self.finding.code, self._thing or self.cluster

    @property
    def object(self) -> str:
        """The object concerned: its subject, its setting, its servers, or the whole cluster."""
        first, *rest = self.finding.servers or ("",)
        named = f"{first} +{len(rest)}" if rest else first
        return self._thing or named or self.cluster

    @property
    def _thing(self) -> str:
        """Its subject, or its first setting; empty: neither."""
        return self.finding.subject or ", ".join(self.finding.keys[:1])


def listed(
    cluster: str,
    findings: Sequence[Finding],
    links: FindingLinks,
) -> list[FindingRow]:
    """Return the findings of a cluster for the table.

    Args:
        cluster: Its name.
        findings: Worst first.
        links: Of its system.
    """
    return [FindingRow(cluster=cluster, finding=one, links=links) for one in findings]


def matching(
    rows: Sequence[FindingRow], severities: Sequence[Severity], text: str
) -> list[FindingRow]:
    """Return the findings of some severities (none: all) that have a text anywhere, worst first."""
    chosen = set(severities) or set(SEVERITIES)
    sought = text.casefold()
    found = [row for row in rows if row.finding.severity in chosen and sought in _haystack(row)]
    return sorted(found, key=lambda one: SEVERITIES.index(one.finding.severity))


def _haystack(row: FindingRow) -> str:
    finding = row.finding
    parts = (row.cluster, row.object, finding.title, finding.sentence, finding.code, *finding.keys)
    return searchable(" ".join(parts)).casefold()


def findings_frame(rows: Sequence[FindingRow], now: datetime) -> pd.DataFrame:
    """Return one row a finding; the severity is a list, as a column of states wants it."""
    return pd.DataFrame(
        [
            {
                "severity": [SEVERITY_WORDS[row.finding.severity]],
                "cluster": row.cluster,
                "object": row.object,
                "finding": row.finding.title,
                "measured": _measured(row.finding),
                "limit": NONE if row.finding.limit is None else row.finding.limit.text,
                "since": NONE
                if row.finding.since is None
                else format_age((now - row.finding.since).total_seconds()),
                "action": _label(row),
            }
            for row in rows
        ],
        columns=[
            *("severity", "cluster", "object", "finding", "measured", "limit", "since", "action")
        ],
    )


def _measured(finding: Finding) -> str:
    """Return the measured value with its unit, short enough for its column."""
    if finding.measured is None:
        return NONE
    return finding.measured.text.replace("balance operations", "operations")


def _label(row: FindingRow) -> str:
    action = row.links.action(row.finding)
    return "Open" if action is None else action[0]


def file_frame(rows: Sequence[FindingRow]) -> pd.DataFrame:
    """Return the findings for a file: with their numbers, sentences and hints."""
    return pd.DataFrame(
        [
            {
                "severity": row.finding.severity,
                "cluster": row.cluster,
                "object": row.object,
                "code": row.finding.code,
                "finding": row.finding.title,
                "measured": None if row.finding.measured is None else row.finding.measured.value,
                "limit": None if row.finding.limit is None else row.finding.limit.value,
                "unit": "" if row.finding.measured is None else row.finding.measured.unit,
                "since": None if row.finding.since is None else row.finding.since.isoformat(),
                "sentence": row.finding.text,
                "hint": row.finding.hint,
            }
            for row in rows
        ]
    ).astype({"measured": object, "limit": object}, errors="ignore")


def evidence_frames(finding: Finding) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the single facts behind a finding by name, and the rows of its list."""
    facts: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for name, value in finding.evidence.items():
        if name == "rows" and isinstance(value, list | tuple):
            rows = [one if isinstance(one, dict) else {"name": str(one)} for one in value]
        elif isinstance(value, dict):
            rows = [{"name": str(key), "value": _fact(one)} for key, one in value.items()]
        else:
            facts.append({"fact": name.replace("_", " "), "value": _fact(value)})
    return pd.DataFrame(facts), pd.DataFrame(rows).astype(str)


def _fact(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return NONE if value is None else str(value)
