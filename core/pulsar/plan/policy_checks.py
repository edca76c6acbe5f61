"""What is checked before a policy is set: brokers store nearly anything, and some of it harms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from core.ids import is_broker_bound, path_fault
from core.plan.model import Diagnostic
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.isolation_checks import check_affinity, check_domain, check_isolation
from core.pulsar.plan.policy_finding import finding, listed, near
from core.pulsar.plan.policy_state import policies_of, with_policies
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, UNLIMITED, policy_kind
from core.pulsar.steps.policy import SetPolicy
from core.snapshot import PulsarSnapshot
from core.units import pluralize

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_INTS: Final = frozenset(
    {
        "publishRateInMsgs",
        "dispatchRateInMsgs",
        "publishThrottlingRateInMsg",
        "dispatchThrottlingRateInMsg",
        "subscribeThrottlingRatePerConsumer",
        "ratePeriodInSecond",
    }
)
_LIMITS: Final = frozenset(
    {
        "namespace_resource_group",
        "publish_rate",
        "dispatch_rate",
        "subscription_dispatch_rate",
        "replicator_dispatch_rate",
        "subscribe_rate",
    }
)
_SYSTEM_NAMESPACE: Final = "pulsar/system"
_NAME: Final = re.compile(r"[\w.=:-]+\Z")
_TRANSPORT: Final = "resourceUsageTransportClassName"
_SHOWN: Final = 3


def check_policy(
    basis: Basis, step: SetPolicy, planned: Sequence[SetPolicy] = ()
) -> Iterator[Diagnostic]:
    """Check that a policy can be set, and does no harm.

    Args:
        basis: The cluster.
        step: What is to be set.
        planned: What is set before it.
    """
    yield from check_name(basis, step)
    before = with_policies(basis.snapshot, planned)
    if step.policy in _CHECKS:
        yield from _CHECKS[step.policy](basis, before, step)


def check_name(basis: Basis, step: SetPolicy) -> Iterator[Diagnostic]:
    """Refuse a namespace or bundle that there is not, and a name that cannot be one."""
    kind = policy_kind(step.policy)
    known = basis.view.namespace_index
    if kind.scope == "namespace" and step.name not in known:
        yield finding(
            "error",
            "namespace_unknown",
            step,
            f"There is no namespace {step.name!r}; brokers would make an entry for it all the "
            "same.",
            near(step.name, list(known)),
        )
    elif step.value is not None and step.policy in _LIMITS and is_system(step.name):
        yield finding(
            "error",
            "namespace_system",
            step,
            f"{step.name} is a namespace of the brokers themselves: a limit there would hold up "
            "topic policies, transactions or heartbeats.",
            "Limit the namespaces of tenants.",
        )
    is_bundle = kind.scope == "bundle" and step.name != DEFAULT_QUOTA_NAME
    if is_bundle and basis.view.find_bundle(step.name) < 0:
        yield finding("error", "bundle_unknown", step, f"There is no bundle {step.name!r}.")
    if kind.scope in ("cluster", "group") and not _NAME.match(step.name):
        sentence = f"{step.name!r} cannot be the name of a {kind.title}."
        yield finding("error", "policy_name", step, sentence, "Use letters, digits, . _ - = :")
    elif (step.cluster or kind.scope != "cluster") and (
        fault := path_fault(f"/admin/v2/{step.request().path}")
    ):
        sentence = f"The {step.subject} cannot be part of a request: {fault}."
        yield finding("error", "policy_path", step, sentence, "Choose another name.")


def is_system(namespace: str) -> bool:
    """Return whether a namespace is the brokers' own: system topics, heartbeats, SLA monitoring.

    Source:
        Pulsar ``NamespaceService#isSystemServiceNamespace``.
    """
    return namespace == _SYSTEM_NAMESPACE or is_broker_bound(namespace)


def _check_rates(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Rates: whole numbers, -1 for no limit, no more than brokers can hold."""
    del basis, before
    if step.value is None:
        return
    yield from _check_switches(step)
    for field, value in _numbers(step):
        most = _INT_MAX if field in _INTS else _LONG_MAX
        least = 1 if field == "ratePeriodInSecond" else UNLIMITED
        if not isinstance(value, int) or isinstance(value, bool):
            sentence = f"{field} of the {step.subject} is {value!r}; it must be a whole number."
            yield finding("error", "rate_value", step, sentence)
        elif not least <= value <= most:
            sentence = (
                f"{field} of the {step.subject} is {value:,}; it goes from {least} to {most:,}."
            )
            yield finding("error", "rate_range", step, sentence, f"{UNLIMITED} means no limit.")
        elif value == 0:
            yield _zero(step, field)


