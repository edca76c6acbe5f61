"""The broker filters of the modular load manager, for many namespaces at a time.

A mask has a row per namespace and a column per broker. Nothing in a filter depends on the bundle
beyond its namespace, so bundles of one namespace share a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.ids import SYSTEM_NAMESPACE
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.masks import any_in_row, least_in_row
from core.pulsar.view import Flags

POLICIES: Final = "applyNamespacePolicies"
TOPIC_COUNT: Final = "filterBrokersWithLargeTopicCount"
ANTI_AFFINITY: Final = "filterAntiAffinityGroupOwnedBrokers"
MAX_SERVING: Final = "removeMostServicingBrokersForNamespace"
CLASS: Final = "BrokerLoadManagerClassFilter"
VERSION: Final = "BrokerVersionFilter"
MAX_TOPICS: Final = "BrokerMaxTopicCountFilter"
ANTI_AFFINITY_FILTER: Final = "AntiAffinityGroupPolicyFilter"
ISOLATION_FILTER: Final = "BrokerIsolationPoliciesFilter"


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Result of the filters.

    Attributes:
        stages: ``(filter, mask after it)`` in upstream order.
        candidates: The final mask, fallbacks included.
        allowed: What the policies alone allow: the last resort.
        version_failed: Rows in which the version filter gave up and everything was restored.
        restored: Rows in which the filters left no broker and everything was restored.
    """

    stages: tuple[tuple[str, Flags], ...]
    candidates: Flags
    allowed: Flags
    version_failed: Flags
    restored: Flags


def run_filters(context: PlacementContext, namespaces: Ints) -> FilterResult:
    """Return the brokers that pass the filters, for each of some namespaces.

    Source:
        Pulsar ``ModularLoadManagerImpl#selectBroker``, steps before the strategy.
    """
    allowed = context.allowed[context.allowed_row(context.view.namespace_policy[namespaces])]
    stages = [(POLICIES, allowed)]
    stages.append((TOPIC_COUNT, _few_topics(context, allowed)))
    stages.append((ANTI_AFFINITY, anti_affinity(context, namespaces, stages[-1][1])))
    stages.append((MAX_SERVING, _least_serving(context, namespaces, stages[-1][1])))
    stages.append((CLASS, same_class(context, stages[-1][1])))
    mask, failed = latest_version(context, stages[-1][1])
    stages.append((VERSION, mask))
    # a filter that gives up restores all; so does a chain that leaves no broker
    restored = ~any_in_row(mask) & ~failed
    back = restored | failed
    candidates = np.where(back[:, None], allowed, mask) if back.any() else mask
    return FilterResult(tuple(stages), candidates, allowed, failed, restored)


def _few_topics(context: PlacementContext, mask: Flags) -> Flags:
    """Source: Pulsar ``LoadManagerShared#filterBrokersWithLargeTopicCount``."""
    few = context.topics <= context.settings.number("loadBalancerBrokerMaxTopics")
    if few.all():
        return mask
    left = mask & few
    return np.where(any_in_row(left)[:, None], left, mask)


def anti_affinity(context: PlacementContext, namespaces: Ints, mask: Flags) -> Flags:
    """Leave the brokers, of the domains, with least of the namespace's anti-affinity group.

    Source:
        Pulsar ``LoadManagerShared#filterAntiAffinityGroupOwnedBrokers``.
    """
    groups = context.view.namespace_group[namespaces]
    rows = np.flatnonzero(groups >= 0)
    if not rows.size:
        return mask
    left = mask.copy()
    left[rows] = least_of_group(context.group_counts[groups[rows]], mask[rows], context.domains)
    return left


def least_of_group(counts: Codes, mask: Flags, domains: Codes | None) -> Flags:
    """Leave the brokers with the least count, of the domains with the least; a row a question.

    Args:
        counts: What of the group each broker has, ``(n_rows, n_brokers)``.
        mask: Candidates, the same shape.
        domains: Domain of each broker; ``None`` if domains have no effect.
    """
    if domains is not None:
        members = np.eye(int(domains.max()) + 1, dtype=np.int64)[domains]
        sums = np.where(mask, counts, 0) @ members
        present = mask @ members > 0
        mask = mask & (sums == least_in_row(sums, present))[:, domains]
    return np.asarray(mask & (counts == least_in_row(counts, mask)), np.bool_)


def _least_serving(context: PlacementContext, namespaces: Ints, mask: Flags) -> Flags:
    """Source: Pulsar ``LoadManagerShared#removeMostServicingBrokersForNamespace``."""
    if not context.settings.flag("loadBalancerDistributeBundlesEvenlyEnabled"):
        system = context.view.namespace_index.get(SYSTEM_NAMESPACE, -1)
        rows = np.flatnonzero(namespaces == system)
    else:
        rows = np.arange(namespaces.size)
    if not rows.size:
        return mask
    counts = context.range_counts(namespaces[rows])
    left = mask.copy()
    left[rows] &= counts == least_in_row(counts, mask[rows])
    return left


def same_class(context: PlacementContext, mask: Flags) -> Flags:
    """Leave the brokers that run the deciding broker's load manager.

    Source:
        Pulsar ``BrokerLoadManagerClassFilter``.
    """
    own = context.view.own_class
    if own is None:
        return mask
    same = np.array([name == own for name in context.view.load_manager_classes], np.bool_)
    return mask if same.all() else mask & same


def latest_version(context: PlacementContext, mask: Flags) -> tuple[Flags, Flags]:
    """Return the mask, and the rows in which a version is missing or invalid, or no broker is left.

    Source:
        Pulsar ``BrokerVersionFilter``.
    """
    failed = np.zeros(mask.shape[0], np.bool_)
    if not context.settings.flag("preferLaterVersions"):
        return mask, failed
    ranks = context.version_ranks
    failed = ~any_in_row(mask) | any_in_row(mask & (ranks < 0))
    latest = np.where(mask, ranks, -1).max(axis=1, initial=-1)[:, None]
    return np.where(failed[:, None], mask, mask & (ranks == latest)), failed
