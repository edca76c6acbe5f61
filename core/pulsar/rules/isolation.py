"""Rules about who may serve what at all: overlaps, shortages, idle policies, failure domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.isolation import (
    IsolationPolicy,
    failure_domains,
    governing_policy,
    parse_isolation_policies,
)
from core.pulsar.rules.bundle_facts import ForeignBundles
from core.pulsar.rules.context import HealthContext
from core.units import by_name, pluralize

_SHOWN: Final = 10
_NAMED: Final = 3


def isolation_shape(context: HealthContext) -> Iterator[Finding]:
    """Policies that overlap, match no namespace, or have fewer primaries than they require."""
    policies, _ = parse_isolation_policies(context.snapshot.policies)
    if not policies:
        return
    brokers = context.snapshot.brokers["broker"].to_pylist()
    spaces = _namespaces(context)
    release = context.settings.release
    for policy in policies:
        governed = [name for name in spaces if policy.governs(name)]
        yield from _overlapping(policy, policies, governed)
        if spaces and not governed:
            yield _idle(policy)
        roles = [policy.placement_role_of(broker, release) for broker in brokers]
        primaries, others = roles.count("primary"), roles.count("secondary")
        if primaries + others and primaries < policy.min_limit:
            yield _short(policy, primaries, others)


def isolation_intruders(context: HealthContext) -> Iterator[Finding]:
    """Bundles of namespaces without a policy on brokers that are reserved for policies."""
    policies, _ = parse_isolation_policies(context.snapshot.policies)
    release = context.settings.release
    brokers = context.snapshot.brokers["broker"].to_pylist()
    reserved = {
        broker: policy.name
        for policy in reversed(policies)
        for broker in brokers
        if policy.placement_role_of(broker, release) == "primary"
    }
    if not reserved:
        return
    owned = context.bundles.owned_namespaces()
    free = [name for name in owned if governing_policy(policies, name) is None]
    if not free:
        return
    if not set(brokers) - reserved.keys():
        yield _nothing_shared(len(brokers), len(free))
        return
    foreign_bundles = context.bundles.foreign_bundles(free, list(reserved))
    if foreign_bundles.bundles:
        yield _intruders(foreign_bundles, reserved)


def domains_shape(context: HealthContext) -> Iterator[Finding]:
    """Brokers in two failure domains, or in none while others are in one."""
    domains = failure_domains(context.snapshot.policies)
    if not any(domains.values()):
        return
    brokers = context.snapshot.brokers["broker"].to_pylist()
    of_broker: dict[str, list[str]] = {}
    for domain, members in domains.items():
        for broker in members:
            of_broker.setdefault(broker, []).append(domain)
    for broker, named in sorted(of_broker.items()):
        if len(named) > 1:
            yield _twice(broker, named)
    outside = [broker for broker in brokers if broker not in of_broker]
    if outside:
        yield _outside(outside)


def _namespaces(context: HealthContext) -> list[str]:
    declared = context.snapshot.namespaces["namespace"].to_pylist()
    return sorted({*declared, *context.bundles.owned_namespaces()})


def _overlapping(
    policy: IsolationPolicy, policies: Sequence[IsolationPolicy], governed: Sequence[str]
) -> Iterator[Finding]:
    later = policies[policies.index(policy) + 1 :]
    for other in later:
        shared = [name for name in governed if other.governs(name)]
        if shared:
            yield Finding(
                code="isolation_overlaps",
                title="Isolation policies overlap",
                measured=Quantity(len(shared), "namespaces" if len(shared) > 1 else "namespace"),
                limit=Quantity(0),
                severity="warning",
                subject_kind="policy",
                subject=other.name,
                sentence=(
                    f"{pluralize(len(shared), 'namespace')} ({_named(shared)}) are matched "
                    f"by isolation policies {policy.name!r} and {other.name!r}: only "
                    f"{policy.name!r}, which brokers read first, applies."
                    if len(shared) > 1
                    else f"{shared[0]} is matched by isolation policies {policy.name!r} and "
                    f"{other.name!r}: only {policy.name!r}, which brokers read first, "
                    "applies."
                ),
                evidence={"rows": [{"namespace": name} for name in shared[:_SHOWN]]},
                hint=f"Narrow the expressions of {other.name!r}, or of {policy.name!r}.",
            )


def _idle(policy: IsolationPolicy) -> Finding:
    return Finding(
        code="isolation_idle",
        title="Isolation policy matches no namespace",
        measured=Quantity(0),
        limit=Quantity(1),
        severity="info",
        subject_kind="policy",
        subject=policy.name,
        sentence=(
            f"Isolation policy {policy.name!r} matches no namespace, but its "
            "primary brokers serve nothing else."
        ),
        evidence={"namespaces": list(policy.namespaces)},
        hint="Fix its expressions (they match tenant/namespace as a whole), or delete it.",
    )


def _short(policy: IsolationPolicy, primaries: int, others: int) -> Finding:
    what = (
        f"{pluralize(others, 'secondary broker')} {'replaces' if others == 1 else 'replace'} them"
        if others
        else "there is no secondary broker to replace them"
    )
    return Finding(
        code="isolation_short",
        title="Isolation policy lacks primary brokers",
        measured=Quantity(primaries),
        limit=Quantity(policy.min_limit),
        severity="warning",
        subject_kind="policy",
        subject=policy.name,
        sentence=(
            f"Isolation policy {policy.name!r} has {pluralize(primaries, 'primary broker')} of the "
            f"{policy.min_limit} that its min_limit requires: {what}."
        ),
        evidence={"primary": primaries, "min_limit": policy.min_limit, "secondary": others},
        hint="Start a primary broker, match more of them, or lower min_limit.",
    )


def _nothing_shared(brokers: int, namespaces: int) -> Finding:
    return Finding(
        code="isolation_nothing_shared",
        title="No broker is left for other namespaces",
        measured=Quantity(0),
        limit=Quantity(1),
        severity="error",
        subject_kind="cluster",
        subject="",
        sentence=(
            f"All {brokers} brokers are primary in isolation policies: "
            f"{pluralize(namespaces, 'namespace')} without a policy lose their owners at the next "
            "unload."
        ),
        hint="Exclude a broker from every policy's primaries, or match these namespaces too.",
    )


def _intruders(foreign_bundles: ForeignBundles, reserved: Mapping[str, str]) -> Finding:
    bundles, spaces, owners = (
        foreign_bundles.bundles,
        foreign_bundles.namespaces,
        foreign_bundles.owners,
    )
    policies = sorted({reserved[owner] for owner in owners})
    return Finding(
        code="isolation_intruded",
        title="Bundles are on isolated brokers",
        measured=Quantity(bundles),
        limit=Quantity(0),
        severity="warning",
        subject_kind="policy",
        subject=policies[0],
        sentence=(
            f"{pluralize(bundles, 'bundle')} of {pluralize(len(spaces), 'namespace')} without a "
            f"policy ({_named(spaces)}) on {pluralize(len(owners), 'broker')} with the primary "
            f"role in isolation {'policy' if len(policies) == 1 else 'policies'} "
            f"{_named(policies)}."
        ),
        evidence={"rows": foreign_bundles.rows.to_pylist()},
        hint="Unload them without a destination: placement excludes these brokers.",
    )


def _twice(broker: str, domains: Sequence[str]) -> Finding:
    return Finding(
        code="domain_twice",
        title="Broker is in several failure domains",
        measured=Quantity(len(domains)),
        limit=Quantity(1),
        severity="warning",
        subject_kind="broker",
        subject=broker,
        sentence=(
            f"{broker} is in {len(domains)} failure domains ({', '.join(domains)}): "
            "which one applies depends on the order in which brokers read them."
        ),
        evidence={"domains": list(domains)},
        hint="Remove it from all but one.",
    )


def _outside(brokers: Sequence[str]) -> Finding:
    return Finding(
        code="domain_missing",
        title="Brokers have no failure domain",
        measured=Quantity(len(brokers)),
        limit=Quantity(0),
        severity="info",
        subject_kind="cluster",
        subject="",
        sentence=(
            f"Brokers without a failure domain: {len(brokers):,} ({_named(brokers)}). "
            'Anti-affinity treats all of them as one domain named "default".'
        ),
        evidence={"rows": [{"broker": name} for name in brokers[:_SHOWN]]},
        hint="Assign every broker to the domain that it fails with.",
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if names[_NAMED:] else ""
    return ", ".join(by_name(names)[:_NAMED]) + more