def _numbers(step: SetPolicy) -> Iterator[tuple[str, Any]]:
    """Give the fields of a document that its kind has as numbers."""
    fields = policy_kind(step.policy).fields
    for field, value in json.loads(step.value or "{}").items():
        if not isinstance(fields.get(field), bool):
            yield field, value


def _check_switches(step: SetPolicy) -> Iterator[Diagnostic]:
    """Refuse what is neither true nor false in a field that is a switch."""
    fields = policy_kind(step.policy).fields
    for field, value in json.loads(step.value or "{}").items():
        if isinstance(fields.get(field), bool) and not isinstance(value, bool):
            sentence = f"{field} of the {step.subject} is {value!r}; it is true or false."
            yield finding("error", "switch_value", step, sentence)


def _zero(step: SetPolicy, field: str) -> Diagnostic:
    """0 stops nothing: brokers limit by positive rates only.

    Source:
        Pulsar ``PublishRateLimiterImpl#updateTokenBuckets``; for groups
        ``ResourceGroupPublishLimiter`` and ``ResourceQuotaCalculatorImpl#computeLocalQuota``.
    """
    sentence = f"{field} of the {step.subject} is 0, which brokers take for no limit."
    if step.policy == "resource_group":
        sentence = (
            f"{field} of the {step.subject} is 0: no limit as long as brokers exchange no usage, "
            "then 1 a second for every broker."
        )
    return finding("warning", "rate_zero", step, sentence, f"{UNLIMITED} means no limit.")


def _check_group(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    yield from _check_rates(basis, before, step)
    if step.value is not None:
        yield from _check_transport(basis, step)
        return
    held = [
        name
        for name, group in policies_of(before, "namespace_resource_group").items()
        if group == step.name
    ]
    if held:
        yield finding(
            "error",
            "group_in_use",
            step,
            f"{step.name} limits {pluralize(len(held), 'namespace')} ({listed(held)}): brokers "
            "would refuse to delete it.",
            "Detach it from them first.",
        )


def _check_transport(basis: Basis, step: SetPolicy) -> Iterator[Diagnostic]:
    if basis.settings.text(_TRANSPORT):
        return
    yield finding(
        "warning",
        "limits_not_enforced",
        step,
        f"{_TRANSPORT} is empty: brokers do not exchange usage, and the limits of resource groups "
        "have no effect.",
        "Set it in broker.conf to the class ResourceUsageTopicTransportManager and restart.",
    )


def _check_attached(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    if step.value is None:
        return
    groups = policies_of(before, "resource_group")
    if step.value not in groups:
        yield finding(
            "error",
            "group_unknown",
            step,
            f"There is no resource group {step.value!r}.",
            near(step.value, list(groups)) or "Create it first.",
        )
    yield from _check_transport(basis, step)


def _check_quota(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    del basis, before
    if step.value is None:
        return
    yield from _check_switches(step)
    for field, value in _numbers(step):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _LONG_MAX:
            sentence = (
                f"{field} of the {step.subject} is {value!r}; it is a number from 0 to "
                f"{_LONG_MAX:,}."
            )
            yield finding("error", "quota_value", step, sentence)


_CHECKS: Final[Mapping[str, Callable[[Basis, PulsarSnapshot, SetPolicy], Iterator[Diagnostic]]]] = {
    "resource_group": _check_group,
    "namespace_resource_group": _check_attached,
    "publish_rate": _check_rates,
    "dispatch_rate": _check_rates,
    "subscription_dispatch_rate": _check_rates,
    "replicator_dispatch_rate": _check_rates,
    "subscribe_rate": _check_rates,
    "resource_quota": _check_quota,
    "isolation": check_isolation,
    "anti_affinity": check_affinity,
    "failure_domain": check_domain,
}
