"""Settings against the policies and the load that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow.compute as pc

from core.findings.engine import Rule
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.isolation import parse_failure_domains
from core.pulsar.rules.context import HealthContext
from core.pulsar.rules.doctor.model import settings_fix, some
from core.pulsar.shedding import known_shedding_strategy
from core.units import format_ratio, pluralize

DOMAINS: Final = "failureDomainsEnabled"
TRANSPORT: Final = "resourceUsageTransportClassName"
TRANSPORT_CLASS: Final = "org.apache.pulsar.broker.resourcegroup.ResourceUsageTopicTransportManager"
_BAND: Final = "loadBalancerBrokerThresholdShedderPercentage"
_OVERLOAD: Final = "loadBalancerBrokerOverloadedThresholdPercentage"
_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"


def domains(context: HealthContext) -> Iterator[Finding]:
    """Failure domains that are there and not used, or used and not there.

    Source:
        Pulsar ``LoadManagerShared#filterAntiAffinityGroupOwnedBrokers``: brokers without a domain
        count as one domain together.
    """
    domain_of = parse_failure_domains(context.snapshot.policies)
    groups = _groups(context)
    is_on = context.settings.flag(DOMAINS)
    brokers = context.measures.usage.brokers
    outside = tuple(name for name in brokers if name not in domain_of)
    group_count = f"{pluralize(len(groups), 'anti-affinity group')}"
    if domain_of and not is_on:
        yield Finding(
            code="domains_unused",
            title="Failure domains are not used",
            measured=Quantity("false"),
            limit=Quantity("true"),
            area="policies",
            severity="warning" if groups else "info",
            keys=(DOMAINS,),
            sentence=f"{pluralize(len(set(domain_of.values())), 'failure domain')} with "
            f"{pluralize(len(domain_of), 'broker')} and {group_count}; {DOMAINS} is false.",
            consequence="Groups are spread over brokers only: two members may be in one domain "
            "and fail together.",
            hint="",
            fix=settings_fix({DOMAINS: True}),
            evidence={"groups": sorted(groups), "domains": sorted(set(domain_of.values()))},
        )
    elif is_on and groups and outside:
        yield Finding(
            code="domains_missing",
            title="Brokers have no failure domain",
            measured=Quantity(len(outside), "brokers"),
            limit=Quantity(0),
            area="policies",
            severity="warning",
            keys=(DOMAINS,),
            servers=outside,
            sentence=f"{DOMAINS} is true, there is {group_count}. Without a failure domain: "
            f"{some(outside)}.",
            consequence="Brokers without a domain count as one domain together, so group "
            "members are separated from them only by chance.",
            hint="Put every broker into its failure domain (Isolation & domains).",
            evidence={"rows": list(outside), "groups": sorted(groups)},
        )


def colliding_groups(context: HealthContext) -> Iterator[Finding]:
    """Anti-affinity groups with more members than separate places."""
    domain_of = parse_failure_domains(context.snapshot.policies)
    by_domain = bool(domain_of) and context.settings.flag(DOMAINS)
    places = len(set(domain_of.values())) if by_domain else len(context.measures.usage.brokers)
    noun = "failure domain" if by_domain else "broker"
    for group, members in _groups(context).items():
        if members > places > 0:
            yield Finding(
                code="group_too_large",
                title="Anti-affinity group exceeds its places",
                measured=Quantity(members),
                limit=Quantity(places),
                area="policies",
                severity="warning",
                keys=(DOMAINS,),
                sentence=f"The anti-affinity group {group} has {members} namespaces, but there "
                f"are only {pluralize(places, noun)}.",
                consequence="Some members share a place under any load manager.",
                hint="Use smaller groups, or add places.",
                evidence={"members": members, "places": places},
            )


def _groups(context: HealthContext) -> Counter[str]:
    """Return the anti-affinity groups with the number of their namespaces."""
    groups = context.snapshot.namespaces["anti_affinity_group"].to_pylist()
    return Counter(group for group in groups if group)


def groups_without_transport(context: HealthContext) -> Iterator[Finding]:
    """Resource groups on brokers that do not exchange what was used."""
    policies = context.snapshot.policies
    names = policies.filter(pc.equal(policies["kind"], "resource_group"))["name"].to_pylist()
    if not names or context.settings.text(TRANSPORT):
        return
    attached = [one for one in context.snapshot.namespaces["resource_group"].to_pylist() if one]
    is_known = context.settings.origin(TRANSPORT) != "assumed"
    yield Finding(
        code="groups_without_transport",
        title="Resource groups have no transport",
        measured=Quantity(len(names)),
        area="policies",
        severity="unknown" if not is_known else "warning" if attached else "info",
        keys=(TRANSPORT,),
        sentence=f"{pluralize(len(names), 'resource group')} with "
        f"{pluralize(len(attached), 'namespace')} attached; {TRANSPORT} is "
        f"{'empty' if is_known else 'not known, and empty by default'}.",
        consequence="Resource groups are off on the brokers: their limits have no effect.",
        hint="",
        fix=settings_fix({TRANSPORT: TRANSPORT_CLASS}),
        evidence={"groups": names, "attached": len(attached)},
    )


def excluded_unknown(context: HealthContext) -> Iterator[Finding]:
    """Names among the excluded namespaces that no namespace has."""
    there = set(context.snapshot.namespaces["namespace"].to_pylist())
    excluded = context.settings.names(_EXCLUDED)
    strange = [name for name in excluded if name not in there]
    if strange and there and context.settings.excluded_namespaces:
        yield Finding(
            code="excluded_unknown",
            title="Excluded namespace does not exist",
            measured=Quantity(len(strange)),
            limit=Quantity(0),
            area="policies",
            severity="warning",
            keys=(_EXCLUDED,),
            sentence=f"{_EXCLUDED} has {', '.join(strange)}, but no such namespace is known.",
            consequence="It excludes nothing; if a name is misspelled, the intended namespace "
            "is shed.",
            hint="",
            fix=settings_fix({_EXCLUDED: tuple(name for name in excluded if name in there)}),
            evidence={"rows": strange},
        )


def band_above_overload(context: HealthContext) -> Iterator[Finding]:
    """A threshold above the overload limit: brokers are overloaded before the strategy acts."""
    settings = context.settings
    strategy = known_shedding_strategy(settings.text("loadBalancerLoadSheddingStrategy"))
    if (
        context.snapshot.manifest.load_manager == "extensible"
        or strategy is None
        or _BAND not in strategy.adjustable
        or settings.shedding_off
    ):
        return
    mean = context.measures.usage.mean or 0.0
    band, limit = settings.number(_BAND) / 100, settings.number(_OVERLOAD) / 100
    if mean + band <= limit:
        return
    yield Finding(
        code="band_above_overload",
        title="Shedding starts above the overload limit",
        measured=Quantity(mean + band, "ratio"),
        limit=Quantity(limit, "ratio"),
        area="settings",
        severity="warning",
        keys=(_BAND, _OVERLOAD),
        sentence=f"{strategy.name} acts {format_ratio(band)} above the mean usage of "
        f"{format_ratio(mean)}, at {format_ratio(mean + band)}; a broker counts "
        f"as overloaded from {format_ratio(limit)} on.",
        consequence="A broker may be overloaded without being shed.",
        hint="Narrow the band; if the whole cluster is that full, add brokers: "
        "shedding cannot help then.",
        evidence={"mean_ratio": mean, "band_ratio": band, "limit_ratio": limit},
    )


RULES: Final[tuple[Rule[HealthContext], ...]] = (
    band_above_overload,
    domains,
    colliding_groups,
    groups_without_transport,
    excluded_unknown,
)
