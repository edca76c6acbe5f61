"""Rules about isolation policies and anti-affinity groups: traps in them, and who violates them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.findings.engine import UnlistedFindings
from core.findings.finding import Finding
from core.findings.quantity import Quantity
from core.pulsar.isolation import (
    IsolationPolicy,
    MatcherDifference,
    governing_policy,
    matcher_differences,
    parse_isolation_policies,
)
from core.pulsar.rules.context import HealthContext
from core.units import pluralize

_SHOWN: Final = 10


def isolation_traps(context: HealthContext) -> Iterator[Finding]:
    """Policies that cannot be read, that match no broker, or that look right only in REST."""
    policies, problems = parse_isolation_policies(context.snapshot.policies)
    for sentence in problems:
        yield Finding(
            code="isolation_unreadable",
            title="Isolation policies are unreadable",
            severity="warning",
            subject_kind="policy",
            subject="",
            sentence=sentence,
            hint="Set the policy again with valid expressions.",
        )
    brokers = context.snapshot.brokers["broker"].to_pylist()
    if not brokers:
        return
    differences = matcher_differences(policies, brokers, context.settings.release)
    for policy in policies:
        eligible = _eligible(policy, brokers, context.settings.release)
        if not eligible:
            yield _nobody_eligible(policy, len(brokers))
        differing = [item for item in differences if item.policy == policy.name]
        lost = [item for item in differing if item.placement_role == "none"]
        if lost:
            yield _port_in_expression(policy.name, lost)
        elif differing:
            yield _misleading_view(policy.name, differing)


def isolation_violations(context: HealthContext) -> Iterator[Finding | UnlistedFindings]:
    """Namespaces with bundles on brokers where their isolation policy does not allow them."""
    policies, _ = parse_isolation_policies(context.snapshot.policies)
    if not policies:
        return
    brokers = context.snapshot.brokers["broker"].to_pylist()
    allowed_by_policy = {
        policy.name: set(_eligible(policy, brokers, context.settings.release))
        for policy in policies
    }
    governed = {
        namespace: policy.name
        for namespace in context.bundles.owned_namespaces()
        if (policy := governing_policy(policies, namespace)) is not None
    }
    if not governed:
        return
    found = context.bundles.misplaced(governed, allowed_by_policy)
    for namespace, rows in itertools.groupby(
        found.rows.to_pylist(), operator.itemgetter("namespace")
    ):
        yield _violated(namespace, governed[namespace], list(rows))
    if found.unlisted:
        yield UnlistedFindings("isolation_violated", found.unlisted)


def _violated(namespace: str, policy: str, wrong: list[dict[str, Any]]) -> Finding:
    count = sum(row["bundles"] for row in wrong)
    return Finding(
        code="isolation_violated",
        title="Bundles are outside their isolation policy",
        measured=Quantity(count),
        limit=Quantity(0),
        severity="warning",
        subject_kind="namespace",
        subject=namespace,
        sentence=(
            f"{pluralize(count, 'bundle')} of {namespace} outside isolation policy {policy!r}: "
            f"on {pluralize(len(wrong), 'broker')}, for example {wrong[0]['owner']}."
        ),
        evidence={
            "policy": policy,
            "rows": [{"broker": row["owner"], "bundles": row["bundles"]} for row in wrong[:_SHOWN]],
        },
        hint="Unload them without a destination: placement then follows the policy.",
    )


def anti_affinity_crowding(context: HealthContext) -> Iterator[Finding]:
    """Anti-affinity groups of which one broker serves two namespaces while others serve none."""
    namespaces = context.snapshot.namespaces
    grouped = namespaces.filter(pc.is_valid(namespaces["anti_affinity_group"])).select(
        ["namespace", "anti_affinity_group"]
    )
    broker_count = context.snapshot.brokers.num_rows
    if not grouped.num_rows:
        return
    owners = context.bundles.owners_of(grouped["namespace"].to_pylist())
    joined = owners.join(grouped, keys="namespace", join_type="inner")
    joined = joined.set_column(
        joined.schema.get_field_index("anti_affinity_group"),
        "anti_affinity_group",
        pc.utf8_lower(pc.utf8_trim_whitespace(joined["anti_affinity_group"])),
    )
    counts = joined.group_by(["anti_affinity_group", "owner"]).aggregate([("namespace", "count")])
    for group in sorted(set(counts["anti_affinity_group"].to_pylist()) - {""}):
        rows = counts.filter(pc.equal(counts["anti_affinity_group"], group))
        most = int(np.max(rows["namespace_count"].to_numpy()))
        unused = broker_count - rows.num_rows
        if most > 1 and unused:
            yield _crowded(group, rows, most, unused)


def _crowded(group: str, rows: pa.Table, most: int, unused: int) -> Finding:
    crowded = rows.filter(pc.greater(rows["namespace_count"], 1)).sort_by(
        [("namespace_count", "descending"), ("owner", "ascending")]
    )
    first = crowded["owner"][0].as_py()
    return Finding(
        code="anti_affinity_shared_broker",
        title="Anti-affinity group shares a broker",
        measured=Quantity(most, "namespaces"),
        limit=Quantity(1),
        severity="info",
        subject_kind="cluster",
        subject=group,
        sentence=(
            f"{first} serves {most} namespaces of anti-affinity group {group!r} while "
            f"{pluralize(unused, 'broker')} {'serves' if unused == 1 else 'serve'} none."
        ),
        evidence={
            "rows": [
                {"broker": row["owner"], "namespaces": row["namespace_count"]}
                for row in crowded.slice(0, _SHOWN).to_pylist()
            ]
        },
        hint="Unload the bundles of one of them: placement then spreads the group.",
    )


def _port_in_expression(policy: str, lost: Sequence[MatcherDifference]) -> Finding:
    return Finding(
        code="isolation_port_in_regex",
        title="Isolation pattern includes the port",
        severity="warning",
        subject_kind="policy",
        subject=policy,
        sentence=lost[0].sentence,
        evidence={"rows": _roles(lost)},
        hint="Use an expression that matches only the host, without a port.",
    )


def _misleading_view(policy: str, differing: Sequence[MatcherDifference]) -> Finding:
    return Finding(
        code="isolation_view_misleads",
        title="pulsar-admin omits brokers of this policy",
        measured=Quantity(len(differing)),
        limit=Quantity(0),
        severity="info",
        subject_kind="policy",
        subject=policy,
        sentence=(
            f"Isolation policy {policy!r} matches "
            f"{pluralize(len(differing), 'broker')} by host, but pulsar-admin's "
            "list of brokers with policies omits it: that list compares host:port."
        ),
        evidence={"rows": _roles(differing)},
    )


def _roles(differing: Sequence[MatcherDifference]) -> list[dict[str, str]]:
    return [
        {
            "broker": item.broker,
            "placement_role": item.placement_role,
            "rest_role": item.rest_role,
        }
        for item in differing[:_SHOWN]
    ]


def _nobody_eligible(policy: IsolationPolicy, broker_count: int) -> Finding:
    return Finding(
        code="isolation_without_brokers",
        title="Isolation policy matches no broker",
        measured=Quantity(0),
        limit=Quantity(1),
        severity="error",
        subject_kind="policy",
        subject=policy.name,
        sentence=(
            f"Isolation policy {policy.name!r} matches none of the {broker_count} brokers: its "
            "namespaces lose their owner at the next unload and lookups fail."
        ),
        evidence={
            "namespaces": list(policy.namespaces),
            "primary": list(policy.primary),
            "secondary": list(policy.secondary),
        },
        hint="Placement matches only the host: use expressions for existing hosts.",
    )


def _eligible(policy: IsolationPolicy, brokers: list[str], release: str) -> list[str]:
    """Brokers that placement may take under the policy.

    Source:
        Pulsar ``LoadManagerShared#applyNamespacePolicies``.
    """
    roles = {broker: policy.placement_role_of(broker, release) for broker in brokers}
    primaries = [broker for broker, role in roles.items() if role == "primary"]
    if len(primaries) >= policy.min_limit:
        return primaries
    return primaries + [broker for broker, role in roles.items() if role == "secondary"]
