"""Plans for Pulsar clusters with what they do, as JSON objects and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.operations.health.pulsar import measures_json
from core.plan.model import AT_LEAST, Plan, is_lower_bound
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.plan.preview import OtherPreview, Preview
from core.units import format_bytes_per_s, format_ratio
from dashboard.cli.plan_answers import plan


def clients(impact: ClientImpact) -> dict[str, Any]:
    """Return the cost of an unload."""
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
    """Return the effects of a plan; ``before_after`` has a row for every broker."""
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
                "ruled_out": dict(item.placement.ruled_out),
                "why": item.placement.why,
                "clients": clients(item.clients),
                "command": item.command,
                "rest": item.rest,
                "notes": list(item.placement.notes),
            }
            for item in outcome.steps
        ],
        "other_steps": [other(item) for item in outcome.others],
        "before_after": outcome.before_after.to_pylist(),
        "clients": clients(outcome.clients),
        "measures_before": measures_json(outcome.measures_before),
        "measures_after": measures_json(outcome.measures_after),
        "outcomes": len(outcome.scenarios),
        "is_exact": outcome.is_exact,
        "notes": list(outcome.notes),
    }


def other(item: OtherPreview) -> dict[str, Any]:
    """A step that moves no bundle by itself."""
    return {
        "kind": item.step.kind,
        "subject": item.step.subject,
        "sentence": item.sentence,
        "clients": None if item.clients is None else clients(item.clients),
        "command": item.command,
        "rest": item.rest,
    }


def before_after_text(outcome: Preview) -> tuple[Sequence[str], list[list[str]]]:
    """Columns and rows of the brokers that the plan touches, for people."""
    columns = ("broker", "usage", "after", "traffic", "after", "bundles", "after")
    rows = [
        [
            row["broker"],
            format_ratio(row["usage_ratio_before"]),
            _usage_after(row),
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


def _usage_after(row: dict[str, Any]) -> str:
    bound = is_lower_bound(row["usage_ratio_before"], row["usage_ratio_after"])
    return f"{AT_LEAST if bound else ''}{_between(row, 'usage_ratio', format_ratio)}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.4g}"
