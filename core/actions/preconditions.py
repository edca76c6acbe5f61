"""Whether a plan may run: one check for the page, the request and the worker.

The page checks when it draws the button, the request when a person applies the plan, the worker
before it claims the run: in between everything may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from core.actions.approval import approval_refusal
from core.actions.model import Refusal
from core.actions.runs import fold
from core.actions.session import Session
from core.actions.views import RunView
from core.actions.windows import window_refusal
from core.plan.model import FORMAT_VERSION, Plan, content_hash
from core.units import format_age, pluralize

_MAX_NAMED: Final = 4
_AGAIN = "Create a new plan from a fresh snapshot."


def plan_refusal(
    plan: Plan, *, cluster: str, is_read_only: bool, max_steps: int, now: datetime
) -> Refusal | None:
    """Return the refusal of a plan on a cluster, or ``None``.

    Args:
        cluster: Trimtab's name of the cluster.
        is_read_only: The configuration forbids every action on it.
        max_steps: Most steps of one run.
        now: The present moment, aware UTC.
    """
    return (
        _for_another_cluster(plan, cluster)
        or _changed(plan)
        or (read_only_refusal(cluster) if is_read_only else None)
        or _not_applyable(plan)
        or _outdated(plan, now)
        or _too_long(plan, cluster, max_steps)
    )


def run_refusal(session: Session) -> Refusal | None:
    """Return the refusal of a whole run before a worker has claimed it.

    A plan that another person approved had to be good when it was requested; since then each of its
    steps is checked again on a fresh snapshot.
    """
    plan, cluster = session.plan, session.ports.cluster
    now = session.ports.clock.now()
    return (
        session.ports.refusal_of(session.requested)
        or approval_refusal(session.view, cluster.approval, now)
        or plan_refusal(
            plan,
            cluster=cluster.name,
            is_read_only=cluster.is_read_only,
            max_steps=cluster.max_steps,
            now=now if session.view.decision is None else session.view.requested_at,
        )
        or window_refusal(cluster.windows, cluster.name, now)
        or _bad_options(session)
        or _pauses_what_it_changes(session)
        or _cannot_pause(session)
        or _temporary_and_lasting(plan)
        or _applied_already(session)
        or _pending(session)
    )


def applied_refusal(plan: Plan, runs: Iterable[RunView]) -> Refusal | None:
    """Return the refusal of a plan that was already applied: one plan is one run.

    Args:
        runs: Other runs of the same plan, those that matter.
    """
    first = next(iter(runs), None)
    if first is None:
        return None
    return Refusal(
        code="already_applied",
        sentence=f"Plan {plan.short_id} was already applied as run {first.run_id} ({first.state}).",
        hint="Open that run; plan remaining work on a fresh snapshot.",
    )


def is_begun(view: RunView) -> bool:
    """Return whether a run has started to execute its plan, or is about to."""
    is_under_way = view.started_at is not None and not view.is_ended
    return is_under_way or any(step.begun_at is not None for step in view.steps)


def read_only_refusal(cluster: str) -> Refusal:
    """Return the refusal on a read-only cluster, with the setting that allows changes."""
    return Refusal(
        code="read_only",
        sentence=f"{cluster} is read-only, the default of configured clusters.",
        hint=f'Set read_only = false under name = "{cluster}" in trimtab.toml to allow actions.',
    )


def _for_another_cluster(plan: Plan, cluster: str) -> Refusal | None:
    if plan.cluster == cluster:
        return None
    return Refusal(
        code="another_cluster",
        sentence=f"Plan {plan.short_id} was made for {plan.cluster}, not for {cluster}.",
        hint=f"Apply it to {plan.cluster}, or create a plan for {cluster}.",
    )


def _changed(plan: Plan) -> Refusal | None:
    if plan.format_version != FORMAT_VERSION:
        return Refusal(
            code="format_version",
            sentence=f"Plan {plan.short_id} has format {plan.format_version}; this version of "
            f"Trimtab applies format {FORMAT_VERSION}.",
            hint=_AGAIN,
        )
    found = content_hash(plan)
    if found == plan.plan_id:
        return None
    return Refusal(
        code="plan_changed",
        sentence=f"Plan {plan.short_id} was changed after it was made: its content hashes to "
        f"{found[:12]}.",
        hint="Create a new plan; plans cannot be edited.",
    )


def _not_applyable(plan: Plan) -> Refusal | None:
    if plan.applyable and not plan.errored and plan.steps:
        return None
    error = next(iter(plan.by_severity("error")), None)
    return Refusal(
        code="not_applyable",
        sentence=f"Plan {plan.short_id} cannot be applied. "
        + (error.sentence if error else "It has no steps."),
        hint=error.hint if error else _AGAIN,
    )


def _outdated(plan: Plan, now: datetime) -> Refusal | None:
    if problem := plan.bad_lifetime(now):
        return Refusal(code="plan_lifetime", sentence=problem, hint=_AGAIN)
    if not plan.is_expired(now):
        return None
    age_s = (now - plan.expires_at).total_seconds()
    return Refusal(
        code="plan_expired",
        sentence=f"Plan {plan.short_id} expired {format_age(age_s)} ago, at "
        f"{plan.expires_at:%Y-%m-%d %H:%M:%S} UTC.",
        hint=_AGAIN,
    )


def _too_long(plan: Plan, cluster: str, max_steps: int) -> Refusal | None:
    if len(plan.steps) <= max_steps:
        return None
    return Refusal(
        code="too_many_steps",
        sentence=f"Plan {plan.short_id} has {pluralize(len(plan.steps), 'step')}; one run on "
        f"{cluster} may have {max_steps}.",
        hint="Split it into several plans, or raise max_steps under [clusters.apply].",
    )


def _bad_options(session: Session) -> Refusal | None:
    options = session.view.options
    if options.pace_per_min > 0 and options.verify_within_s > 0:
        return None
    return Refusal(
        code="bad_options",
        sentence=f"pace_per_min = {options.pace_per_min:g} and verify_within_s = "
        f"{options.verify_within_s:g} must both be above 0.",
        hint="Request the run with other options.",
    )


def _pauses_what_it_changes(session: Session) -> Refusal | None:
    """Return the refusal of a plan that changes a setting which the run restores."""
    wanted = {step.step.subject for step in session.view.steps}
    switch = session.ports.cluster.system.balancer
    if not session.view.options.pause_balancer or isinstance(switch, Refusal):
        return None
    if switch.key not in wanted:
        return None
    return Refusal(
        code="bad_options",
        sentence=f"The plan changes {switch.key}, which --pause-balancer sets and restores.",
        hint="Request the run without --pause-balancer.",
    )


def _cannot_pause(session: Session) -> Refusal | None:
    """Return the reason an option cannot pause the balancer of the cluster's system."""
    switch = session.ports.cluster.system.balancer
    is_requested = session.view.options.pause_balancer
    return switch if is_requested and isinstance(switch, Refusal) else None


