"""The JSON objects of the commands: stable shapes that people script against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.findings.verdict import Verdict
from core.snapshot import Problem
from core.snapshot.store import Storable


def captured(snapshot: Storable, out: Path) -> dict[str, Any]:
    """Return the answer of ``capture`` and ``import-zk``."""
    manifest = snapshot.manifest
    return {
        "snapshot": str(out),
        "snapshot_id": snapshot.snapshot_id,
        "cluster": manifest.cluster,
        "taken_at": manifest.taken_at.isoformat(),
        "load_manager": manifest.load_manager,
        "release": manifest.release,
        "tables": {
            name: {
                "rows": entry.rows,
                "expected": entry.expected,
                "coverage": entry.coverage_ratio,
                "source": entry.source,
            }
            for name, entry in manifest.tables.items()
        },
        "problems": [problem(item) for item in manifest.problems],
        "unavailable": list(manifest.unavailable),
    }


def problem(item: Problem) -> dict[str, str]:
    """One thing that could not be read."""
    return {
        "severity": item.severity,
        "code": item.code,
        "place": item.place,
        "what": item.what,
        "done": item.done,
    }


def _quantity(item: Quantity | None) -> dict[str, Any] | None:
    return None if item is None else {"value": item.value, "unit": item.unit, "text": item.text}


def verdict(found: Verdict) -> dict[str, Any]:
    """Return the verdict on a cluster: state, findings, and scope."""
    return {
        "state": found.state,
        "findings": [finding(one) for one in found.findings],
        "scope": scope(found),
    }


def scope(found: Verdict) -> list[dict[str, Any]]:
    """Return the scope of the examination, and the checks left out with the reason."""
    return [
        {
            "area": area.name,
            "examined": not area.unexamined,
            "reason": area.unexamined or None,
        }
        for area in found.areas
    ]


def finding(item: Finding) -> dict[str, Any]:
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
