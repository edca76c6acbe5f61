"""What is checked before a run is requested, so that a person gets the refusal at once.

The worker checks again: between the request and its turn everything may have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.actions.model import RunOptions
from core.actions.preconditions import applied_refusal, is_begun, plan_refusal
from core.actions.views import RunView
from core.errors import (
    AlreadyAppliedError,
    GuardRefusedError,
    InputError,
    PlanConflictError,
    PlanError,
    UnusablePlanError,
)
from core.plan.model import Plan
from core.units import one_line

_ERRORS: Final[Mapping[str, type[PlanError]]] = {
    "another_cluster": PlanConflictError,
    "plan_expired": PlanConflictError,
    "read_only": GuardRefusedError,
    "too_many_steps": GuardRefusedError,
    "already_applied": AlreadyAppliedError,
}
"""By code of a refusal; for the others :class:`UnusablePlanError`."""


MAX_CANARY_S: Final = 300.0
"""Longest time for which a cluster is observed after the first step of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of runs in a cluster's configuration; see ``[clusters.apply]``."""

    pace_per_min: float
    max_failures: int
    max_steps: int
    is_read_only: bool
    canary_s: float = 0.0
    max_unassigned: int = 1


def check_request(
    plan: Plan, cluster: str, limits: RunLimits, now: datetime, runs: Iterable[RunView] = ()
) -> None:
    """Check that a plan may run on a cluster now.

    Args:
        cluster: Trimtab's name of the cluster.
        limits: What the configuration of the cluster allows.
        now: The present moment, aware UTC.
        runs: The runs that were ever requested with the plan.
    Raises:
        UnusablePlanError: Its format, its hash or its times do not fit, or it cannot be applied.
        PlanConflictError: It was made for another cluster, or has expired.
        GuardRefusedError: The cluster is read-only, or the plan has too many steps.
        AlreadyAppliedError: Another run has it; the message names that run.
    """
    refusal = plan_refusal(
        plan,
        cluster=cluster,
        is_read_only=limits.is_read_only,
        max_steps=limits.max_steps,
        now=now,
    ) or applied_refusal(plan, (view for view in runs if is_begun(view) or not view.is_ended))
    if refusal is not None:
        error = _ERRORS.get(refusal.code, UnusablePlanError)
        raise error(refusal.sentence, hint=refusal.hint)


def check_options(options: RunOptions, limits: RunLimits) -> None:
    """Check that a run is no faster than its cluster allows.

    Raises:
        InputError: Not a positive number, or beyond its limit.
    """
    for name, value, limit in (
        ("pace_per_min", options.pace_per_min, limits.pace_per_min),
        ("max_failures", options.max_failures, limits.max_failures),
        ("max_unassigned", options.max_unassigned, limits.max_unassigned),
    ):
        if not 0 < value <= limit:
            raise InputError(
                f"{name} = {value:g} is not between 0 and {limit:g}, this cluster's limit.",
                hint=f"Use a smaller value, or raise {name} under [clusters.apply].",
            )
    if not limits.canary_s <= options.canary_s <= MAX_CANARY_S:
        raise InputError(
            f"canary_s = {options.canary_s:g} is not between {limits.canary_s:g}, this cluster's "
            f"minimum, and {MAX_CANARY_S:g} seconds.",
            hint="Omit it to use this cluster's value.",
        )
    if not 1 <= options.verify_within_s <= 600:
        raise InputError(
            f"verify_within_s = {options.verify_within_s:g} is not between 1 and 600 seconds.",
            hint="Omit it to use this cluster's value.",
        )


def reason_of(text: str) -> str:
    """Return the reason as recorded: one line without terminal control characters.

    Raises:
        InputError: There is none.
    """
    reason = one_line(text)
    if not reason:
        raise InputError(
            "A run needs a reason.", hint="Enter a reason; it is recorded in the journal."
        )
    if len(reason) > 2000:
        raise InputError(
            f"The reason has {len(reason)} characters; at most 2,000 are recorded.",
            hint="Shorten the reason.",
        )
    return reason
