"""Policies and local policies to namespaces, boundaries and cluster-wide policies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec
import pyarrow as pa

from core.ids import FULL_UPPER, is_broker_bound, tenant_of
from core.pulsar.snapshot.znodes.decode import UNREADABLE, decode_record, note_missing
from core.pulsar.snapshot.znodes.readings import (
    CLUSTERS,
    LOCAL_POLICIES,
    RESOURCE_GROUPS,
    RESOURCE_QUOTA,
    Readings,
)
from core.pulsar.snapshot.znodes.readings import POLICIES as POLICIES_ROOT
from core.pulsar.snapshot.znodes.records import (
    BundlesOfNamespace,
    FailureDomain,
    LocalPolicies,
    NamespacePolicies,
)
from core.schemas.pulsar import NAMESPACE_STORAGE, NAMESPACES, POLICIES
from core.snapshot.problems import ProblemLog

_HEX_DIGITS: Final = 8


@dataclass(slots=True)
class NamespaceColumns:
    """Namespace data before the table is made.

    Attributes:
        boundaries: Namespace -> n + 1 values.
        sources: Namespace -> where these come from.
        anti_affinity: Namespace -> group.
        resource_groups: Namespace -> group.
        rates: Kind of policy and namespace -> JSON of the rate.
        storage: Namespace -> JSON of what it sets for its data.
        replication: Namespace -> clusters.
        named: Namespaces that have policies of any kind.
    """

    boundaries: dict[str, list[int]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    anti_affinity: dict[str, str] = field(default_factory=dict)
    resource_groups: dict[str, str] = field(default_factory=dict)
    rates: dict[tuple[str, str], bytes] = field(default_factory=dict)
    storage: dict[str, bytes] = field(default_factory=dict)
    replication: dict[str, list[str]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def take(self, namespace: str, bounds: list[int] | None, source: str) -> None:
        """Keep boundaries unless better ones are there already."""
        if bounds is not None and namespace not in self.boundaries:
            self.boundaries[namespace] = bounds
            self.sources[namespace] = source


def decode_spaces(readings: Readings, problems: ProblemLog) -> NamespaceColumns:
    """Decode local policies, then what brokers answered, then policies; the first one wins."""
    spaces = NamespaceColumns()
    for namespace, raw in readings.local_policies.items():
        place = f"{LOCAL_POLICIES}/{namespace}"
        local = decode_record(LocalPolicies, raw, place, problems)
        if local is None:
            continue
        spaces.take(namespace, _boundaries(local.bundles, place, problems), "local-policies")
        if local.namespace_anti_affinity_group:
            spaces.anti_affinity[namespace] = local.namespace_anti_affinity_group
            _check_group(local.namespace_anti_affinity_group, place, problems)
    for namespace, raw in readings.boundaries.items():
        place = f"/admin/v2/namespaces/{namespace}/bundles"
        answer = decode_record(BundlesOfNamespace, raw, place, problems)
        spaces.take(namespace, _boundaries(answer, place, problems), "rest")
    for namespace, raw in readings.policies.items():
        _take_policies(spaces, namespace, raw, readings.pulsar_cluster or "", problems)
    spaces.named = {*readings.local_policies, *readings.policies, *readings.boundaries}
    for namespace in sorted(spaces.named - spaces.boundaries.keys()):
        problems.add(
            "missing",
            f"boundaries of {namespace}",
            "The namespace exists, but no source lists its bundles.",
            done="Only its bundles from other sources are listed.",
            severity="error",
        )
    return spaces


def _check_group(group: str, place: str, problems: ProblemLog) -> None:
    """Check for quotes in a group name: brokers store the JSON body unchanged."""
    if group.startswith('"'):
        problems.add(
            "inconsistent",
            place,
            f"Its anti-affinity group is named {group}, including the quotes.",
            done="Probably no other namespace is in that group; set it again without quotes.",
            subject="namespaceAntiAffinityGroup",
        )


def _take_policies(
    spaces: NamespaceColumns, namespace: str, raw: bytes, cluster: str, problems: ProblemLog
) -> None:
    place = f"{POLICIES_ROOT}/{namespace}"
    policies = decode_record(NamespacePolicies, raw, place, problems)
    if policies is None:
        return
    note_missing(policies, place, problems)
    if policies.bundles is not None:
        spaces.take(namespace, _boundaries(policies.bundles, place, problems), "policies")
    if policies.resource_group_name:
        spaces.resource_groups[namespace] = policies.resource_group_name
    for kind, rate in policies.rates_of(cluster).items():
        spaces.rates[kind, namespace] = rate
    if storage := policies.storage():
        spaces.storage[namespace] = msgspec.json.encode(storage)
    if policies.replication_clusters is not None:
        spaces.replication[namespace] = policies.replication_clusters


def _boundaries(
    record: BundlesOfNamespace | None, place: str, problems: ProblemLog
) -> list[int] | None:
    """Return the boundaries as numbers, or ``None`` with a problem when they do not tile."""
    if record is None or record.boundaries is None:
        if record is not None:
            note_missing(record, place, problems, "bundles.")
        return None
    fault = ""
    values: list[int] = []
    try:
        values = [_bound(text) for text in record.boundaries]
    except ValueError as exc:
        fault = str(exc)
    if not fault and (len(values) < 2 or values[0] != 0 or values[-1] != FULL_UPPER):
        fault = "they do not reach from 0x00000000 to 0xffffffff"
    if not fault and any(low >= high for low, high in pairwise(values)):
        fault = "they do not ascend"
    if not fault and record.num_bundles not in (None, len(values) - 1):
        problems.add(
            "inconsistent",
            place,
            f"It has num_bundles {record.num_bundles}, but its boundaries define "
            f"{len(values) - 1} bundles.",
            done="The boundaries are used.",
            subject="bundles.numBundles",
        )
    if not fault:
        return values
    problems.add(
        "malformed",
        place,
        f"Its boundaries are invalid: {fault}.",
        done="Other sources are used for the boundaries.",
        severity="error",
        subject="bundles.boundaries",
    )
    return None


def _bound(text: str) -> int:
    digits = text.removeprefix("0x")
    if digits == text or not 0 < len(digits) <= _HEX_DIGITS or not digits.isalnum():
        raise ValueError(f"{text[:20]!r} is not 0x followed by up to eight hexadecimal digits")
    try:
        return int(digits, 16)
    except ValueError:
        raise ValueError(
            f"{text[:20]!r} is not 0x followed by up to eight hexadecimal digits"
        ) from None


def boundaries_from_names(ranges: Iterable[tuple[int, int]]) -> list[int] | None:
    """Return the boundaries that the seen ranges make, or ``None`` when they do not tile.

    A gap is not a bundle: how many bundles that were never seen are in it is unknown.
    """
    ordered = sorted(set(ranges))
    if not ordered or ordered[0][0] != 0 or ordered[-1][1] != FULL_UPPER:
        return None
    if any(left[1] != right[0] for left, right in pairwise(ordered)):
        return None
    return [ordered[0][0], *(upper for _, upper in ordered)]


def bundle_names(namespace: str, bounds: Sequence[int]) -> list[str]:
    """Return the names of the bundles that the boundaries make."""
    texts = [f"0x{bound:08x}" for bound in bounds]
    return [f"{namespace}/{low}_{high}" for low, high in pairwise(texts)]


def complete_from_names(
    spaces: NamespaceColumns, parsed: Mapping[str, tuple[str, int, int]], *, expect_all: bool
) -> set[str]:
    """Fill boundaries of namespaces that no policy tells from the bundles seen.

    Args:
        spaces: Filled here.
        parsed: Every bundle seen.
        expect_all: Whether policies were read, so that a namespace without any is worth a problem.
    Returns:
        Namespaces that lack policies although others have them (broker-bound ones never have any).
    """
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for namespace, lower, upper in parsed.values():
        if namespace not in spaces.boundaries:
            seen[namespace].append((lower, upper))
    unknown: set[str] = set()
    for namespace, ranges in seen.items():
        bounds = boundaries_from_names(ranges)
        spaces.take(namespace, bounds, "bundle-names")
        if expect_all and not is_broker_bound(namespace):
            unknown.add(namespace)
    return unknown


def namespaces_table(names: Iterable[str], spaces: NamespaceColumns) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.NAMESPACES`, sorted."""
    ordered = sorted(set(names))
    return pa.Table.from_pydict(
        {
            "namespace": ordered,
            "tenant": [tenant_of(name) for name in ordered],
            "boundaries": [spaces.boundaries.get(name) for name in ordered],
            "boundaries_source": [spaces.sources.get(name) for name in ordered],
            "anti_affinity_group": [spaces.anti_affinity.get(name) for name in ordered],
            "resource_group": [spaces.resource_groups.get(name) for name in ordered],
            "replication_clusters": [spaces.replication.get(name) for name in ordered],
            "is_broker_bound": [is_broker_bound(name) for name in ordered],
        },
        schema=NAMESPACES,
    )


