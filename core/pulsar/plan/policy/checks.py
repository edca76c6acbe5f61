"""What is checked before a policy is set: brokers store nearly anything, and some of it harms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from core.ids import host_of, is_broker_bound, path_fault
from core.plan.model import Diagnostic, DiagnosticSeverity
from core.pulsar.isolation import (
    UNREADABLE,
    IsolationPolicy,
    failure_domains,
    matcher_differences,
    matcher_of,
    parse_isolation_policies,
)
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.policy.impact import policy_impact
from core.pulsar.plan.policy.state import policies_of, with_policies
from core.pulsar.plan.policy.unload_scope import SCOPES, has_scope
from core.pulsar.policy_kinds import DEFAULT_QUOTA_NAME, UNLIMITED, PolicyChange, policy_kind
from core.snapshot import PulsarSnapshot
from core.units import is_whole, pluralize

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
    basis: Basis, change: PolicyChange, planned: Sequence[PolicyChange] = ()
) -> Iterator[Diagnostic]:
    """Check that a policy can be set, and does no harm.

    Args:
        basis: The cluster.
        change: The policy to set or remove.
        planned: What is set before it.
    """
    yield from check_name(basis, change)
    before = with_policies(basis.snapshot, planned)
    if change.policy in _CHECKS:
        yield from _CHECKS[change.policy](basis, before, change)


def check_name(basis: Basis, change: PolicyChange) -> Iterator[Diagnostic]:
    """Refuse a namespace or bundle that there is not, and a name that cannot be one."""
    kind = policy_kind(change.policy)
    known = basis.view.namespace_index
    if kind.scope == "namespace" and change.name not in known:
        yield finding(
            "error",
            "namespace_unknown",
            change,
            f"Namespace {change.name!r} does not exist; brokers would create an "
            "entry for it anyway.",
            _near(change.name, list(known)),
        )
    elif change.value is not None and change.policy in _LIMITS and is_system(change.name):
        yield finding(
            "error",
            "namespace_system",
            change,
            f"{change.name} is a system namespace: a limit there would delay topic "
            "policies, transactions or heartbeats.",
            "Limit the namespaces of tenants.",
        )
    is_bundle = kind.scope == "bundle" and change.name != DEFAULT_QUOTA_NAME
    if is_bundle and basis.view.find_bundle(change.name) < 0:
        yield finding("error", "bundle_unknown", change, f"There is no bundle {change.name!r}.")
    if kind.scope in ("cluster", "group") and not _NAME.match(change.name):
        sentence = f"{change.name!r} is not a valid name of a {kind.title}."
        yield finding("error", "policy_name", change, sentence, "Use letters, digits, . _ - = :")
    elif (change.cluster or kind.scope != "cluster") and (
        fault := path_fault(f"/admin/v2/{change.path}")
    ):
        sentence = f"The {change.subject} cannot be part of a request: {fault}."
        yield finding("error", "policy_path", change, sentence, "Choose another name.")


def is_system(namespace: str) -> bool:
    """Return whether a namespace is internal: system topics, heartbeats, SLA monitoring.

    Source:
        Pulsar ``NamespaceService#isSystemServiceNamespace``.
    """
    return namespace == _SYSTEM_NAMESPACE or is_broker_bound(namespace)


def _check_rates(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Rates: whole numbers, -1 for no limit, no more than brokers can hold."""
    del basis, before
    if change.value is None:
        return
    yield from _check_switches(change)
    for field, value in _numbers(change):
        limit = _INT_MAX if field in _INTS else _LONG_MAX
        least = 1 if field == "ratePeriodInSecond" else UNLIMITED
        if not isinstance(value, int) or isinstance(value, bool):
            sentence = f"{field} of the {change.subject} is {value!r}; it must be a whole number."
            yield finding("error", "rate_value", change, sentence)
        elif not least <= value <= limit:
            sentence = (
                f"{field} of the {change.subject} is {value:,}; the range is {least} to {limit:,}."
            )
            yield finding("error", "rate_range", change, sentence, f"{UNLIMITED} means no limit.")
        elif value == 0:
            yield _zero(change, field)


