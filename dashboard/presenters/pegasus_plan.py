"""What the pages say of a plan for a Pegasus cluster: its steps, nodes, and lines by hand."""

from __future__ import annotations

import pandas as pd

from core.plan.model import Plan
from core.plan.pegasus_steps import (
    AwaitState,
    MoveReplica,
    SetMetaLevel,
    SetServerSetting,
)
from core.plan.pegasus_words import shell_lines
from core.plan.steps import PegasusStep, Step
from core.plan.words import describe
from core.units import counted, format_mb


def by_hand(step: Step) -> tuple[str, ...]:
    """Return the shell lines of one step; none for a step that only waits."""
    return shell_lines(step) if isinstance(step, PegasusStep) else ()


def steps_frame(plan: Plan) -> pd.DataFrame:
    """Return one row a step: number, what, kind of it, the shell line that does it."""
    lines = [by_hand(step) for step in plan.steps]
    return pd.DataFrame(
        {
            "no": range(1, len(plan.steps) + 1),
            "sort": [_sort(step) for step in plan.steps],
            "what": [describe(step) for step in plan.steps],
            "copied_mb": pd.Series([_copied(step) for step in plan.steps], dtype="float64"),
            "by_hand": [_one_line(found) for found in lines],
        }
    )


def _one_line(lines: tuple[str, ...]) -> str:
    if not lines:
        return "wait"
    return lines[0] if len(lines) == 1 else f"{lines[0]}   (and {len(lines) - 1:,} more)"


def _sort(step: Step) -> str:
    if isinstance(step, AwaitState):
        return "◷ wait"
    if isinstance(step, SetMetaLevel | SetServerSetting):
        return "⇄ until the end" if step.is_restored else "⚙ setting"
    return "→ change"


def _copied(step: Step) -> float | None:
    return step.size_mb if isinstance(step, MoveReplica) else 0.0


def lines_by_hand(plan: Plan) -> str:
    """Return every shell line of a plan, a comment where it waits."""
    lines: list[str] = []
    for step in plan.steps:
        found = by_hand(step)
        lines += found or (f"# {describe(step)}",)
    return "\n".join(lines)


def nodes_frame(plan: Plan) -> pd.DataFrame:
    """Return one row a node that the plan touches."""
    nodes = plan.expected.nodes
    return pd.DataFrame(
        {
            "node": [one.node for one in nodes],
            "primaries_before": [one.primaries_before for one in nodes],
            "primaries_after": [one.primaries_after for one in nodes],
            "replicas_before": [one.replicas_before for one in nodes],
            "replicas_after": [one.replicas_after for one in nodes],
        }
    )


def answer(plan: Plan) -> str:
    """Return what a plan would do, in one sentence."""
    if not plan.steps:
        return "The plan has no step: see why below."
    moves = [step for step in plan.steps if isinstance(step, MoveReplica)]
    if len(moves) == 1:
        what = f"{describe(moves[0])}"
    elif moves:
        roles = sum(step.move == "move_pri" for step in moves)
        parts = [counted(roles, "role change")] if roles else []
        copies = len(moves) - roles
        if copies:
            copied = plan.expected.copied_mb
            size = "" if copied is None else f" of {format_mb(copied)}"
            parts.append(f"{copies:,} {'copy' if copies == 1 else 'copies'}{size}")
        what = f"Make {' and '.join(parts)}"
    else:
        what = "; ".join(describe(step) for step in plan.steps[:2])
    touched = len(plan.expected.nodes)
    return f"{what}, on {counted(touched, 'node')}." if touched else f"{what}."
