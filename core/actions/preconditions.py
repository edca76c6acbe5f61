"""Why a run is refused as a whole, before anybody has claimed it."""

from __future__ import annotations

from datetime import datetime

from core.actions.guards import read_only_refusal
from core.actions.model import Refusal
from core.actions.request import is_begun
from core.actions.runs import fold
from core.actions.session import Session
from core.plan.model import READABLE_VERSIONS, Plan, content_hash
from core.units import format_age


def admission(session: Session) -> Refusal | None:
    """Return why the run is refused as a whole before anybody has claimed it."""
    plan, cluster = session.plan, session.ports.cluster
    now = session.ports.clock.now()
    return (
        _another_clusters(plan, cluster.name)
        or _damaged(plan)
        or _careless(session)
        or _at_odds(session)
        or _no_such_balancer(session)
        or _kept_and_changed(session)
        or _not_applyable(plan)
        or read_only_refusal(cluster)
        or _bad_lifetime(plan, now)
        or _expired(plan, now)
        or _applied_already(session)
    )


def _another_clusters(plan: Plan, cluster: str) -> Refusal | None:
    if plan.cluster == cluster:
        return None
    return Refusal(
        code="another_cluster",
        sentence=f"The plan was made for {plan.cluster}, and this worker acts on {cluster}.",
        hint=f"Apply it with --cluster {plan.cluster}.",
    )


def _damaged(plan: Plan) -> Refusal | None:
    if plan.format_version not in READABLE_VERSIONS:
        return Refusal(
            code="format_version",
            sentence=f"The plan's form has version {plan.format_version}; this Trimtab applies "
            f"versions {' and '.join(map(str, READABLE_VERSIONS))}.",
            hint="Make the plan anew.",
        )
    found = content_hash(plan)
    if found == plan.plan_id:
        return None
    return Refusal(
        code="plan_changed",
        sentence=f"The plan says it is {plan.short_id}, its content is {found[:12]}: it was "
        "changed after it was made.",
        hint="Make the plan anew; an edited plan is a new plan.",
    )


def _careless(session: Session) -> Refusal | None:
    options = session.view.options
    if options.pace_per_min > 0 and options.verify_within_s > 0:
        return None
    return Refusal(
        code="bad_options",
        sentence=f"A pace of {options.pace_per_min:g} steps a minute, each verified within "
        f"{options.verify_within_s:g} s, cannot be: both must be above 0.",
        hint="Ask for the run again with other options.",
    )


def _at_odds(session: Session) -> Refusal | None:
    """A setting cannot be put back after the run and be what the plan wants it to be."""
    wanted = {step.step.subject for step in session.view.steps}
    switch = session.ports.cluster.system.balancer
    if not session.view.options.pause_balancer or isinstance(switch, Refusal):
        return None
    if switch.key not in wanted:
        return None
    return Refusal(
        code="bad_options",
        sentence=f"The plan changes {switch.key}, which pausing the balancer would put back.",
        hint="Ask for the run without --pause-balancer.",
    )


def _no_such_balancer(session: Session) -> Refusal | None:
    """Return why an option cannot pause the balancer of the cluster's system."""
    switch = session.ports.cluster.system.balancer
    is_asked = session.view.options.pause_balancer
    return switch if is_asked and isinstance(switch, Refusal) else None


def _kept_and_changed(session: Session) -> Refusal | None:
    """Return what one step changes for the time of the run, and another one for good."""
    setting = [step for step in session.plan.steps if step.setting is not None]
    kept = {step.subject for step in setting if step.temporary_value is not None}
    changed = {step.subject for step in setting if step.temporary_value is None}
    if not kept & changed:
        return None
    return Refusal(
        code="bad_plan",
        sentence=f"The plan sets {min(kept & changed)} both for the time of the run and for good.",
        hint="Make the plan anew with one or the other.",
    )


def _not_applyable(plan: Plan) -> Refusal | None:
    if plan.applyable and not plan.errored and plan.steps:
        return None
    errors = plan.by_severity("error")
    return Refusal(
        code="not_applyable",
        sentence="The plan cannot be applied: "
        + (errors[0].sentence if errors else "it has nothing to do."),
        hint=errors[0].hint if errors else "",
    )


def _bad_lifetime(plan: Plan, now: datetime) -> Refusal | None:
    problem = plan.bad_lifetime(now)
    if not problem:
        return None
    hint = "Make the plan again from a fresh snapshot."
    return Refusal(code="plan_lifetime", sentence=problem, hint=hint)


def _expired(plan: Plan, now: datetime) -> Refusal | None:
    if not plan.is_expired(now):
        return None
    age_s = (now - plan.expires_at).total_seconds()
    return Refusal(
        code="plan_expired",
        sentence=f"The plan expired {format_age(age_s)} ago, at "
        f"{plan.expires_at:%Y-%m-%d %H:%M:%S} UTC, before a worker took it up.",
        hint="Preview it anew on a fresh snapshot.",
    )


def _applied_already(session: Session) -> Refusal | None:
    """One plan is one run: a second one would not do again what a person has seen previewed."""
    journal = session.ports.journal
    for run_id in journal.runs_of_plan(session.plan):
        if run_id != session.run_id and is_begun(fold(journal.entries(run_id=run_id))):
            return Refusal(
                code="already_applied",
                sentence=f"Plan {session.plan.short_id} is carried out by run {run_id} already.",
                hint="Look at that run; what is left to do is a new plan on a fresh snapshot.",
            )
    return None
