"""May this plan be applied from here, and how much must a person confirm?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.plan.describe import things
from core.plan.model import Plan
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

MOST_LINES: Final = 12
"""Steps that the dialog tells one by one; the page has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """What decides whether a plan may be applied.

    Attributes:
        plan: The plan that is shown.
        now: The present moment.
        is_past: It was made on a snapshot that was chosen by its time.
        is_read_only: The configuration forbids every action on its cluster.
        worker: Whether somebody carries out runs.
        open_run: Id of a run that has not ended, with who asked for it; ``None``: there is none.
        max_steps: Most steps of one run.
    """

    plan: Plan
    now: datetime
    is_past: bool
    is_read_only: bool
    worker: WorkerState
    open_run: tuple[str, str] | None
    max_steps: int


def why_not(standing: ApplyContext) -> str | None:
    """Return why the plan cannot be applied, with the remedy; ``None`` when it can."""
    if standing.is_read_only:
        return read_only_words(standing.plan.cluster)
    return _of_plan(standing) or _of_cluster(standing)


def _of_plan(standing: ApplyContext) -> str | None:
    plan = standing.plan
    if standing.is_past:
        return "This is an earlier snapshot. Choose Now under Time: a plan is made on the newest."
    if not plan.applyable:
        return "The plan has an error, or nothing to do: see above."
    if problem := plan.bad_lifetime(standing.now):
        return f"{problem} Preview again."
    if plan.is_expired(standing.now):
        return expired_words(plan)
    if len(plan.steps) > standing.max_steps:
        return (
            f"{len(plan.steps)} steps are more than one run may have "
            f"({standing.max_steps}, `max_steps` of this cluster): take fewer bundles."
        )
    return None


def _of_cluster(standing: ApplyContext) -> str | None:
    if not standing.worker.is_alive:
        return f"{standing.worker.sentence} {standing.worker.remedy}"
    if standing.open_run is not None:
        run_id, who = standing.open_run
        return f"Run {run_id} of {who} has not ended: one run at a time. Wait for it, or stop it."
    return None


def read_only_words(cluster: str) -> str:
    """Return why nothing can be changed on a cluster, and how to change that."""
    return (
        f"{cluster} is read-only: Trimtab's default for configured clusters. Whoever keeps "
        f'trimtab.toml allows actions with `read_only = false` under name = "{cluster}".'
    )


def expired_words(plan: Plan) -> str:
    """Return that the plan may not be applied any more."""
    return f"The plan expired at {clock(plan.expires_at)}. Preview again: the cluster has moved on."


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
    lines = [f"{step.describe()}." for step in plan.steps[:MOST_LINES]]
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
        typed_name: The cluster's name as typed; empty where it is not asked for.
    """

    reason: str
    typed_name: str


def missing(plan: Plan, environment: str, answers: Answers) -> str | None:
    """Return what is still to be filled in before the plan is applied, ``None``: nothing."""
    if not answers.reason.strip():
        return "Say why: the reason is kept with the run."
    if must_type_name(plan, environment) and answers.typed_name.strip() != plan.cluster:
        return f"Type the cluster's name, {plan.cluster}, to confirm."
    return None
