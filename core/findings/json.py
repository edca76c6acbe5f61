"""The JSON of verdicts and findings: stable shapes that people script against."""

from __future__ import annotations

from typing import Any

import msgspec

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.findings.verdict import Verdict


def _quantity(item: Quantity | None) -> dict[str, Any] | None:
    return None if item is None else {"value": item.value, "unit": item.unit, "text": item.text}


def verdict_json(found: Verdict) -> dict[str, Any]:
    """Return the verdict on a cluster: state, findings, and scope."""
    return {
        "state": found.state,
        "findings": [finding_json(one) for one in found.findings],
        "scope": scope_json(found),
    }


def scope_json(found: Verdict) -> list[dict[str, Any]]:
    """Return the scope of the examination, and the checks left out with the reason."""
    return [
        {
            "area": area.name,
            "examined": not area.unexamined,
            "reason": area.unexamined or None,
        }
        for area in found.areas
    ]


def finding_json(item: Finding) -> dict[str, Any]:
    """One finding with its evidence."""
    return {
        "code": item.code,
        "severity": item.severity,
        "subject_kind": item.subject_kind,
        "subject": item.subject,
        "title": item.title,
        "sentence": item.sentence,
        "measured": _quantity(item.measured),
        "limit": _quantity(item.limit),
        "since": None if item.since is None else item.since.isoformat(),
        "hint": item.hint,
        "evidence": msgspec.to_builtins(dict(item.evidence)),
    }
