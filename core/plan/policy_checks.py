"""What is checked before a policy is set: brokers store nearly anything, and some of it harms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from core.plan.checks import Basis
from core.plan.model import Diagnostic, DiagnosticSeverity
from core.plan.policy_impact import policy_impact
from core.plan.policy_kinds import DEFAULT_QUOTA_NAME, UNLIMITED, policy_kind
from core.plan.policy_state import policies_of, with_policies
from core.plan.steps import SetPolicy
from core.pulsar.isolation import matcher_differences, parse_isolation_policies
from core.snapshot import PulsarSnapshot
from core.units import counted

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
    yield from _check_name(basis, step)
    before = with_policies(basis.snapshot, planned)
    if step.policy in _CHECKS:
        yield from _CHECKS[step.policy](basis, before, step)


def finding(
    severity: DiagnosticSeverity, code: str, step: SetPolicy, sentence: str, hint: str = ""
) -> Diagnostic:
    """Return a diagnostic about a policy."""
    return Diagnostic(
        severity=severity, code=code, sentence=sentence, subject=step.subject, hint=hint
    )


def _check_name(basis: Basis, step: SetPolicy) -> Iterator[Diagnostic]:
    kind = policy_kind(step.policy)
    known = basis.view.namespace_index
    if kind.scope == "namespace" and step.name not in known:
        yield finding(
            "error",
            "namespace_unknown",
            step,
            f"There is no namespace {step.name!r}; brokers would make an entry for it all the "
            "same.",
            _near(step.name, list(known)),
        )
    is_bundle = kind.scope == "bundle" and step.name != DEFAULT_QUOTA_NAME
    if is_bundle and basis.view.find_bundle(step.name) < 0:
        yield finding("error", "bundle_unknown", step, f"There is no bundle {step.name!r}.")
    if kind.scope in ("cluster", "group") and not _NAME.match(step.name):
        sentence = f"{step.name!r} cannot be the name of a {kind.title}."
        yield finding("error", "policy_name", step, sentence, "Use letters, digits, . _ - = :")


def _near(name: str, known: list[str]) -> str:
    import difflib  # noqa: PLC0415  # seldom needed

    near = difflib.get_close_matches(name, known, n=_SHOWN, cutoff=0.5)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def _check_rates(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Rates: whole numbers, -1 for no limit, no more than brokers can hold."""
    del basis, before
    if step.value is None:
        return
    for field, value in json.loads(step.value).items():
        if isinstance(value, bool):
            continue
        most = _INT_MAX if field in _INTS else _LONG_MAX
        least = 1 if field == "ratePeriodInSecond" else UNLIMITED
        if not isinstance(value, int):
            sentence = f"{field} is {value!r}; it is a whole number."
            yield finding("error", "rate_value", step, sentence)
        elif not least <= value <= most:
            sentence = f"{field} is {value:,}; it goes from {least} to {most:,}."
            yield finding("error", "rate_range", step, sentence, f"{UNLIMITED} means no limit.")
        elif value == 0:
            sentence = f"{field} is 0: nothing at all would get through."
            yield finding("warning", "rate_zero", step, sentence, f"{UNLIMITED} means no limit.")


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
            f"{step.name} limits {counted(len(held), 'namespace')} ({_listed(held)}): brokers "
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
            _near(step.value, list(groups)) or "Create it first.",
        )
    yield from _check_transport(basis, step)


