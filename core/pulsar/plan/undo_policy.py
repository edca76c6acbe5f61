"""Undo of what a run did to policies: the former values, without external changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.actions.views import RunView
from core.ids import namespace_of
from core.plan.model import Diagnostic
from core.pulsar.plan.policy_scope import unloaded_namespaces
from core.pulsar.steps.policy import SetPolicy, policy_steps
from core.pulsar.view import LoadView


def is_policy_first(view: RunView) -> bool:
    """Return whether a run set policies before it unloaded bundles."""
    return bool(policy_steps(step.step for step in view.steps[:1]))


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
            "it again.",
            subject=bundle,
        )
        for bundle in back
        if bundle not in left
    ]
    return left, found
