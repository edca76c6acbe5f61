"""Placement of the extensible load manager: its filters in their order, and its one strategy.

Source:
    Pulsar ``broker.loadbalance.extensions.ExtensibleLoadManagerImpl#selectAsync``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.extensible_loads import ExtensibleLoads
from core.pulsar.java.maps import java_string_hash
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.filters import (
    ANTI_AFFINITY_FILTER,
    CLASS,
    ISOLATION_FILTER,
    MAX_TOPICS,
    VERSION,
    FilterResult,
    anti_affinity,
    latest_version,
    same_class,
)
from core.pulsar.placement.masks import any_in_row
from core.pulsar.placement.selectors import ReasonOf, StatelessSelector
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView
from core.units import format_ratio

_MIN_BUCKETS: Final = 16
NO_LOADS: Final = (
    "The load data of the extensible manager's brokers was not read, so "
    "the destination is unknown. See the problems of the snapshot; "
    "`trimtab capture` prints them."
)


@dataclass(frozen=True, eq=False)
class ExtensibleContext(PlacementContext):
    """One question to the extensible manager: every registered broker takes part."""

    group_unit: ClassVar[str] = "bundle"

    @property
    def loads(self) -> ExtensibleLoads:
        """Load data that brokers publish; used only if read."""
        loads = self.view.extensible
        if loads is None:  # pragma: no cover - callers check it
            raise ValueError(NO_LOADS)
        return loads

    @cached_property
    def usable(self) -> Flags:
        """All that are available: one without published load may be drawn, too."""
        return self.available

    @cached_property
    def topics(self) -> Ints:
        """Topics in the published record; 0 without one."""
        return np.where(self.loads.has_load, self.loads.topics, 0)

    @cached_property
    def is_overloaded(self) -> Flags:
        """None: this manager warns of overload and picks all the same."""
        return np.zeros(len(self.view.brokers), np.bool_)

    @cached_property
    def group_counts(self) -> Codes:
        """Owned *bundles* of each anti-affinity group per broker, ``(n_groups, n_brokers)``."""
        view = self.view
        counts = np.zeros((len(view.groups), len(view.brokers)), np.int32)
        group = view.namespace_group[view.bundle_namespace]
        counted = (group >= 0) & (view.owner >= 0)
        np.add.at(counts, (group[counted], view.owner[counted]), 1)
        return counts


def extensible_filters(context: ExtensibleContext, namespaces: Ints) -> FilterResult:
    """Return the brokers that pass the filters, for each of some namespaces.

    Unlike the modular manager's, no filter restores what it took, and a chain that leaves no broker
    ends there: the lookup fails.

    Source:
        Pulsar ``ExtensibleLoadManagerImpl#getBrokerFilterPipeline``, in its order.
    Parity:
        The last two read the metadata store and may end in either order; here in that of the list.
    """
    view = context.view
    everybody = np.repeat(context.available[None, :], namespaces.size, axis=0)
    stages = [(CLASS, same_class(context, everybody))]
    most = context.settings.number("loadBalancerBrokerMaxTopics")
    stages.append((MAX_TOPICS, stages[-1][1] & (context.topics < most)))
    mask, failed = latest_version(context, stages[-1][1])
    stages.append((VERSION, mask))
    stages.append((ANTI_AFFINITY_FILTER, anti_affinity(context, namespaces, mask)))
    allowed = _isolated(context, stages[-1][1], view.namespace_policy[namespaces])
    stages.append((ISOLATION_FILTER, allowed))
    none_restored = np.zeros(namespaces.size, np.bool_)
    return FilterResult(
        tuple(stages), allowed, allowed, failed & any_in_row(allowed), none_restored
    )


def within_isolation(view: LoadView, settings: EffectiveSettings, bundle: int) -> Flags:
    """Return the brokers that isolation alone allows a bundle, were every other filter open.

    Args:
        view: Load of the cluster; what brokers publish is not needed.
        settings: The leader's active settings.
        bundle: Its row.
    """
    context = ExtensibleContext.of(view, settings, None, None, bundle)
    policy = view.namespace_policy[view.bundle_namespace[[bundle]]]
    allowed: Flags = _isolated(context, context.available[None, :], policy)[0]
    return allowed


def _isolated(context: ExtensibleContext, mask: Flags, policy: Codes) -> Flags:
    """Apply isolation to what is left: secondaries step in for primaries that are not among it."""
    view = context.view
    serves = view.serves_non_persistent if context.is_non_persistent else view.serves_persistent
    shared = ~view.is_primary.any(axis=0) & serves
    allowed = mask & shared
    governed = np.flatnonzero(policy >= 0)
    if governed.size:
        rows = policy[governed]
        primary = mask[governed] & view.is_primary[rows]
        least = np.array([view.policies[row].min_limit for row in rows.tolist()], np.int64)
        short = primary.sum(axis=1) < least
        second = mask[governed] & view.is_secondary[rows] & short[:, None]
        allowed[governed] = primary | second
    return allowed


@dataclass(frozen=True, slots=True)
class ExtensibleLeastResourceUsage(StatelessSelector):
    """Any broker far enough below the mean smoothed usage; any candidate when none is.

    Source:
        Pulsar ``broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight#select``.
    Parity:
        The same sets, the mean added up in hash order. Brokers that published no load are no part
        of the mean, and are drawn only when no broker is far enough below it.
    """

    name: ClassVar[str] = "LeastResourceUsageWithWeight"
    score_label: ClassVar[str] = "usage smoothed by the broker, ratio"

    def picks(
        self, context: PlacementContext, mask: Flags, _before: Flags | None = None, /
    ) -> Flags:
        """Return the brokers at least the margin below the mean, else all candidates."""
        known = mask & _loads(context.view).has_load
        below = self.scores(context) + self._margin(context) <= self._mean(context, mask)[:, None]
        best = known & below
        return np.where(any_in_row(best)[:, None], best, mask)

    def scores(self, context: PlacementContext) -> Floats:
        """Return the published smoothed usage; infinite for brokers that published none."""
        loads = _loads(context.view)
        return np.where(loads.has_load, loads.usage, np.inf)

    def _margin(self, context: PlacementContext) -> float:
        key = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
        return context.settings.number(key) / 100.0

    def _mean(self, context: PlacementContext, mask: Flags) -> Floats:
        loads = _loads(context.view)
        known = mask & loads.has_load
        order = _map_order(context.view.brokers)
        if not order.size:
            return np.zeros(mask.shape[0])
        # cumsum adds left to right as Java does; np.sum adds in pairs
        total = np.cumsum(np.where(known, loads.usage, 0.0)[:, order], axis=1)[:, -1]
        return np.asarray(total / np.maximum(known.sum(axis=1), 1), np.float64)

    def losses(self, context: PlacementContext, mask: Flags, /) -> ReasonOf:
        """Describe usage, mean and margin."""
        loads = _loads(context.view)
        mean = float(self._mean(context, mask)[0])
        margin = f"{self._margin(context) * 100:g} points below the mean {format_ratio(mean)}"

        def reason(broker: int) -> str:
            if not loads.has_load[broker]:
                return "published no load, and others are far enough below the mean"
            return f"usage {format_ratio(loads.usage[broker])} is not {margin}"

        return reason


def _loads(view: LoadView) -> ExtensibleLoads:
    if view.extensible is None:  # pragma: no cover - callers check it
        raise ValueError(NO_LOADS)
    return view.extensible


def _map_order(names: tuple[str, ...]) -> Ints:
    """Return broker rows in the order of a ``ConcurrentHashMap`` that copies the registry."""
    count = len(names)
    buckets = max(_MIN_BUCKETS, 1 << (count + (count >> 1)).bit_length())
    hashes = np.array([java_string_hash(name) for name in names], np.int64)
    slots = (hashes ^ (hashes >> 16)) & (buckets - 1)
    return np.lexsort((np.arange(count), slots))
