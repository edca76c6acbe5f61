"""The JSON objects of the commands: stable shapes that people script against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.health.findings import Finding
from core.health.measures import Measures, Spread
from core.plan.clients import ClientImpact
from core.plan.model import Plan
from core.plan.preview import Preview
from core.pulsar.lookup import TopicLookup
from core.pulsar.placement import Placement
from core.snapshot import Problem, PulsarSnapshot
from core.units import format_bytes_per_s, format_ratio


def captured(snapshot: PulsarSnapshot, out: Path) -> dict[str, Any]:
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
        "owner_service_url": found.owner_service_url,
        "steps": [{"title": step.title, "detail": step.detail} for step in found.steps],
        "notes": list(found.notes),
    }


def placement(placed: Placement, elapsed_ms: float) -> dict[str, Any]:
    """The distribution, who was ruled out, and how long the computation alone took."""
    body: dict[str, Any] = {
        "distribution": placed.distribution,
        "ruled_out": placed.ruled_out,
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


def plan(made: Plan) -> dict[str, Any]:
    """The plan exactly as its file holds it."""
    content: dict[str, Any] = json.loads(msgspec.json.encode(made))
    return content


def clients(impact: ClientImpact) -> dict[str, Any]:
    """What an unload costs."""
    return {
        "bundles": impact.bundles,
        "clients": impact.clients,
        "producers": impact.producers,
        "consumers": impact.consumers,
        "topics": impact.topics,
        "cache_bytes": impact.cache_bytes,
        "msg_rate_msgs_per_s": impact.msg_rate_msgs_per_s,
        "throughput_bytes_per_s": impact.throughput_bytes_per_s,
    }


def preview(made: Plan, outcome: Preview) -> dict[str, Any]:
    """What a plan would do; ``before_after`` has a row for every broker."""
    return {
        "plan_id": made.plan_id,
        "cluster": made.cluster,
        "snapshot_id": made.snapshot_id,
        "applyable": made.applyable,
        "diagnostics": plan(made)["diagnostics"],
        "steps": [
            {
                "bundle": item.step.bundle,
                "owner": item.step.owner,
                "destination": item.step.destination,
                "distribution": item.placement.distribution,
                "ruled_out": item.placement.ruled_out,
                "why": item.placement.why,
                "clients": clients(item.clients),
                "command": item.command,
                "rest": item.rest,
                "notes": list(item.placement.notes),
            }
            for item in outcome.steps
        ],
        "before_after": outcome.before_after.to_pylist(),
        "clients": clients(outcome.clients),
        "measures_before": measures(outcome.measures_before),
        "measures_after": measures(outcome.measures_after),
        "outcomes": len(outcome.scenarios),
        "is_exact": outcome.is_exact,
        "notes": list(outcome.notes),
    }


def before_after_text(outcome: Preview) -> tuple[Sequence[str], list[list[str]]]:
    """Columns and rows of the brokers that the plan touches, for people."""
    columns = ("broker", "usage", "after", "traffic", "after", "bundles", "after")
    rows = [
        [
            row["broker"],
            format_ratio(row["usage_ratio_before"]),
            _between(row, "usage_ratio", format_ratio),
            format_bytes_per_s(row["throughput_bytes_per_s_before"]),
            _between(row, "throughput_bytes_per_s", format_bytes_per_s),
            _number(row["bundle_count_before"]),
            _between(row, "bundle_count", _number),
        ]
        for row in outcome.before_after.to_pylist()
        if row["is_touched"]
    ]
    return columns, rows


def _between(row: dict[str, Any], name: str, text: Any) -> str:
    """The expected value, with the extremes where they differ visibly."""
    after, low, high = (text(row[f"{name}_{moment}"]) for moment in ("after", "low", "high"))
    return after if low == high else f"{after} ({low} to {high})"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}"


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
