"""Taking back what a run did to policies: what was there before, unless somebody changed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.actions.undo_setting import not_undone
from core.actions.views import RunView, StepView
from core.ids import namespace_of
from core.plan.checks import Basis
from core.plan.model import Diagnostic
from core.plan.policy import PolicyWish
from core.plan.policy_kinds import policy_kind
from core.plan.policy_scope import unloaded_namespaces
from core.plan.policy_state import stored_policy
from core.plan.steps import SetPolicy
from core.plan.words import NOT_THERE
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot


def wish_back(step: StepView) -> PolicyWish | None:
    """Return what brings a policy back; ``None``: it was not changed."""
    asked = step.step
    if not isinstance(asked, SetPolicy) or step.state != "DONE" or step.before is None:
        return None
    return PolicyWish(asked.policy, asked.name, step.before.value)


def is_policy_first(view: RunView) -> bool:
    """Return whether a run set policies before it unloaded bundles."""
    kinds = [isinstance(step.step, SetPolicy) for step in view.steps]
    return bool(kinds) and kinds[0]


def steps_back(snapshot: PulsarSnapshot, wishes: Sequence[PolicyWish]) -> list[SetPolicy]:
    """Return the steps that bring policies back, for looking at what they do."""
    return [
        SetPolicy(
            policy=wish.policy,
            name=wish.name,
            before=stored_policy(snapshot, wish.policy, wish.name),
            value=wish.value,
        )
        for wish in wishes
    ]


def left_to_brokers(
    view: LoadView, steps: Sequence[SetPolicy], back: Mapping[str, str]
) -> tuple[dict[str, str], list[Diagnostic]]:
    """Leave out bundles that brokers unload by themselves when the policies go back.

    Args:
        view: The cluster now.
        steps: That bring the policies back.
        back: Bundle to the broker it came from.
    Returns:
        The others, and what is said of those left out.
    """
    placed = set(unloaded_namespaces(view, steps))
    left = {bundle: origin for bundle, origin in back.items() if namespace_of(bundle) not in placed}
    found = [
        Diagnostic(
            severity="info",
            code="undo_by_brokers",
            sentence=f"Brokers unload {bundle} by themselves when the policy goes back, and place "
            "it anew.",
            subject=bundle,
        )
        for bundle in back
        if bundle not in left
    ]
    return left, found


def policy_hindrance(basis: Basis, step: StepView) -> Diagnostic | None:
    """Return why a policy is not put back; nothing for one that never was changed."""
    asked = step.step
    if not isinstance(asked, SetPolicy):
        return None
    if step.state == "UNKNOWN":
        return not_undone(
            step,
            "undo_unknown",
            f"Whether the {asked.subject} was changed is unknown: it is left as it is.",
            "Look at it, and set it by hand if need be.",
        )
    wish = wish_back(step)
    if wish is None:
        return None
    kind = policy_kind(asked.policy)
    held = stored_policy(basis.snapshot, asked.policy, asked.name)
    if kind.is_same(held, wish.value):
        return Diagnostic(
            severity="info",
            code="undo_not_needed",
            sentence=f"The {asked.subject} is {held or NOT_THERE} already, as it was.",
            subject=asked.subject,
        )
    if kind.is_same(held, asked.value):
        return None
    return not_undone(
        step,
        "undo_changed_since",
        f"The {asked.subject} is {held or NOT_THERE} now; the run left it at "
        f"{asked.value or NOT_THERE}: somebody changed it since.",
        "Ask who did, and set it by hand if it still has to go back.",
    )