def policies_table(readings: Readings, spaces: NamespaceColumns, problems: ProblemLog) -> pa.Table:
    """Return the table of :data:`core.schemas.pulsar.POLICIES`: bodies as they are stored.

    Isolation policies keep their stored order, which counts.
    """
    rows: list[tuple[str, str, str]] = []
    for kind, entries, root in (
        ("failure_domain", readings.failure_domains, _domain_root(readings)),
        ("resource_group", readings.resource_groups, RESOURCE_GROUPS),
        ("resource_quota", readings.resource_quotas, RESOURCE_QUOTA),
    ):
        for name, raw in entries.items():
            body = _object_text(raw, f"{root}/{name}", problems)
            if body is not None:
                rows.append((kind, name, body))
    of_namespaces = spaces.rates | {
        (NAMESPACE_STORAGE, name): raw for name, raw in spaces.storage.items()
    }
    for (kind, name), raw in of_namespaces.items():
        body = _object_text(raw, f"{POLICIES_ROOT}/{name}", problems)
        if body is not None:
            rows.append((kind, name, body))
    rows.sort()
    rows += [("isolation", name, body) for name, body in _isolation(readings, problems)]
    rows.sort(key=lambda row: row[0])  # stable
    names = ("kind", "name", "body")
    return pa.Table.from_pydict(
        {name: [row[place] for row in rows] for place, name in enumerate(names)}, schema=POLICIES
    )


