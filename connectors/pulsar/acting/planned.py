"""Check that a bundle is as a step of a plan found it, before any step on it is executed."""

from __future__ import annotations

from typing import Final

from connectors.pulsar.acting.bundle_reader import BundleState
from core.actions.model import Observation, Refusal
from core.pulsar.steps.base import BundleStep
from core.units import pluralize

SPLIT_HINT: Final = "Take a fresh snapshot and plan for the new bundles."
GONE_HINT: Final = "Check whether the namespace was deleted or recreated."


def describe_loaded(before: Observation) -> str:
    """Return the sentence about the topics that a bundle had before, which none asks for now."""
    if before.topics is None:
        return "The number of topics it had loaded is unknown."
    topics = pluralize(before.topics, "loaded topic")
    if before.clients is None:
        return f"It had {topics} before."
    return f"It had {topics} with {pluralize(before.clients, 'client')} before."


def lookup_hint(bundle: str) -> str:
    """Return the hint to assign an unassigned bundle with topics: Trimtab is read-only here."""
    namespace, _, bounds = bundle.rpartition("/")
    return (
        "Check its clients. To assign it, look up one of its topics: `pulsar-admin topics list "
        f"{namespace} -b {bounds}`, then `pulsar-admin topics lookup TOPIC`."
    )


def not_as_planned(
    step: BundleStep, seen: Observation, state: BundleState | None, idle: str = ""
) -> Refusal | None:
    """Return the reason a bundle left its planned owner, or ``None``.

    Args:
        step: What was planned.
        seen: The bundle now.
        state: The same with what only the cluster's port knows.
        idle: What an unassigned bundle means for the step, one sentence.
    """
    if not seen.exists:
        is_split = state is not None and state.is_split(step.bundle)
        code = "bundle_split" if is_split else "unknown_bundle"
        return Refusal(code=code, sentence=seen.detail, hint=SPLIT_HINT)
    if seen.holder is None:
        sentence = f"{step.bundle} is unassigned; its owner in the plan was {step.owner}."
        return Refusal(
            code="not_owned",
            sentence=f"{sentence} {idle}".strip(),
            hint="The next lookup of one of its topics assigns it; then plan again.",
        )
    if seen.holder != step.owner:
        return Refusal(
            code="moved_meanwhile",
            sentence=f"{step.bundle} moved from {step.owner} to {seen.holder} since the plan "
            "was made.",
            hint="Take a fresh snapshot and plan again.",
        )
    return None
