"""The JSON objects of the commands: stable shapes that people script against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from core.findings.finding import Finding
from core.findings.measures import Spread
from core.pulsar.lookup import TopicLookup
from core.pulsar.measures import Measures
from core.pulsar.placement import Placement
from core.snapshot import Problem
from core.snapshot.store import Storable


def captured(snapshot: Storable, out: Path) -> dict[str, Any]:
    """What ``capture`` and ``import-zk`` wrote."""
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


def finding(item: Finding) -> dict[str, Any]:
    """One finding with its evidence."""
    return {
        "code": item.code,
        "severity": item.severity,
        "subject_kind": item.subject_kind,
        "subject": item.subject,
        "sentence": item.sentence,
        "hint": item.hint,
        "evidence": msgspec.to_builtins(dict(item.evidence)),
    }


def measures(found: Measures) -> dict[str, Any]:
    """The four spreads by name; ``null`` is unknown."""
    return {spread.name: _spread(spread) for spread in found}


def lookup(found: TopicLookup) -> dict[str, Any]:
    """Where a topic lives."""
    return {
        "topic": found.topic,
        "hash": found.hash,
        "namespace": found.namespace,
        "bundle": found.bundle,
        "owner": found.owner,
        "owner_known": found.is_owner_known,
        "owner_service_url": found.owner_service_url,
        "steps": [{"title": step.title, "detail": step.detail} for step in found.steps],
        "notes": list(found.notes),
    }


def placement(placed: Placement, elapsed_ms: float) -> dict[str, Any]:
    """The distribution, who was ruled out, and how long the computation alone took."""
    body: dict[str, Any] = {
        "distribution": placed.distribution,
        "ruled_out": dict(placed.ruled_out),
        "elapsed_ms": round(elapsed_ms, 3),
        "bundle": placed.bundle,
        "strategy": placed.strategy,
        "scores": placed.scores,
        "score_label": placed.score_label,
        "notes": list(placed.notes),
    }
    if not placed.distribution:
        body["why"] = placed.why
    return body


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "unit": spread.unit,
        "mean": spread.mean,
        "std": spread.std,
        "max": spread.maximum,
        "min": spread.minimum,
        "max_deviation_ratio": spread.max_deviation_ratio,
        "coefficient_ratio": spread.coefficient_ratio,
        "worst": spread.worst,
        "known_brokers": spread.known_count,
        "brokers": len(spread.brokers),
    }