def _numbers(change: PolicyChange) -> Iterator[tuple[str, Any]]:
    """Give the fields of a document that its kind has as numbers."""
    fields = policy_kind(change.policy).fields
    for field, value in json.loads(change.value or "{}").items():
        if not isinstance(fields.get(field), bool):
            yield field, value


def _check_switches(change: PolicyChange) -> Iterator[Diagnostic]:
    """Refuse what is neither true nor false in a field that is a switch."""
    fields = policy_kind(change.policy).fields
    for field, value in json.loads(change.value or "{}").items():
        if isinstance(fields.get(field), bool) and not isinstance(value, bool):
            sentence = f"{field} of the {change.subject} is {value!r}; it must be true or false."
            yield finding("error", "switch_value", change, sentence)


def _zero(change: PolicyChange, field: str) -> Diagnostic:
    """0 stops nothing: brokers limit by positive rates only.

    Source:
        Pulsar ``PublishRateLimiterImpl#updateTokenBuckets``; for groups
        ``ResourceGroupPublishLimiter`` and ``ResourceQuotaCalculatorImpl#computeLocalQuota``.
    """
    sentence = f"{field} of the {change.subject} is 0, which brokers treat as no limit."
    if change.policy == "resource_group":
        sentence = (
            f"{field} of the {change.subject} is 0: no limit while brokers exchange "
            "no usage, then 1/s for every broker."
        )
    return finding("warning", "rate_zero", change, sentence, f"{UNLIMITED} means no limit.")


