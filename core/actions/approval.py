"""Whether a run needs a second person, and whether that person has agreed.

The rules are the configuration's as of now: the worker asks them again before it claims a run. A
plan that waits may outlive its own expiry: every step is checked again on a fresh snapshot anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from core.access import Identity, Role, is_same_person
from core.actions.model import Refusal
from core.actions.views import Decision, RunView
from core.errors import ForbiddenError, PlanConflictError
from core.plan.model import Plan
from core.units import pluralize

Needed = Literal["never", "large", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """When runs on a cluster need the approval of another person.

    Attributes:
        needed: ``never``; ``large``: for plans beyond the limits below, and for those that change
            lasting settings or policies; ``always``.
        max_steps: Steps of a plan that is not large.
        max_clients: Producers and consumers that may reconnect by one; unknown counts as more.
        within_min: Minutes from the request in which it must be given, and from then on in which
            the run must begin.
        role: That the person needs who approves.
    """

    needed: Needed = "never"
    max_steps: int = 20
    max_clients: int = 1_000
    within_min: float = 60.0
    role: Role = "operator"

    def why_needed(self, plan: Plan) -> str:
        """Return the reason a plan needs approval, as a clause, or ""."""
        if self.needed == "large":
            return self._why_large(plan)
        return "every run on this cluster needs approval" if self.needed == "always" else ""

    def _why_large(self, plan: Plan) -> str:
        if any(step.role == "admin" for step in plan.steps):
            return "it changes a permanent setting or policy"
        if len(plan.steps) > self.max_steps:
            return f"it has {pluralize(len(plan.steps), 'step')}, more than {self.max_steps}"
        clients = plan.expected.clients
        if clients is None:
            # of systems whose clients do not reconnect there is nothing to count
            return "" if plan.expected.nodes else "the number of clients that reconnect is unknown"
        if clients > self.max_clients:
            return f"{clients:,} clients reconnect, more than {self.max_clients:,}"
        return ""

    def until(self, view: RunView) -> datetime:
        """Return until when a run may be approved, aware UTC."""
        return view.requested_at + timedelta(minutes=self.within_min)

    def begins_by(self, decision: Decision) -> datetime:
        """Return by when an approved run must begin, aware UTC."""
        return decision.decided_at + timedelta(minutes=self.within_min)


NO_APPROVAL: Final = ApprovalRules()


def waits_for_approval(view: RunView, rules: ApprovalRules, now: datetime) -> bool:
    """Return whether a run is on hold because a person may still approve it."""
    return (
        not view.worker
        and not view.is_ended
        and view.decision is None
        and not (view.control is not None and view.control.control == "stop")
        and bool(rules.why_needed(view.plan))
        and now < rules.until(view)
    )


def describe_approval(view: RunView, rules: ApprovalRules) -> str:
    """Return the sentence about an approved run that no worker has started, or ""."""
    decision = view.decision
    if decision is None or not decision.is_approved or view.worker or view.is_ended:
        return ""
    by = f"{rules.begins_by(decision):%Y-%m-%d %H:%M} UTC"
    return (
        f"{decision.decided_by} approved the run. The approval expires if no worker starts it by "
        f"{by}."
    )


def approval_refusal(view: RunView, rules: ApprovalRules, now: datetime) -> Refusal | None:
    """Return the refusal of a run whose approval is missing or expired, or ``None``."""
    why = rules.why_needed(view.plan)
    decision = view.decision
    if decision is not None and not decision.is_approved:
        comment = f": {decision.comment}" if decision.comment else ""
        return Refusal(
            code="rejected",
            sentence=f"{decision.decided_by} rejected the run{comment}.",
            hint="Change the plan and request a new run.",
        )
    if not why:
        return None
    if decision is not None:
        return _outdated(decision, rules, now)
    return Refusal(
        code="not_approved",
        sentence=f"The run was not approved by {rules.until(view):%H:%M} UTC, and {why}.",
        hint="Create a new plan and ask another person to approve it.",
    )


def _outdated(decision: Decision, rules: ApprovalRules, now: datetime) -> Refusal | None:
    """Return the refusal of an expired approval: a late worker start must not execute it."""
    if now < rules.begins_by(decision):
        return None
    return Refusal(
        code="approval_expired",
        sentence=f"{decision.decided_by} approved the run at "
        f"{decision.decided_at:%Y-%m-%d %H:%M} UTC; an approval is valid for "
        f"{rules.within_min:g} minutes, and no worker started the run in time.",
        hint="Check that a worker runs, create a new plan and request approval again.",
    )


def check_decision(view: RunView, rules: ApprovalRules, person: Identity, now: datetime) -> None:
    """Check that a person may decide on a run now; the role is checked elsewhere.

    Raises:
        PlanConflictError: It is decided, has begun, has ended, or needs no approval.
        ForbiddenError: The person requested it.
    """
    if view.decision is not None:
        done = "approved" if view.decision.is_approved else "rejected"
        raise PlanConflictError(f"{view.decision.decided_by} already {done} run {view.run_id}.")
    if not waits_for_approval(view, rules, now):
        raise PlanConflictError(
            f"Run {view.run_id} is {view.state} and needs no approval.",
            hint="Open the run to see its result.",
        )
    if is_same_person(person, view.requester):
        raise ForbiddenError(
            f"{person.name} requested run {view.run_id} and cannot approve or reject it.",
            hint="Ask another person to review it.",
        )
