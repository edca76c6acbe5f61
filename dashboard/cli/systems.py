"""Answers about clusters of any system; what a system shows beyond them is in its own modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from core.errors import PlanConflictError
from core.plan.model import Plan
from core.snapshot import Problem
from core.snapshot.store import Storable, load_manifest
from core.systems import KnownSystem, record_of
from core.units import severity_label
from dashboard import services
from dashboard.cli import answers, plan_answers
from dashboard.cli.config import systems
from dashboard.cli.output import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    Answer,
    UsageFaultError,
    note,
    print_line,
)
from dashboard.cli.plan_answers import refusal
from dashboard.systems import part

_EXAMPLES: Final = 3


def snapshot_in(directory: Path) -> tuple[KnownSystem, Any]:
    """Return the system of a snapshot directory, and the snapshot.

    Raises:
        SnapshotError: There is none, or it is damaged.
        UsageFaultError: It is of a system that this command line does not know.
    """
    kind = load_manifest(directory)[1].kind
    known = {system.name: system for system in systems()}
    if kind not in known:
        raise UsageFaultError(
            f"{directory} is a snapshot of a {kind} cluster.",
            hint=f"Supported systems: {', '.join(known)}.",
        )
    return known[kind], known[kind].record.load(directory)


def preview(directory: Path, plan: Plan) -> Answer:
    """Return the expected effects of a plan for a cluster of any system."""
    if (views := _views(directory)) is not None:
        found: Answer = views.preview(directory, plan)
        return found
    return _preview(*snapshot_in(directory), plan)


def preview_now(directory: Path, plan: Plan, config: services.Config) -> Answer:
    """Return the expected effects of a plan on the current state of its cluster.

    Args:
        directory: A snapshot that was just taken.
        plan: Made on an earlier one; steps that would be refused now are listed and skipped.
        config: The configuration, with the namespaces that it excludes.

    Raises:
        PlanConflictError: The plan is for another cluster, or every step would be refused.
    """
    system, snapshot = snapshot_in(directory)
    name, moment = snapshot.manifest.cluster, snapshot.manifest.taken_at
    if plan.snapshot_id == snapshot.snapshot_id:
        return preview(directory, plan)
    if plan.cluster != name:
        raise PlanConflictError(
            f"Plan {plan.short_id} is for {plan.cluster}, not for {name}.",
            hint=f"Pass --snapshot {plan.cluster}.",
        )
    excluded = config.cluster(name).exclusions
    refused = system.recheck(snapshot, plan, excluded, services.now())
    steps = tuple(step for index, step in enumerate(plan.steps) if index not in refused)
    if not steps:
        raise refusal([replace(one, hint="Plan again.") for one in refused.values()])
    current = replace(plan, snapshot_id=snapshot.snapshot_id, taken_at=moment, steps=steps)
    answer = preview(directory, current)
    skipped = [one.sentence for one in refused.values()]

    def show() -> None:
        print_line(
            f"Current state of {plan.cluster} at {moment:%H:%M:%S} UTC; the plan was made on that "
            f"of {plan.taken_at:%H:%M:%S}."
        )
        for text in skipped:
            print_line(f"Skipped: {text}")
        answer.show()

    return replace(answer, body={**answer.body, "skipped": skipped}, show=show)


def _views(directory: Path) -> Any:
    """Return the module with a system's own views; ``None``: it has none."""
    return part(load_manifest(directory)[1].kind, "views")


def _preview(system: KnownSystem, snapshot: Storable, plan: Plan) -> Answer:
    is_expired = plan.is_expired(services.now())
    sentence = system.preview(snapshot, plan)
    body = {"plan": plan_answers.plan(plan), "answer": sentence, "expired": is_expired}

    def show() -> None:
        print_line(sentence)
        for step in plan.steps:
            print_line(f"  {step.describe()}")
            for line in step.command_lines():
                print_line(f"    {line}")
        if is_expired:
            print_line(
                f"The plan expired at {plan.expires_at.isoformat()}: it can be previewed but not "
                "applied."
            )

    return Answer(body, show)


def _show_problems(problems: Sequence[Problem]) -> None:
    """Print the parts that could not be read: of many of one kind the number and examples."""
    groups: dict[tuple[str, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, problem.code, problem.done), []).append(problem)
    for (severity, _, done), group in groups.items():
        if len(group) <= _EXAMPLES:
            for one in group:
                note(one.sentence)
            continue
        note(
            " ".join(
                filter(
                    None,
                    (f"{severity_label(severity)}: {len(group):,} problems:", done, "Examples:"),
                )
            )
        )
        for one in group[:_EXAMPLES]:
            note(f"  {one.place}: {one.what}")
    if any(len(group) > _EXAMPLES for group in groups.values()):
        note("--json lists all.")


def captured(snapshot: Storable, out: Path) -> Answer:
    """Return the answer about a snapshot that was written."""

    def show() -> None:
        filled = [name for name, table in snapshot.tables.items() if table.num_rows]
        sizes = record_of(snapshot.manifest.kind, systems()).sizes(snapshot, filled)
        print_line(f"{out}: {', '.join(sizes) or 'nothing'} of {snapshot.manifest.cluster}.")
        _show_problems(snapshot.manifest.problems)

    manifest = snapshot.manifest
    coverage = [one.coverage_ratio for one in manifest.tables.values()]
    is_partial = any(problem.severity == "error" for problem in manifest.problems) or any(
        ratio is not None and ratio < 1.0 for ratio in coverage
    )
    code = EXIT_INCOMPLETE if is_partial else EXIT_DONE
    return Answer(answers.captured(snapshot, out), show, exit_code=code)
