"""The JSON objects of the commands: stable shapes that people script against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.findings.verdict import Verdict
from core.snapshot import Manifest, Problem
from core.snapshot.store import Storable

if TYPE_CHECKING:
    from dashboard.services.jobs import Job


def captured(snapshot: Storable, out: Path) -> dict[str, Any]:
    """Return the answer of ``capture`` and ``import-zk``."""
    return {
        "snapshot": str(out),
        "snapshot_id": snapshot.snapshot_id,
        **manifest(snapshot.manifest),
    }


def manifest(found: Manifest) -> dict[str, Any]:
    """Return what a snapshot has, and what could not be read."""
    return {
        "cluster": found.cluster,
        "taken_at": found.taken_at.isoformat(),
        "load_manager": found.load_manager,
        "release": found.release,
        "tables": {
            name: {
                "rows": entry.rows,
                "expected": entry.expected,
                "coverage": entry.coverage_ratio,
                "source": entry.source,
            }
            for name, entry in found.tables.items()
        },
        "problems": [problem(item) for item in found.problems],
        "unavailable": list(found.unavailable),
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


def job(item: Job) -> dict[str, Any]:
    """One job with its request, progress and answer."""
    status = item.status
    return {
        "id": item.id,
        "kind": item.kind,
        "state": item.state,
        "is_stopping": item.is_stopping and not item.is_ended,
        "asked": item.request.parameters if item.request else None,
        "actor": item.request.actor if item.request else None,
        "asked_at": item.request.requested_at if item.request else None,
        "started_at": status.started_at,
        "ended_at": status.ended_at,
        "done": status.done,
        "total": status.total,
        "words": status.activity,
        "error": status.error,
        "problem": item.problem,
        "answer": item.answer.sentence if item.answer else None,
        "facts": item.answer.facts if item.answer else None,
        "tables": dict(item.answer.tables) if item.answer else {},
        "folder": str(item.folder),
    }