def _temporary_and_lasting(plan: Plan) -> Refusal | None:
    """Return the refusal of a plan that sets a value both temporarily and permanently."""
    setting = [step for step in plan.steps if step.setting is not None]
    temporary = {step.subject for step in setting if step.temporary_value is not None}
    lasting = {step.subject for step in setting if step.temporary_value is None}
    if not temporary & lasting:
        return None
    return Refusal(
        code="bad_plan",
        sentence=f"The plan sets {min(temporary & lasting)} both temporarily and permanently.",
        hint="Create a new plan with only one of them.",
    )


def _pending(session: Session) -> Refusal | None:
    """Return the refusal of a plan whose subjects pending requests may still change.

    Found before the first step, so that nothing is set, or moved in part, for steps that would be
    skipped. A plan that discards what is queued before its first request may run.
    """
    queued: set[str] = set()
    for step in session.plan.steps:
        if step.discards_queued:
            break
        if step.is_queued:
            queued.update(step.touched)
    held = sorted(queued.intersection(session.ports.cluster.pending()) if queued else ())
    if not held:
        return None
    more = f" and {len(held) - _MAX_NAMED} more" if held[_MAX_NAMED:] else ""
    names = f"{', '.join(held[:_MAX_NAMED])}{more}"
    return Refusal(
        code="pending",
        sentence=f"A request of an earlier run may still change {names}; this plan cannot start "
        "until its result is known.",
        hint="Wait for the result of that run's steps (at most one hour). To discard what a "
        "meta server has queued, set the level to steady in a separate run.",
    )


def _applied_already(session: Session) -> Refusal | None:
    journal = session.ports.journal
    others = (
        fold(journal.entries(run_id=run_id))
        for run_id in journal.runs_of_plan(session.plan)
        if run_id != session.run_id
    )
    return applied_refusal(session.plan, filter(is_begun, others))
