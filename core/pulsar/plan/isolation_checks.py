"""What is checked before isolation, anti-affinity or failure domains change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from core.ids import host_of
from core.plan.model import Diagnostic
from core.pulsar.isolation import (
    UNREADABLE,
    IsolationPolicy,
    failure_domains,
    matcher_differences,
    matcher_of,
    parse_isolation_policies,
)
from core.pulsar.plan.checks import Basis
from core.pulsar.plan.policy_finding import SHOWN, finding, listed, near
from core.pulsar.plan.policy_impact import policy_impact
from core.pulsar.plan.policy_scope import SCOPES, has_scope
from core.pulsar.plan.policy_state import with_policies
from core.pulsar.steps.policy import SetPolicy
from core.snapshot import PulsarSnapshot
from core.units import pluralize

_INT_MAX: Final = 2**31 - 1


def check_affinity(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Check the anti-affinity group of a namespace."""
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
        sentence = "failureDomainsEnabled is false: members are separated by broker, not by domain."
        yield finding("info", "domains_off", step, sentence)


def check_domain(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Check a failure domain: its brokers are there, and in no other one."""
    if step.value is None:
        return
    brokers = json.loads(step.value)["brokers"]
    if not isinstance(brokers, list | tuple) or not all(isinstance(one, str) for one in brokers):
        yield finding("error", "domain_brokers", step, "brokers is a list of broker ids.")
        return
    domains = failure_domains(before.policies)
    for other, held in domains.items():
        shared = sorted(set(brokers) & set(held))
        if other != step.name and shared:
            sentence = f"{listed(shared)} is in failure domain {other} already."
            yield finding("error", "domain_overlap", step, sentence, "Take it out there first.")
    yield from _check_strangers(basis, step, brokers, domains.get(step.name, ()))


def _check_strangers(
    basis: Basis, step: SetPolicy, brokers: Sequence[str], held: Sequence[str]
) -> Iterator[Diagnostic]:
    """Refuse unknown brokers; those that are in the domain already may be down."""
    known = basis.view.broker_index
    strangers = [name for name in brokers if name not in known and name not in held]
    if strangers:
        yield finding(
            "error",
            "domain_stranger",
            step,
            f"No broker {listed(strangers)} is registered: a domain takes host:port as brokers "
            "call themselves.",
            near(strangers[0], list(known)) or "Start it first, or leave it out.",
        )
    absent = [name for name in brokers if name not in known and name in held]
    if absent:
        sentence = f"{listed(absent)} of it is not registered right now."
        yield finding("warning", "domain_absent", step, sentence)


def check_isolation(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Check an isolation policy, or that it may go: who would be left without a broker."""
    if step.value is not None:
        wrong = next(_wrong_in(json.loads(step.value)), "")
        if wrong:
            yield finding("error", "isolation_invalid", step, wrong)
            return
        yield from _check_scope(basis, step)
        yield from _check_overlap(basis, before, step)
    found = list(_check_candidates(basis, before, step))
    yield from found
    if not any(item.severity == "error" for item in found):
        yield from _check_brokers(basis, before, step)


def _check_brokers(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    """Refuse a policy that names unknown brokers."""
    own = next((one for one in after_policies(before, step) if one.name == step.name), None)
    if own is None or any(own.role_of(host_of(one)) != "none" for one in basis.view.brokers):
        return
    yield finding(
        "error",
        "isolation_unknown_broker",
        step,
        f"Neither primary ({listed(own.primary)}) nor secondary matches a broker that runs.",
        "Expressions are compared with the host of a broker, without its port.",
    )


def _check_scope(basis: Basis, step: SetPolicy) -> Iterator[Diagnostic]:
    scope = json.loads(step.value or "{}").get("unload_scope")
    if scope is None:
        return
    if scope not in SCOPES:
        sentence = f"unload_scope is {scope!r}; it is one of {', '.join(SCOPES)}."
        yield finding("error", "isolation_scope", step, sentence)
    elif not has_scope(basis.view):
        yield finding(
            "error",
            "isolation_scope",
            step,
            "Brokers before 4.0 ignore unload_scope: they unload all that the policy matches.",
            "Leave it out.",
        )


def _wrong_in(body: Mapping[str, Any]) -> Iterator[str]:
    for field in ("namespaces", "primary"):
        if not body[field]:
            yield f"{field} is empty: a policy needs at least one expression there."
    for field in ("namespaces", "primary", "secondary"):
        yield from _wrong_expressions(field, body[field])
    failover = body["auto_failover_policy"]
    if not isinstance(failover, dict) or failover.get("policy_type") != "min_available":
        yield "auto_failover_policy needs the type min_available."
        return
    parameters = failover.get("parameters")
    for name, most in (("min_limit", _INT_MAX), ("usage_threshold", 100)):
        text = str(parameters.get(name, "")) if isinstance(parameters, dict) else ""
        if not text.isdigit() or int(text) > most:
            yield f"{name} is {text or 'missing'}; it must be a whole number from 0 to {most:,}."


def _wrong_expressions(field: str, expressions: object) -> Iterator[str]:
    if not isinstance(expressions, list | tuple):
        yield f"{field} is a list of regular expressions, not {expressions!r}."
        return
    for expression in expressions:
        try:
            matcher_of([expression])
        except UNREADABLE as exc:
            yield f"An expression of {field} cannot be evaluated: {exc}."


def _check_overlap(basis: Basis, before: PulsarSnapshot, step: SetPolicy) -> Iterator[Diagnostic]:
    policies = after_policies(before, step)
    own = next(policy for policy in policies if policy.name == step.name)
    mine = [name for name in basis.view.namespaces if own.governs(name)]
    for other in policies:
        shared = [name for name in mine if other.name != own.name and other.governs(name)]
        if shared:
            yield finding(
                "error",
                "isolation_overlap",
                step,
                f"{listed(shared)} is matched by isolation policy {other.name} as well: only the "
                "first one that brokers come to would count.",
                "Let every namespace match one policy.",
            )
    if not mine:
        yield finding("warning", "isolation_idle", step, "No namespace matches it right now.")
    yield from _check_matchers(basis, own, step)


def _check_matchers(basis: Basis, own: IsolationPolicy, step: SetPolicy) -> Iterator[Diagnostic]:
    """Tell brokers that only the REST view would name; what placement takes is all right."""
    differences = matcher_differences([own], basis.view.brokers, basis.settings.release)
    for off in [one for one in differences if one.placement_role == "none"][:SHOWN]:
        yield finding("warning", "isolation_port", step, off.sentence)
    hidden = sum(one.placement_role != "none" for one in differences)
    if hidden:
        yield finding(
            "info",
            "isolation_view",
            step,
            f"It works for {pluralize(hidden, 'broker')} by the host, as it should; pulsar-admin's "
            "list of brokers with policies compares with host:port and will not show it.",
        )


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
            f"{listed([change.namespace for change in stranded])} would be left without any "
            "broker: its topics could not be reached.",
            "Let primary or secondary match the host of a broker that runs.",
        )
    if impact.idle_brokers:
        sentence = f"{listed(impact.idle_brokers)} may serve no namespace afterwards."
        yield finding("warning", "isolation_idle_broker", step, sentence)
    for name in impact.short:
        policy = next(one for one in after_policies(before, step) if one.name == name)
        yield finding(
            "warning",
            "isolation_short",
            step,
            f"Fewer brokers than min_limit {policy.min_limit} would be primary in isolation policy "
            f"{name}: its secondaries serve as well.",
        )
    if impact.unloaded and not stranded:
        yield finding(
            "info",
            "isolation_unloads",
            step,
            f"Brokers unload {pluralize(len(impact.unloaded), 'bundle')} by themselves as soon as "
            f"it is set, in no order; {pluralize(len(impact.misplaced), 'bundle')} must change "
            "broker.",
        )
    if impact.astray and not stranded:
        yield finding(
            "info",
            "isolation_astray",
            step,
            f"{pluralize(len(impact.astray), 'bundle')} would lie on brokers that may not serve "
            "them and that are not unloaded: they stay until they are unloaded.",
            "Unload them with the change.",
        )


def after_policies(before: PulsarSnapshot, step: SetPolicy) -> tuple[IsolationPolicy, ...]:
    """Return the isolation policies as a step leaves them, in stored order."""
    return parse_isolation_policies(with_policies(before, [step]).policies)[0]
