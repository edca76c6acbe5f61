"""What is checked before a run is asked for, so that a person hears "no" at once.

The worker checks again: between the request and its turn everything may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from core.actions.model import RunOptions
from core.actions.views import RunView
from core.errors import (
    AlreadyAppliedError,
    GuardRefusedError,
    InputError,
    PlanConflictError,
    UnusablePlanError,
)
from core.plan.model import READABLE_VERSIONS, Plan, content_hash
from core.units import one_line, pluralize

_AGAIN = "Make the plan again from a fresh snapshot."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What the configuration of a cluster allows runs; see ``[clusters.apply]``."""

    pace_per_min: float
    max_failures: int
    max_steps: int
    is_read_only: bool


def check_request(plan: Plan, cluster: str, limits: RunLimits, now: datetime) -> None:
    """Check that a plan may be carried out on a cluster now.

    Raises:
        UnusablePlanError: Its form, its hash or its times do not fit, or it is errored, or has no
            steps.
        PlanConflictError: It was made for another cluster, or has expired.
        GuardRefusedError: The cluster is read-only, or the plan has too many steps.
    """
    if plan.format_version not in READABLE_VERSIONS or plan.plan_id != content_hash(plan):
        raise UnusablePlanError(f"Plan {plan.short_id} is not as it was made.", hint=_AGAIN)
    if plan.cluster != cluster:
        raise PlanConflictError(
            f"Plan {plan.short_id} was made for {plan.cluster}, not for {cluster}.",
            hint="Apply it there, or make one for this cluster.",
        )
    if limits.is_read_only:
        raise GuardRefusedError(
            f"{cluster} is read-only: nothing is ever changed on it.",
            hint="Set read_only = false for it in trimtab.toml, if that is meant.",
        )
    if not plan.applyable or plan.errored:
        first = next(iter(plan.by_severity("error")), None)
        why = first.sentence if first else "It has no steps."
        raise UnusablePlanError(
            f"Plan {plan.short_id} cannot be applied. {why}", hint=first.hint if first else _AGAIN
        )
    if problem := plan.bad_lifetime(now):
        raise UnusablePlanError(problem, hint=_AGAIN)
    if plan.is_expired(now):
        raise PlanConflictError(
            f"Plan {plan.short_id} expired at {plan.expires_at:%H:%M:%S} UTC.", hint=_AGAIN
        )
    if len(plan.steps) > limits.max_steps:
        raise GuardRefusedError(
            f"Plan {plan.short_id} has {pluralize(len(plan.steps), 'step')}; one run on {cluster} "
            f"may have {limits.max_steps}.",
            hint="Split it into several plans, or raise max_steps under [clusters.apply].",
        )


def is_begun(view: RunView) -> bool:
    """Return whether a run has begun to carry its plan out, or is about to."""
    is_under_way = view.started_at is not None and not view.is_ended
    return is_under_way or any(step.begun_at is not None for step in view.steps)


def check_unapplied(plan: Plan, runs: Iterable[RunView]) -> None:
    """Check that no run of this plan waits, is under way or has begun a step.

    Args:
        plan: What is asked for.
        runs: The runs that were ever requested with it.
    Raises:
        AlreadyAppliedError: Another run has it; the message names that run.
    """
    for view in runs:
        if is_begun(view) or not view.is_ended:
            raise AlreadyAppliedError(
                f"Plan {plan.short_id} is run {view.run_id} already ({view.state}).",
                hint="Look at that run; what is left to do is a new plan on a fresh snapshot.",
            )


def check_options(options: RunOptions, limits: RunLimits) -> None:
    """Check that a run asks for no more haste than its cluster allows.

    Raises:
        InputError: A value that is none, or beyond its limit.
    """
    for name, asked, most in (
        ("pace_per_min", options.pace_per_min, limits.pace_per_min),
        ("max_failures", options.max_failures, limits.max_failures),
    ):
        if not 0 < asked <= most:
            raise InputError(
                f"{name} = {asked:g} is not between 0 and {most:g}, this cluster's limit.",
                hint=f"Ask for less, or raise {name} under [clusters.apply].",
            )
    if not 1 <= options.verify_within_s <= 600:
        raise InputError(
            f"verify_within_s = {options.verify_within_s:g} is not between 1 and 600 seconds.",
            hint="Leave it out to take this cluster's own.",
        )


def reason_of(text: str) -> str:
    """Return the reason as it is kept: one line that a terminal shows and never obeys.

    Raises:
        InputError: There is none.
    """
    reason = one_line(text)
    if not reason:
        raise InputError("A run needs a reason.", hint="Say why: it is kept in the journal.")
    if len(reason) > 2000:
        raise InputError(
            f"The reason has {len(reason)} characters; 2,000 are kept.", hint="Say it shorter."
        )
    return reason
