"""May this plan be applied from here, and how much must a person confirm?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.actions.model import Refusal
from core.actions.preconditions import plan_refusal
from core.plan.describe import things
from core.plan.model import DiagnosticSeverity, Plan
from core.step import Step
from core.units import format_age, pluralize
from dashboard.presenters.naming import clock
from dashboard.presenters.workers import WorkerState

FREE_STEPS: Final = 3
"""More bundles than this are confirmed by typing the cluster's name."""

FREE_CLIENTS: Final = 500
"""More clients that reconnect than this, likewise, be it for one bundle."""

FREE_BROKERS: Final = 2
"""More brokers or nodes touched than this, likewise."""

MAX_LINES: Final = 12
"""Steps that the dialog tells one by one; the page has them all."""

MAX_REMARKS: Final = 6
"""Diagnostics of one severity that are shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """What decides whether a plan may be applied.

    Attributes:
        plan: The plan that is shown.
        now: The present moment.
        is_past: It was made on a snapshot that was chosen by its time.
        is_read_only: The configuration forbids every action on its cluster.
        worker: Whether a worker carries out runs.
        open_run: Id of a run that has not ended, with who requested it; ``None``: there is none.
        max_steps: Most steps of one run.
    """

    plan: Plan
    now: datetime
    is_past: bool
    is_read_only: bool
    worker: WorkerState
    open_run: tuple[str, str] | None
    max_steps: int


def why_not(context: ApplyContext) -> str | None:
    """Return why the plan cannot be applied, with the remedy; ``None`` when it can."""
    plan = context.plan
    refusal = plan_refusal(
        plan,
        cluster=plan.cluster,
        is_read_only=context.is_read_only,
        max_steps=context.max_steps,
        now=context.now,
    )
    if context.is_past and (refusal is None or refusal.code != "read_only"):
        return "This is an earlier snapshot. Choose Now under Time: a plan is made on the newest."
    return describe(refusal) if refusal else _of_cluster(context)


def describe(refusal: Refusal) -> str:
    """Return a refusal with its remedy."""
    return f"{refusal.sentence} {refusal.hint}".strip()


def _of_cluster(context: ApplyContext) -> str | None:
    if not context.worker.is_alive:
        return f"{context.worker.sentence} {context.worker.remedy}"
    if context.open_run is not None:
        run_id, who = context.open_run
        return f"Run {run_id} of {who} has not ended: one run at a time. Wait for it, or stop it."
    return None


def expiry_words(plan: Plan, now: datetime) -> str:
    """Return what identifies the plan, and how long it may still be applied."""
    left_s = (plan.expires_at - now).total_seconds()
    left = f"in {format_age(left_s)}" if left_s > 0 else "already"
    return (
        f"Plan `{plan.short_id}` on snapshot `{plan.snapshot_id}`, expires {left} "
        f"({clock(plan.expires_at)})."
    )


def touched_brokers(plan: Plan) -> int:
    """Return how many brokers lose or gain a bundle in the most likely outcome."""
    destinations = {step.destination or next(iter(step.likely), None) for step in plan.steps}
    owners = {step.owner for step in plan.steps}
    return len({broker for broker in owners | destinations if broker})


def emptied_nodes(plan: Plan) -> int:
    """Return how many nodes of a Pegasus cluster lose many replicas at once."""
    return len({step.emptied_node for step in plan.steps} - {None})


def step_lines(plan: Plan) -> list[str]:
    """Return the first steps of a plan as orders, and how many more there are."""
    lines = [f"{step.describe()}." for step in plan.steps[:MAX_LINES]]
    more = len(plan.steps) - len(lines)
    return [*lines, f"{more:,} more steps, all of them on the page."] if more > 0 else lines


def _is_lasting(step: Step) -> bool:
    """Whether something of a step is left when its run has ended."""
    return step.wait is None and step.temporary_value is None


def must_type_name(plan: Plan, environment: str) -> str | None:
    """Return why the cluster's name must be typed, ``None`` when a click is enough."""
    more = next((step.confirmation for step in plan.steps if step.confirmation), None)
    lasting = [step for step in plan.steps if _is_lasting(step)]
    steps, brokers, emptied = len(lasting), touched_brokers(plan), emptied_nodes(plan)
    counted_things = things(lasting)
    touched = "node" if plan.expected.nodes or emptied else "broker"
    clients = plan.expected.clients or 0
    is_production = environment == "production" and steps > 1
    reasons = (
        (more is not None, more),
        (clients > FREE_CLIENTS, f"{pluralize(clients, 'client')} will reconnect"),
        (emptied > 1, f"{pluralize(emptied, 'node')} are emptied"),
        (is_production, f"{counted_things} of a production cluster"),
        (steps > FREE_STEPS, f"{counted_things} at once"),
        (steps > 1 and brokers > FREE_BROKERS, f"{pluralize(brokers, touched)} are touched"),
    )
    return next((reason for is_so, reason in reasons if is_so), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a person filled in.

    Attributes:
        reason: Why.
        typed_name: The cluster's name as typed; empty where it is not required.
    """

    reason: str
    typed_name: str


def missing(plan: Plan, environment: str, answers: Answers) -> str | None:
    """Return what is still to be filled in before the plan is applied, ``None``: nothing."""
    if not answers.reason.strip():
        return "Enter a reason (recorded in the audit log)."
    if must_type_name(plan, environment) and answers.typed_name.strip() != plan.cluster:
        return f"Type the cluster's name, {plan.cluster}, to confirm."
    return None


def remarks(plan: Plan) -> dict[DiagnosticSeverity, list[str]]:
    """Return what there is to know about the plan by severity, worst first; a few of each."""
    severities: tuple[DiagnosticSeverity, ...] = ("error", "warning", "info")
    by_severity = {
        one: list(
            dict.fromkeys(f"{item.sentence} {item.hint}".strip() for item in plan.by_severity(one))
        )
        for one in severities
    }
    return {
        severity: items[:MAX_REMARKS]
        + ([f"{len(items) - MAX_REMARKS:,} more like these."] if len(items) > MAX_REMARKS else [])
        for severity, items in by_severity.items()
        if items
    }