def _check_group(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    yield from _check_rates(basis, before, change)
    if change.value is not None:
        yield from _check_transport(basis, change)
        return
    held = [
        name
        for name, group in policies_of(before, "namespace_resource_group").items()
        if group == change.name
    ]
    if held:
        yield finding(
            "error",
            "group_in_use",
            change,
            f"{change.name} limits {pluralize(len(held), 'namespace')} ({_listed(held)}): brokers "
            "would refuse to delete it.",
            "Detach it from them first.",
        )


def _check_transport(basis: Basis, change: PolicyChange) -> Iterator[Diagnostic]:
    if basis.settings.text(_TRANSPORT):
        return
    yield finding(
        "warning",
        "limits_not_enforced",
        change,
        f"{_TRANSPORT} is empty: brokers do not exchange usage, and the limits of resource groups "
        "have no effect.",
        "Set it in broker.conf to the class ResourceUsageTopicTransportManager and restart.",
    )


def _check_attached(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    if change.value is None:
        return
    groups = policies_of(before, "resource_group")
    if change.value not in groups:
        yield finding(
            "error",
            "group_unknown",
            change,
            f"There is no resource group {change.value!r}.",
            _near(change.value, list(groups)) or "Create it first.",
        )
    yield from _check_transport(basis, change)


def _check_quota(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    del basis, before
    if change.value is None:
        return
    yield from _check_switches(change)
    for field, value in _numbers(change):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= _LONG_MAX:
            sentence = (
                f"{field} of the {change.subject} is {value!r}; it must be a number "
                f"from 0 to {_LONG_MAX:,}."
            )
            yield finding("error", "quota_value", change, sentence)


def _check_affinity(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Check the anti-affinity group of a namespace."""
    del before
    value = change.value
    if value is None:
        return
    if not value.strip() or value != value.strip() or '"' in value:
        yield finding(
            "error",
            "group_name",
            change,
            f"{value!r} is not a valid anti-affinity group: brokers use the text "
            "literally, including quotation marks and blanks.",
        )
    if not basis.settings.flag("failureDomainsEnabled"):
        sentence = "failureDomainsEnabled is false: members are separated by broker, not by domain."
        yield finding("info", "domains_off", change, sentence)


def _check_domain(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Check a failure domain: its brokers are there, and in no other one."""
    if change.value is None:
        return
    brokers = json.loads(change.value)["brokers"]
    if not isinstance(brokers, list | tuple) or not all(isinstance(one, str) for one in brokers):
        yield finding("error", "domain_brokers", change, "brokers must be a list of broker ids.")
        return
    domains = failure_domains(before.policies)
    for other, held in domains.items():
        shared = sorted(set(brokers) & set(held))
        if other != change.name and shared:
            sentence = f"{_listed(shared)} is already in failure domain {other}."
            yield finding(
                "error", "domain_overlap", change, sentence, "Remove it from that domain first."
            )
    yield from _check_strangers(basis, change, brokers, domains.get(change.name, ()))


def _check_strangers(
    basis: Basis, change: PolicyChange, brokers: Sequence[str], held: Sequence[str]
) -> Iterator[Diagnostic]:
    """Refuse unknown brokers; those that are in the domain already may be down."""
    known = basis.view.broker_index
    strangers = [name for name in brokers if name not in known and name not in held]
    if strangers:
        yield finding(
            "error",
            "domain_stranger",
            change,
            f"No broker {_listed(strangers)} is registered: a domain needs broker "
            "ids as host:port.",
            _near(strangers[0], list(known)) or "Start it first, or omit it.",
        )
    absent = [name for name in brokers if name not in known and name in held]
    if absent:
        sentence = f"{_listed(absent)} is not registered now."
        yield finding("warning", "domain_absent", change, sentence)


def _check_isolation(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Check an isolation policy, or that it may go: who would be left without a broker."""
    if change.value is not None:
        wrong = next(_wrong_in(json.loads(change.value)), "")
        if wrong:
            yield finding("error", "isolation_invalid", change, wrong)
            return
        yield from _check_scope(basis, change)
        yield from _check_overlap(basis, before, change)
    found = list(_check_candidates(basis, before, change))
    yield from found
    if not any(item.severity == "error" for item in found):
        yield from _check_brokers(basis, before, change)


def _check_brokers(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Refuse a policy that names unknown brokers."""
    own = next((one for one in _after_policies(before, change) if one.name == change.name), None)
    if own is None or any(own.role_of(host_of(one)) != "none" for one in basis.view.brokers):
        return
    yield finding(
        "error",
        "isolation_unknown_broker",
        change,
        f"Neither primary ({_listed(own.primary)}) nor secondary matches an active broker.",
        "Expressions are compared with the host of a broker, without its port.",
    )


def _check_scope(basis: Basis, change: PolicyChange) -> Iterator[Diagnostic]:
    scope = json.loads(change.value or "{}").get("unload_scope")
    if scope is None:
        return
    if scope not in SCOPES:
        sentence = f"unload_scope is {scope!r}; it must be one of {', '.join(SCOPES)}."
        yield finding("error", "isolation_scope", change, sentence)
    elif not has_scope(basis.view):
        yield finding(
            "error",
            "isolation_scope",
            change,
            "Brokers before 4.0 ignore unload_scope: they unload all bundles that "
            "the policy matches.",
            "Omit it.",
        )


def _wrong_in(body: Mapping[str, Any]) -> Iterator[str]:
    for field in ("namespaces", "primary"):
        if not body[field]:
            yield f"{field} is empty: a policy needs at least one expression there."
    for field in ("namespaces", "primary", "secondary"):
        yield from _wrong_expressions(field, body[field])
    failover = body["auto_failover_policy"]
    if not isinstance(failover, dict) or failover.get("policy_type") != "min_available":
        yield (
            "auto_failover_policy must have the type min_available, for example "
            '{"policy_type": "min_available", '
            '"parameters": {"min_limit": "1", "usage_threshold": "80"}}.'
        )
        return
    parameters = failover.get("parameters")
    for name, limit in (("min_limit", _INT_MAX), ("usage_threshold", 100)):
        text = str(parameters.get(name, "")) if isinstance(parameters, dict) else ""
        if not is_whole(text) or int(text) > limit:
            yield f"{name} is {text or 'missing'}; it must be a whole number from 0 to {limit:,}."


def _wrong_expressions(field: str, expressions: object) -> Iterator[str]:
    if not isinstance(expressions, list | tuple):
        yield f"{field} must be a list of regular expressions, not {expressions!r}."
        return
    for expression in expressions:
        try:
            matcher_of([expression])
        except UNREADABLE as exc:
            yield f"An expression of {field} cannot be evaluated: {exc}."


def _check_overlap(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    policies = _after_policies(before, change)
    own = next(policy for policy in policies if policy.name == change.name)
    mine = [name for name in basis.view.namespaces if own.governs(name)]
    for other in policies:
        shared = [name for name in mine if other.name != own.name and other.governs(name)]
        if shared:
            yield finding(
                "error",
                "isolation_overlap",
                change,
                f"{_listed(shared)} is also matched by isolation policy {other.name}: "
                "only the first policy that brokers read applies.",
                "Let every namespace match one policy.",
            )
    if not mine:
        yield finding("warning", "isolation_idle", change, "No namespace matches it now.")
    yield from _check_matchers(basis, own, change)


def _check_matchers(
    basis: Basis, own: IsolationPolicy, change: PolicyChange
) -> Iterator[Diagnostic]:
    """Name brokers that only the REST view matches; what placement takes is all right."""
    differences = matcher_differences([own], basis.view.brokers, basis.settings.release)
    for off in [one for one in differences if one.placement_role == "none"][:_SHOWN]:
        yield finding("warning", "isolation_port", change, off.sentence)
    hidden = sum(one.placement_role != "none" for one in differences)
    if hidden:
        yield finding(
            "info",
            "isolation_view",
            change,
            f"It matches {pluralize(hidden, 'broker')} by host, as intended; "
            "pulsar-admin's list of brokers with policies compares host:port and "
            "omits it.",
        )


def _check_candidates(
    basis: Basis, before: PulsarSnapshot, change: PolicyChange
) -> Iterator[Diagnostic]:
    impact = policy_impact(before, basis.settings, [change])
    stranded = [one for one in impact.changes if not one.after and one.bundles]
    if stranded:
        yield finding(
            "error",
            "isolation_no_broker",
            change,
            f"{_listed([one.namespace for one in stranded])} would have no eligible "
            "broker: its topics would be unreachable.",
            "Let primary or secondary match the host of an active broker.",
        )
    if impact.idle_brokers:
        sentence = f"{_listed(impact.idle_brokers)} could serve no namespace afterwards."
        yield finding("warning", "isolation_idle_broker", change, sentence)
    for name in impact.short:
        policy = next(one for one in _after_policies(before, change) if one.name == name)
        yield finding(
            "warning",
            "isolation_short",
            change,
            f"Fewer brokers than min_limit {policy.min_limit} would be primary in "
            f"isolation policy {name}: its secondaries are used as well.",
        )
    if impact.unloaded and not stranded:
        yield finding(
            "info",
            "isolation_unloads",
            change,
            f"Brokers unload {pluralize(len(impact.unloaded), 'bundle')} as soon as "
            "it is set, in arbitrary order; "
            f"{pluralize(len(impact.misplaced), 'bundle')} must change broker.",
        )
    if impact.astray and not stranded:
        yield finding(
            "info",
            "isolation_astray",
            change,
            f"{pluralize(len(impact.astray), 'bundle')} would be on brokers that "
            "the policy excludes, without an unload: they stay until they are "
            "unloaded.",
            "Unload them with the change.",
        )


def _after_policies(before: PulsarSnapshot, change: PolicyChange) -> tuple[IsolationPolicy, ...]:
    """Return the isolation policies as a change leaves them, in stored order."""
    return parse_isolation_policies(with_policies(before, [change]).policies)[0]


def finding(
    severity: DiagnosticSeverity, code: str, change: PolicyChange, sentence: str, hint: str = ""
) -> Diagnostic:
    """Return a diagnostic about a policy."""
    return Diagnostic(
        severity=severity, code=code, sentence=sentence, subject=change.subject, hint=hint
    )


def _near(name: str, known: list[str]) -> str:
    """Return a hint that offers known names like this one; blank: there is none."""
    import difflib  # noqa: PLC0415  # seldom needed

    close = difflib.get_close_matches(name, known, n=_SHOWN, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


_CHECKS: Final[
    Mapping[str, Callable[[Basis, PulsarSnapshot, PolicyChange], Iterator[Diagnostic]]]
] = {
    "resource_group": _check_group,
    "namespace_resource_group": _check_attached,
    "publish_rate": _check_rates,
    "dispatch_rate": _check_rates,
    "subscription_dispatch_rate": _check_rates,
    "replicator_dispatch_rate": _check_rates,
    "subscribe_rate": _check_rates,
    "resource_quota": _check_quota,
    "isolation": _check_isolation,
    "anti_affinity": _check_affinity,
    "failure_domain": _check_domain,
}
