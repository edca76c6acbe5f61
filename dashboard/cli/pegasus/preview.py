"""The preview of a plan for a Pegasus cluster on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from core.errors import PlanConflictError
from core.pegasus.plan.preview import GUARDIANS_CHOICE, PegasusPreview, preview_pegasus
from core.plan.model import Plan
from core.snapshot.pegasus import load_pegasus_snapshot
from core.units import format_mb, pluralize, severity_label
from dashboard import services
from dashboard.cli import plan_answers
from dashboard.cli.output import Answer, print_line, table

_MOST_LINES: Final = 3
_MOST_STEPS: Final = 40


def preview_of_pegasus(plan: Plan, directory: Path) -> Answer:
    """Return ``trimtab preview`` of a plan for a Pegasus cluster.

    Raises:
        PlanConflictError: The plan was made on another snapshot.
    """
    snapshot = load_pegasus_snapshot(directory)
    if plan.snapshot_id != snapshot.snapshot_id:
        raise PlanConflictError(
            f"Plan {plan.short_id} was made on snapshot {plan.snapshot_id}, not on "
            f"{snapshot.snapshot_id}.",
            hint=f"Specify that snapshot, or the cluster ({plan.cluster}) for its current state.",
        )
    found = preview_pegasus(snapshot, plan)
    is_expired = plan.is_expired(services.now())
    content = plan_answers.plan(plan)
    head = {name: content[name] for name in ("plan_id", "cluster", "snapshot_id", "diagnostics")}
    more = {"applyable": plan.applyable, "answer": found.sentence, "expired": is_expired}

    def show() -> None:
        show_preview(plan, found)
        show_nodes(found)
        if is_expired:
            print_line(
                f"The plan expired at {plan.expires_at.isoformat()}: it can be previewed but not "
                "applied."
            )

    return Answer({**head, **more, **preview_json(found)}, show)


def preview_json(preview: PegasusPreview) -> dict[str, Any]:
    """Return the effects of a plan; every partition of every batch."""
    return {
        "sentence": preview.sentence,
        "nodes": [asdict(node) for node in preview.nodes],
        "steps": [
            {
                "index": step.index,
                "kind": step.step.kind,
                "subject": step.step.subject,
                "sentence": step.sentence,
                "note": step.note,
                "lines": list(step.lines),
                "copied_mb": step.copied_mb,
                "partitions": [asdict(part) for part in step.partitions],
            }
            for step in preview.steps
        ],
        "restored": list(preview.restored),
        "copied_mb": preview.copied_mb,
        "waits_for_people": preview.waits_for_people,
    }


def show_preview(
    plan: Plan, preview: PegasusPreview, write: Callable[[str], None] = print_line
) -> None:
    """Print a plan for people."""
    write(f"Plan {plan.short_id} for {plan.cluster}: {preview.sentence}")
    for item in plan.diagnostics:
        write(f"{severity_label(item.severity)}: {item.sentence} {item.hint}".rstrip())
    for step in preview.steps[:_MOST_STEPS]:
        write(f"{step.index + 1:>3}. {step.sentence}{_size(step.copied_mb)}.")
        if step.note:
            write(f"     {step.note}")
        for line in step.lines[:_MOST_LINES]:
            write(f"     {line}")
        if len(step.lines) > _MOST_LINES:
            write(
                f"     ... and {pluralize(len(step.lines) - _MOST_LINES, 'more line')} of this kind"
            )
    if len(preview.steps) > _MOST_STEPS:
        more = pluralize(len(preview.steps) - _MOST_STEPS, "more step")
        write(f"... and {more}; --json lists all.")
    if preview.restored:
        write(f"At the end of the run, it restores: {', '.join(preview.restored)}.")


def show_nodes(preview: PegasusPreview) -> None:
    """Print the nodes that a plan touches, before and after."""
    rows = [
        (
            node.node,
            str(node.primaries_before),
            str(node.primaries_after),
            str(node.replicas_before),
            str(node.replicas_after),
            format_mb(node.received_mb),
            format_mb(node.free_after_mb),
        )
        for node in preview.nodes
    ]
    after = "estimate after" if preview.is_guardians_choice else "after"
    head = ("node", "primaries", "after", "replicas", after, "receives", "free after")
    table(head, rows)
    if preview.is_guardians_choice:
        print_line(GUARDIANS_CHOICE)


def _size(copied_mb: float | None) -> str:
    return "" if copied_mb == 0 else f" ({format_mb(copied_mb)})"