def _domain_root(readings: Readings) -> str:
    return f"{CLUSTERS}/{readings.pulsar_cluster or '?'}/failureDomain"


def _isolation(readings: Readings, problems: ProblemLog) -> list[tuple[str, str]]:
    if readings.isolation is None:
        return []
    place = f"{CLUSTERS}/{readings.pulsar_cluster or '?'}/namespaceIsolationPolicies"
    try:
        stored = msgspec.json.decode(readings.isolation, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        problems.add(
            "malformed",
            place,
            "It is not a JSON object of policies.",
            done="The isolation policies are unknown: placement is evaluated without them.",
            severity="error",
        )
        return []
    return [
        (name, body)
        for name, raw in stored.items()
        if (body := _object_text(bytes(raw), f"{place}/{name}", problems)) is not None
    ]


def _object_text(raw: bytes, place: str, problems: ProblemLog) -> str | None:
    try:
        msgspec.json.decode(raw, type=dict[str, object])
        return raw.decode()
    except UNREADABLE:
        problems.add(
            "malformed",
            place,
            "It is not a JSON object.",
            done="It is skipped.",
            severity="error",
        )
        return None


def domains_by_broker(readings: Readings, problems: ProblemLog) -> dict[str, str]:
    """Return broker id -> failure domain."""
    domains: dict[str, str] = {}
    for name, raw in sorted(readings.failure_domains.items()):
        place = f"{_domain_root(readings)}/{name}"
        record = decode_record(FailureDomain, raw, place, problems)
        if record is not None:
            note_missing(record, place, problems)
            domains |= dict.fromkeys(record.brokers or (), name)
    return domains
