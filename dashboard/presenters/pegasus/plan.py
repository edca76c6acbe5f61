"""A plan for a Pegasus cluster as shown: its steps, nodes, and shell lines."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.pegasus.even.planner import deviation
from core.pegasus.plan.preview import PegasusPreview, PegasusStepPreview
from core.pegasus.snapshot import PegasusFacts
from core.plan.model import Plan

MAX_PARTITIONS = 1_000


def steps_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a step: number, sort, what, what a person does, the shell line."""
    steps = preview.steps
    return pd.DataFrame(
        {
            "no": [one.index + 1 for one in steps],
            "sort": [_sort(one) for one in steps],
            "what": [one.sentence for one in steps],
            "note": [one.note for one in steps],
            "copied_mb": pd.Series([one.copied_mb for one in steps], dtype="float64"),
            "by_hand": [_one_line(one.lines) for one in steps],
        }
    )


def _one_line(lines: tuple[str, ...]) -> str:
    if not lines:
        return "wait"
    return lines[0] if len(lines) == 1 else f"{lines[0]}   (and {len(lines) - 1:,} more)"


def _sort(one: PegasusStepPreview) -> str:
    step = one.step
    if step.wait is not None:
        return "◷ manual" if step.wait.needs_operator else "◷ wait"
    if step.setting is not None:
        return "⚙ setting" if step.temporary_value is None else "⇄ temporary"
    return "→ change"


def lines_by_hand(preview: PegasusPreview) -> str:
    """Return every shell line of a plan, a comment where it waits."""
    lines: list[str] = []
    for one in preview.steps:
        lines += one.lines or (f"# {one.sentence}",)
    return "\n".join(lines)


def nodes_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a node that the plan touches."""
    nodes = preview.nodes
    numbers = ("received_mb", "free_before_mb", "free_after_mb")
    return pd.DataFrame(
        {
            "node": [one.node for one in nodes],
            "primaries_before": [one.primaries_before for one in nodes],
            "primaries_after": [one.primaries_after for one in nodes],
            "replicas_before": [one.replicas_before for one in nodes],
            "replicas_after": [one.replicas_after for one in nodes],
            **{
                name: pd.Series([getattr(one, name) for one in nodes], dtype="float64")
                for name in numbers
            },
        }
    )


def deviations(facts: PegasusFacts, preview: PegasusPreview) -> tuple[float | None, float | None]:
    """Return the max deviation from the mean primaries, now and after, 0..1."""
    columns = facts.columns
    before = columns.counts(primaries_only=True).sum(axis=0).astype(np.float64)
    after = before.copy()
    places = {name: at for at, name in enumerate(columns.nodes)}
    for one in preview.nodes:
        after[places[one.node]] = one.primaries_after
    alive = columns.is_compared
    return (
        deviation(before[alive]) if before[alive].any() else None,
        deviation(after[alive]) if after[alive].any() else None,
    )


def partitions_frame(preview: PegasusPreview) -> pd.DataFrame:
    """Return one row a partition that a step changes, the first :data:`MAX_PARTITIONS`."""
    rows = [
        {
            "no": one.index + 1,
            "partition": part.gpid,
            "table": part.table,
            "primary_before": part.primary_before or "none",
            "primary_after": part.primary_after or "none",
            "secondaries_before": ", ".join(part.secondaries_before) or "none",
            "secondaries_after": ", ".join(part.secondaries_after) or "none",
            "ballot_after": part.ballot_after,
        }
        for one in preview.steps
        for part in one.partitions
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
    return preview.sentence
