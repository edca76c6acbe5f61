"""Build a plan that changes policies: what brokers would take without a word is checked here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.errors import InputError
from core.plan.model import Diagnostic, Plan
from core.plan.options import PlanOptions
from core.pulsar.plan.checks import Basis, check_cluster
from core.pulsar.plan.plan_factory import bare_plan, basis_of
from core.pulsar.plan.policy.checks import check_name, check_policy, finding
from core.pulsar.plan.policy.state import stored_policy
from core.pulsar.policy_kinds import PolicyChange, policy_kind
from core.pulsar.steps.base import policy_changes
from core.pulsar.steps.policy import SetPolicy
from core.snapshot import PulsarSnapshot


@dataclass(frozen=True)
class DesiredPolicy:
    """One policy to be set or removed.

    Attributes:
        policy: Its kind.
        name: Of the policy, or of the namespace or bundle whose it is.
        value: A JSON document, or a plain text; ``None`` if removed.
    """

    policy: str
    name: str
    value: str | None


def build_policy_plan(
    snapshot: PulsarSnapshot, desired: Sequence[DesiredPolicy], terms: PlanOptions
) -> Plan:
    """Build the plan that sets and removes policies, in the given order.

    Args:
        snapshot: The cluster.
        desired: What shall be; each is checked on top of those before it.
        terms: When, why and how long.
    Raises:
        InputError: Nothing was named, or a value that is no document of its kind.
        UnknownNameError: A kind that there is not, or a field that its documents have not.
    """
    if not desired:
        raise InputError("No policy is specified.", hint="Specify a kind, a name and a value.")
    basis = basis_of(snapshot, terms)
    found = list(check_cluster(basis))
    steps: list[SetPolicy] = []
    for wanted in desired:
        step = _step(snapshot, wanted, terms.reason)
        about = list(_about(basis, step.policy_change, policy_changes(steps)))
        found += about
        if not any(item.severity == "error" or item.code == "already_set" for item in about):
            steps.append(step)
    return bare_plan(basis, terms, steps, found, is_complete=len(steps) == len(desired))


def _step(snapshot: PulsarSnapshot, wanted: DesiredPolicy, reason: str) -> SetPolicy:
    kind = policy_kind(wanted.policy)
    if wanted.value is not None:
        kind.check_fields(wanted.value)
    return SetPolicy(
        policy=wanted.policy,
        name=wanted.name.strip(),
        before=stored_policy(snapshot, wanted.policy, wanted.name.strip()),
        value=None if wanted.value is None else kind.canonical(wanted.value),
        cluster=snapshot.manifest.pulsar_cluster or "",
        reason=reason,
    )


def _about(
    basis: Basis, change: PolicyChange, planned: Sequence[PolicyChange]
) -> Iterator[Diagnostic]:
    kind = policy_kind(change.policy)
    if kind.scope == "cluster" and not change.cluster:
        yield finding(
            "error",
            "cluster_unknown",
            change,
            "The cluster's own name, part of the policy's address, is unknown.",
            "Set pulsar_cluster in the configuration.",
        )
    if kind.is_same(change.before, change.value):
        yield from check_name(basis, change)
        yield finding("warning", "already_set", change, _already(change))
        return
    yield from check_policy(basis, change, planned)


def _already(change: PolicyChange) -> str:
    if change.value is None:
        return f"The {change.subject} does not exist: nothing to remove."
    return f"The {change.subject} already has this value."
