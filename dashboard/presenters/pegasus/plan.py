"""A plan for a Pegasus cluster as shown: its steps, nodes, and shell lines."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.pegasus.even.planner import signed_deviation
from core.pegasus.plan.preview import PegasusPreview, PegasusStepPreview
from core.pegasus.snapshot import PegasusFacts
from core.plan.model import Plan

MAX_PARTITIONS = 1_000


def steps_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a step: number, kind, effect, a person's action, the shell line."""
    steps = preview.steps
    return pd.DataFrame(
        {
            "no": [step.index + 1 for step in steps],
            "sort": [_sort(step) for step in steps],
            "what": [step.sentence for step in steps],
            "note": [step.note for step in steps],
            "copied_mb": pd.Series([step.copied_mb for step in steps], dtype="float64"),
            "by_hand": [_one_line(step.lines) for step in steps],
        }
    )


def _one_line(lines: tuple[str, ...]) -> str:
    if not lines:
        return "wait"
    return lines[0] if len(lines) == 1 else f"{lines[0]}   (and {len(lines) - 1:,} more)"


def _sort(preview: PegasusStepPreview) -> str:
    step = preview.step
    if step.wait is not None:
        return "◷ manual" if step.wait.needs_operator else "◷ wait"
    if step.setting is not None:
        return "⚙ setting" if step.temporary_value is None else "⇄ temporary"
    return "→ change"


def lines_by_hand(preview: PegasusPreview) -> str:
    """Return every shell line of a plan, a comment where it waits."""
    lines: list[str] = []
    for step in preview.steps:
        lines += step.lines or (f"# {step.sentence}",)
    return "\n".join(lines)


def nodes_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a node that the plan touches."""
    nodes = preview.nodes
    numbers = ("received_mb", "free_before_mb", "free_after_mb")
    return pd.DataFrame(
        {
            "node": [node.node for node in nodes],
            "primaries_before": [node.primaries_before for node in nodes],
            "primaries_after": [node.primaries_after for node in nodes],
            "replicas_before": [node.replicas_before for node in nodes],
            "replicas_after": [node.replicas_after for node in nodes],
            **{
                name: pd.Series([getattr(node, name) for node in nodes], dtype="float64")
                for name in numbers
            },
        }
    )


def deviations(
    facts: PegasusFacts, preview: PegasusPreview
) -> tuple[float | None, float | None, str]:
    """Return the max deviation from the mean primaries, now and after, and of which nodes it is.

    With its sign, share of the mean. Nodes that the plan empties count before it only.
    """
    columns = facts.columns
    before = columns.counts(primaries_only=True).sum(axis=0).astype(np.float64)
    after = before.copy()
    places = {name: at for at, name in enumerate(columns.nodes)}
    for node in preview.nodes:
        after[places[node.node]] = node.primaries_after
    alive = columns.is_compared
    remaining = alive & ~((before > 0) & (after == 0))
    return (
        signed_deviation(before[alive]) if before[alive].any() else None,
        signed_deviation(after[remaining]) if after[remaining].any() else None,
        "max deviation" if (remaining == alive).all() else "max deviation, remaining nodes",
    )


def partitions_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a partition that a step changes, the first :data:`MAX_PARTITIONS`."""
    rows = [
        {
            "no": step.index + 1,
            "partition": part.gpid,
            "table": part.table,
            "primary_before": part.primary_before or "none",
            "primary_after": part.primary_after or "none",
            "secondaries_before": ", ".join(part.secondaries_before) or "none",
            "secondaries_after": ", ".join(part.secondaries_after) or "none",
            "ballot_after": part.ballot_after,
        }
        for step in preview.steps
        for part in step.partitions
    ]
    return pd.DataFrame(rows[:MAX_PARTITIONS])


def restored_words(preview: PegasusPreview) -> str:
    """Return the settings restored at the end of the run; empty: none."""
    if not preview.restored:
        return ""
    return f"Restored when the run ends, also after a failure: {', '.join(preview.restored)}."


def answer(plan: Plan, preview: PegasusPreview) -> str:
    """Return the effect of a plan in one sentence."""
    if not plan.steps:
        sentences = [item.sentence for item in plan.diagnostics]
        return sentences[0] if sentences else "No steps."
    if plan.by_severity("error"):
        return f"Refused (see below). Otherwise: {preview.sentence}"
    # how long the copies take says how much is copied, too
    took = next((item.sentence for item in plan.diagnostics if item.code == "copies"), "")
    return f"{preview.sentence.partition('. ')[0]}. {took}" if took else preview.sentence
