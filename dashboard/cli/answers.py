"""The JSON objects of the commands: stable shapes that people script against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.snapshot import Manifest
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
        "problems": [item.as_json() for item in found.problems],
        "unavailable": list(found.unavailable),
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
