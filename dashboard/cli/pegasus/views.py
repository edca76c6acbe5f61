"""What ``health`` and ``preview`` show of a Pegasus cluster beyond findings and steps."""

from __future__ import annotations

from pathlib import Path

from core.plan.model import Plan
from dashboard.cli.pegasus import state
from dashboard.cli.pegasus.preview import preview_of_pegasus


def health(directory: Path, target_code: str, *, as_json: bool) -> int:
    """Show the state of the partitions, the balance, and the findings."""
    del target_code  # Pegasus has one definition of balanced
    return state.health(str(directory), None, as_json=as_json)


def preview(directory: Path, plan: Plan, *, as_json: bool) -> int:
    """Show replicas by node before and after, each step, and commands."""
    return preview_of_pegasus(plan, directory, as_json=as_json)
