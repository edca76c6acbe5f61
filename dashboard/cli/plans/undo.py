"""``trimtab undo``: the inverse plan of a run, previewed, then carried out like any other."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from core.actions.runs import RunView
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.system import PEGASUS as PEGASUS_SYSTEM
from core.plan.codec import dump_plan
from core.plan.model import Diagnostic, Plan
from core.pulsar.plan.answer import plan_sentence
from core.pulsar.plan.preview import preview_plan
from core.pulsar.system import PULSAR
from core.units import pluralize
from dashboard import services
from dashboard.cli.config import configured
from dashboard.cli.output import Answer, StoppedError, UsageFaultError, emit, note
from dashboard.cli.pegasus.live import PEGASUS
from dashboard.cli.plans import answers
from dashboard.cli.plans.apply import ApplyRequest, carry_out
from dashboard.cli.plans.unload import refusal, write_plan
from dashboard.services import pegasus

_MOST_STEPS: Final = 10


def undo(
    config_file: Path | None,
    run: str,
    request: ApplyRequest,
    *,
    plan_file: Path | None,
    is_sure: bool,
) -> int:
    """Plan the way back on a fresh snapshot, show it, and carry it out."""
    config = configured(config_file)
    view = services.run_view(config, run)
    cluster = config.cluster(view.cluster)
    may_ask = sys.stdin.isatty() and not request.as_json
    if plan_file is None and not (request.is_dry or is_sure or may_ask):
        raise UsageFaultError("No terminal.", hint="Add --yes, --plan or --dry-run.")
    plan, sentence = _way_back(cluster, view, request.reason)
    if errors := plan.by_severity("error"):
        raise refusal(errors)
    _show(sentence, plan)
    if plan_file is not None:
        write_plan(plan_file, dump_plan(plan))
        note(f"Written to {plan_file}.")
        body = {"plan": answers.plan(plan), "path": str(plan_file)}
        return emit(Answer(body), as_json=request.as_json)
    if not (request.is_dry or is_sure):
        _ask(plan)
    return carry_out(config, plan, cluster.name, request)


def _way_back(cluster: services.Cluster, view: RunView, reason: str) -> tuple[Plan, str]:
    """Return the plan on a fresh snapshot, and what it would do, in a sentence."""
    now, exclusions = services.now(), frozenset(cluster.exclusions)
    if cluster.kind == PEGASUS:
        state = pegasus.capture(cluster)
        plan = PEGASUS_SYSTEM.undo(view, state, now=now, exclusions=exclusions, reason=reason)
        return plan, preview_pegasus(state, plan).sentence
    snapshot = services.capture(cluster)
    plan = PULSAR.undo(view, snapshot, now=now, exclusions=exclusions, reason=reason)
    return plan, plan_sentence(preview_plan(snapshot, plan))


def _show(sentence: str, plan: Plan) -> None:
    """Show the way back on standard error: the answer is the run."""
    note(sentence)
    if len(plan.steps) <= _MOST_STEPS:  # else the sentence counts them
        for step in plan.steps:
            note(f"  {step.describe()}")
    else:
        note(f"  {pluralize(len(plan.steps), 'step')} in all; --plan OUT writes every one.")
    for items in _alike(plan.diagnostics):
        first, others = items[0], len(items) - 1
        told = f"{first.severity}: {first.sentence} {first.hint}".rstrip()
        more = f" {others:,} more like it." if others else ""
        note(told + more)


def _alike(items: Sequence[Diagnostic]) -> Iterable[list[Diagnostic]]:
    """Return remarks of one severity and code together, in the order of their first."""
    found: dict[tuple[str, str], list[Diagnostic]] = {}
    for item in items:
        found.setdefault((item.severity, item.code), []).append(item)
    return found.values()


def _ask(plan: Plan) -> None:
    note(f"Apply it to {plan.cluster}? Type yes:")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise StoppedError("Nothing was changed.")