def _check_quota(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    del basis, before
    if step.value is None:
        return
    for field, value in json.loads(step.value).items():
        if isinstance(value, bool):
            continue
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            sentence = f"{field} is {value!r}; it is a number from 0 on."
            yield finding("error", "quota_value", step, sentence)


def _check_affinity(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    del before
    value = step.value
    if value is None:
        return
    if not value.strip() or value != value.strip() or '"' in value:
        yield finding(
            "error",
            "group_name",
            step,
            f"{value!r} cannot be an anti-affinity group: brokers take the text as it is, with "
            "quotation marks and blanks.",
        )
    if not basis.settings.flag("failureDomainsEnabled"):
        sentence = (
            "failureDomainsEnabled is false: members are kept apart by broker, not by domain."
        )
        yield finding("info", "domains_off", step, sentence)


def _check_domain(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    if step.value is None:
        return
    brokers = json.loads(step.value)["brokers"]
    if not isinstance(brokers, list) or not all(isinstance(one, str) for one in brokers):
        yield finding("error", "domain_brokers", step, "brokers is a list of broker ids.")
        return
    for other, body in policies_of(before, "failure_domain").items():
        shared = sorted(set(brokers) & set(json.loads(body).get("brokers", ())))
        if other != step.name and shared:
            sentence = f"{_listed(shared)} is in failure domain {other} already."
            yield finding("error", "domain_overlap", step, sentence, "Take it out there first.")
    strangers = [name for name in brokers if name not in basis.view.broker_index]
    if strangers:
        sentence = f"No broker {_listed(strangers)} is registered right now."
        yield finding("warning", "domain_stranger", step, sentence)


def _check_isolation(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    if step.value is not None:
        wrong = next(_wrong_in(json.loads(step.value)), "")
        if wrong:
            yield finding("error", "isolation_invalid", step, wrong)
            return
        _, problems = parse_isolation_policies(with_policies(before, [step]).policies)
        for sentence in problems:
            if f"'{step.name}'" in sentence:
                yield finding("error", "isolation_invalid", step, sentence)
                return
        yield from _check_overlap(basis, before, step)
    yield from _check_candidates(basis, before, step)


def _wrong_in(body: Mapping[str, Any]) -> Iterator[str]:
    for field in ("namespaces", "primary"):
        if not body[field]:
            yield f"{field} is empty: a policy needs at least one expression there."
    failover = body["auto_failover_policy"]
    if not isinstance(failover, dict) or failover.get("policy_type") != "min_available":
        yield "auto_failover_policy needs the type min_available."
        return
    parameters = failover.get("parameters")
    for name, most in (("min_limit", _INT_MAX), ("usage_threshold", 100)):
        text = str(parameters.get(name, "")) if isinstance(parameters, dict) else ""
        if not text.isdigit() or int(text) > most:
            yield f"{name} is {text or 'missing'}; it is a whole number from 0 to {most:,}."


def _check_overlap(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    policies, _ = parse_isolation_policies(with_policies(before, [step]).policies)
    own = next(policy for policy in policies if policy.name == step.name)
    mine = [name for name in basis.view.namespaces if own.governs(name)]
    for other in policies:
        shared = [name for name in mine if other.name != own.name and other.governs(name)]
        if shared:
            yield finding(
                "error",
                "isolation_overlap",
                step,
                f"{_listed(shared)} is matched by isolation policy {other.name} as well: only the "
                "first one that brokers come to would count.",
                "Let every namespace match one policy.",
            )
    if not mine:
        yield finding("warning", "isolation_idle", step, "No namespace matches it right now.")
    for off in matcher_differences([own], basis.view.brokers, basis.settings.release)[:_SHOWN]:
        yield finding("warning", "isolation_port", step, off.sentence)


def _check_candidates(
    basis: Basis, before: PulsarSnapshot, step: SetPolicy
) -> Iterator[Diagnostic]:
    impact = policy_impact(before, basis.settings, [step])
    stranded = [change for change in impact.changes if not change.after and change.bundles]
    if stranded:
        yield finding(
            "error",
            "isolation_no_broker",
            step,
            f"{_listed([change.namespace for change in stranded])} would be left without any "
            "broker: its topics could not be reached.",
            "Let primary or secondary match the host of a broker that runs.",
        )
    if impact.idle_brokers:
        sentence = f"{_listed(impact.idle_brokers)} may serve no namespace afterwards."
        yield finding("warning", "isolation_idle_broker", step, sentence)
    if impact.unloaded and not stranded:
        yield finding(
            "info",
            "isolation_unloads",
            step,
            f"Brokers unload {counted(len(impact.unloaded), 'bundle')} of the namespaces that it "
            f"matches at once; {counted(len(impact.misplaced), 'bundle')} must change broker.",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


_CHECKS: Final[Mapping[str, Callable[[Basis, PulsarSnapshot, SetPolicy], Iterator[Diagnostic]]]] = {
    "resource_group": _check_group,
    "namespace_resource_group": _check_attached,
    "publish_rate": _check_rates,
    "dispatch_rate": _check_rates,
    "subscription_dispatch_rate": _check_rates,
    "subscribe_rate": _check_rates,
    "resource_quota": _check_quota,
    "isolation": _check_isolation,
    "anti_affinity": _check_affinity,
    "failure_domain": _check_domain,
}
