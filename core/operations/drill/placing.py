"""Where bundles go when brokers are lost: many losses at a time, a row of every array each.

Each loss is what the leader lives through by itself: its bundles are looked up one after the other,
in random order, and the leader remembers what it placed. No loss sees another, so the first bundles
of all of them are placed together, then the second ones, and so on.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.ids import SYSTEM_NAMESPACE
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.placement import find_strategy, placement_name
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.distribution import distribute
from core.pulsar.placement.extensible import (
    NO_LOADS,
    ExtensibleContext,
    ExtensibleLeastResourceUsage,
    extensible_filters,
)
from core.pulsar.placement.filters import (
    latest_version,
    least_of_group,
    same_class,
)
from core.pulsar.placement.masks import any_in_row, least_in_row, uniform
from core.pulsar.placement.selectors import ROUND_ROBIN, Selector
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView

NO_BROKER: Final = -1


@dataclass(frozen=True)
class Loss:
    """Brokers that are lost together.

    Attributes:
        name: The broker, or the failure domain.
        kind: ``broker`` or ``domain``.
        rows: Rows of the brokers.
    """

    name: str
    kind: str
    rows: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FailoverPlacement:
    """Destinations of the bundles of one failure.

    Attributes:
        bundles: Rows of its bundles, in the order of their lookups.
        ends: Broker row of each; ``NO_BROKER``: no broker is eligible.
        allowed: Brokers that isolation leaves after the loss, ``(n_policies + 2, n_brokers)``; the
            last row is that of namespaces without a policy, the one before it the same for bundles
            with non-persistent topics.
    """

    bundles: Ints
    ends: Ints
    allowed: Flags


def lost_bundles(view: LoadView, loss: Loss, seed: int) -> tuple[Ints, Floats]:
    """Return rows of the bundles to look up, in random order, and a draw of 0..1 for each."""
    is_lost = np.zeros(len(view.brokers) + 1, np.bool_)
    is_lost[list(loss.rows)] = True
    rows = np.flatnonzero(is_lost[view.owner] & ~view.is_broker_bound)
    rng = np.random.default_rng([seed, zlib.crc32(f"{loss.kind} {loss.name}".encode())])
    return rng.permutation(rows), rng.random(rows.size)


def place_losses(
    view: LoadView, settings: EffectiveSettings, losses: Sequence[Loss], seed: int
) -> list[FailoverPlacement]:
    """Return the destinations of the bundles of each failure.

    Args:
        view: Load of the cluster.
        settings: What the leader goes by.
        losses: As many as memory takes: each needs some dozen numbers a broker.
        seed: Orders and draws follow from it and the loss's name, whatever else is drilled.
    Raises:
        InputError: The load manager is not one that can be simulated, or too little is known.
    Source:
        Pulsar ``ModularLoadManagerImpl#selectBrokerForAssignment``, or the extensible manager's
        lookup, which remembers nothing between two of them.
    """
    orders = [lost_bundles(view, loss, seed) for loss in losses]
    own = (view.own_class or "").rpartition(".")[2]
    manager = own if view.load_manager == "mixed" else view.load_manager
    if manager in ("simple", "SimpleLoadManagerImpl"):
        raise InputError("Placement by SimpleLoadManagerImpl cannot be simulated.")
    if manager in ("extensible", "ExtensibleLoadManagerImpl"):
        return [
            _extensible(view, settings, loss, one) for loss, one in zip(losses, orders, strict=True)
        ]
    order = np.argsort([-rows.size for rows, _ in orders], kind="stable")
    fleet = _Fleets.of(view, settings, [losses[at] for at in order])
    ends = fleet.place([orders[at] for at in order])
    landed: list[FailoverPlacement | None] = [None] * len(losses)
    for place, at in enumerate(order.tolist()):
        rows = orders[at][0]
        landed[at] = FailoverPlacement(rows, ends[place, : rows.size], fleet.allowed[place])
    return [one for one in landed if one is not None]


def _extensible(
    view: LoadView, settings: EffectiveSettings, loss: Loss, orders: tuple[Ints, Floats]
) -> FailoverPlacement:
    if view.extensible is None:
        raise InputError("The destinations of the bundles are unknown.", hint=NO_LOADS)
    left = [name for row, name in enumerate(view.brokers) if row not in set(loss.rows)]
    context = ExtensibleContext.of(view, settings, None, left)
    rows, draws = orders
    spaces, place = np.unique(view.bundle_namespace[rows].astype(np.int64), return_inverse=True)
    filtered = extensible_filters(context, spaces)
    chances, _ = distribute(context, ExtensibleLeastResourceUsage(), spaces, filtered)
    return FailoverPlacement(rows, _drawn(chances[place], draws), context.allowed)


def _drawn(chances: Floats, draws: Floats) -> Ints:
    """Return the broker that each draw hits; ``NO_BROKER`` in a row without chances."""
    if not chances.size:
        return np.full(draws.shape, NO_BROKER, np.int64)
    sums = np.cumsum(chances, axis=1)
    hit = np.argmax(sums > (draws * sums[:, -1])[:, None], axis=1)
    return np.where(sums[:, -1] > 0, hit, NO_BROKER).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Fleets(PlacementContext):
    """The fleet after each of several losses; arrays of loads have a row for each.

    Attributes:
        left: Brokers that are left, ``(n_losses, n_brokers)``.
        flows: Long-term rates, msg/s, what was placed included.
        held_topics: Topics likewise.
        policies: Brokers by isolation, ``(n_losses, n_policies + 2, n_brokers)``.
        strategy: Who picks.
    """

    left: Flags = field(default_factory=lambda: np.ones((0, 0), np.bool_))
    flows: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    held_topics: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    policies: Flags = field(default_factory=lambda: np.ones((0, 0, 0), np.bool_))
    strategy: Selector = ROUND_ROBIN

    @classmethod
    def of(  # type: ignore[override]  # made of losses, not of one question
        cls, view: LoadView, settings: EffectiveSettings, losses: Sequence[Loss]
    ) -> _Fleets:
        everybody = view.is_alive
        base = PlacementContext(view, settings, available=everybody)
        left = np.repeat(everybody[None, :], len(losses), axis=0)
        for at, loss in enumerate(losses):
            left[at, list(loss.rows)] = False
        return cls(
            view,
            settings,
            available=everybody,
            left=left,
            flows=np.repeat(base.long_rate[None, :], len(losses), axis=0),
            held_topics=np.repeat(base.topics[None, :], len(losses), axis=0),
            policies=_by_policy(base, left),
            strategy=find_strategy(placement_name(settings)),
        )

    @property
    def allowed(self) -> Flags:
        """Brokers by isolation policy after each loss."""
        return self.policies

    @property
    def topics(self) -> Ints:
        """Topics of each broker after each loss."""
        return self.held_topics[: self._count]

    @property
    def long_rate(self) -> Floats:
        """Long-term rate of each broker after each loss."""
        return self.flows[: self._count]

    @property
    def _count(self) -> int:
        """Number of failures with bundles left to place: the first ones, which have most."""
        return int(self.__dict__.get("active", 0))

    def place(self, orders: Sequence[tuple[Ints, Floats]]) -> Ints:
        """Place the bundles of all losses, those with most bundles first.

        Returns:
            Shape ``(n_losses, most bundles)``: broker rows; ``NO_BROKER`` past the end, too.
        """
        sizes = np.array([rows.size for rows, _ in orders], np.int64)
        steps = int(sizes.max(initial=0))
        placed = _PlacementLog.empty(len(orders), steps)
        for step in range(steps):
            count = int(np.searchsorted(-sizes, -step, side="left"))
            self.__dict__["active"] = count
            rows = np.array([orders[at][0][step] for at in range(count)], np.int64)
            draws = np.array([orders[at][1][step] for at in range(count)])
            self._one(placed, step, rows, draws)
        return placed.ends

    def _one(self, placed: _PlacementLog, step: int, rows: Ints, draws: Floats) -> None:
        """Place one bundle of every loss that has one left."""
        spaces = self.view.bundle_namespace[rows].astype(np.int64)
        counts = self._counts(placed, step, spaces)
        groups = self.view.namespace_group[spaces]
        chances = self._chances(rows, counts, self._grouped(placed, step, groups))
        ends = _drawn(chances, draws)
        here = np.flatnonzero(ends >= 0)
        to = ends[here]
        self.flows[here, to] += self.view.bundle_long_rate[rows[here]]
        self.held_topics[here, to] += self.view.bundle_topics[rows[here]]
        is_new = (counts[here, to] == 0) & (groups[here] >= 0)
        placed.ends[: ends.size, step] = ends
        placed.spaces[: ends.size, step] = spaces
        placed.groups[here[is_new], step] = groups[here[is_new]]

    def _counts(self, placed: _PlacementLog, step: int, spaces: Ints) -> Codes:
        """Bundles of each loss's namespace per broker, what was placed included."""
        distinct, place = np.unique(spaces, return_inverse=True)
        counts = self.range_counts(distinct)[place]
        _add(counts, placed.ends, placed.spaces[: spaces.size, :step] == spaces[:, None])
        return counts

    def _grouped(self, placed: _PlacementLog, step: int, groups: Codes) -> Codes:
        """Namespaces of each loss's anti-affinity group per broker, what was placed included."""
        counts = np.zeros((groups.size, len(self.view.brokers)), np.int32)
        rows = np.flatnonzero(groups >= 0)
        if rows.size:
            counts[rows] = self.group_counts[groups[rows]]
            is_same = placed.groups[: groups.size, :step] == groups[:, None]
            _add(counts, placed.ends, is_same & (groups >= 0)[:, None])
        return counts

    def _chances(self, rows: Ints, counts: Codes, grouped: Codes) -> Floats:
        """Run the chain and the strategy, as ``ModularLoadManagerImpl#selectBroker`` does."""
        spaces = self.view.bundle_namespace[rows].astype(np.int64)
        policy, such = self.view.namespace_policy[spaces], self.view.is_non_persistent[rows]
        by = self.allowed_row(policy, non_persistent=such)
        allowed = self.policies[np.arange(spaces.size), by]
        few = allowed & (self.topics <= self.settings.number("loadBalancerBrokerMaxTopics"))
        mask = np.where(any_in_row(few)[:, None], few, allowed)
        in_group = self.view.namespace_group[spaces] >= 0
        if in_group.any():
            mask[in_group] = least_of_group(grouped[in_group], mask[in_group], self.domains)
        spread = self._is_spread(spaces)
        if spread.any():
            mask[spread] &= counts[spread] == least_in_row(counts[spread], mask[spread])
        mask, failed = latest_version(self, same_class(self, mask))
        candidates = np.where((failed | ~any_in_row(mask))[:, None], allowed, mask)
        return self._picked(spaces, candidates, allowed)

    def _is_spread(self, spaces: Ints) -> Flags:
        """Namespaces whose bundles go where there are fewest of them."""
        if self.settings.flag("loadBalancerDistributeBundlesEvenlyEnabled"):
            return np.ones(spaces.size, np.bool_)
        return np.equal(spaces, self.view.namespace_index.get(SYSTEM_NAMESPACE, NO_BROKER))

    def _picked(self, spaces: Ints, candidates: Flags, allowed: Flags) -> Floats:
        """Return the chances of each broker, the second pick of an overloaded one included."""
        excluded = np.isin(spaces, list(self.excluded_namespaces))[:, None]
        picks = np.where(excluded, candidates, self.strategy.picks(self, candidates, None))
        chances = uniform(picks)
        is_remembered = self.strategy.is_paired and self.view.release < "5.0"
        bad = picks & self.is_overloaded & (excluded if is_remembered else True)
        retry = np.where(bad, chances, 0.0).sum(axis=1)
        if (retry > 0).any():
            again = uniform(self.strategy.picks(self, candidates | allowed, candidates & ~excluded))
            chances = np.where(bad, 0.0, chances) + retry[:, None] * again
        return chances


@dataclass(frozen=True, eq=False)
class _PlacementLog:
    """Placements so far, one row per failure and one column per step.

    Attributes:
        ends: Broker rows.
        spaces: Namespaces.
        groups: Anti-affinity group that got a namespace more on that broker; else ``NO_BROKER``.
    """

    ends: Ints
    spaces: Ints
    groups: NDArray[np.int32]

    @classmethod
    def empty(cls, losses: int, steps: int) -> _PlacementLog:
        """Return nothing placed yet."""
        shape = (losses, steps)
        return cls(
            np.full(shape, NO_BROKER, np.int64),
            np.full(shape, NO_BROKER, np.int64),
            np.full(shape, NO_BROKER, np.int32),
        )


def _add(counts: Codes, ends: Ints, is_same: Flags) -> None:
    """Count what was placed, where it is of the same kind."""
    rows, steps = np.nonzero(is_same)
    at = ends[rows, steps]
    np.add.at(counts, (rows[at >= 0], at[at >= 0]), 1)


def _by_policy(base: PlacementContext, left: Flags) -> Flags:
    """Return brokers by isolation policy for each loss.

    Source:
        Pulsar ``LoadManagerShared#applyNamespacePolicies``: secondaries step in where too few
        primaries are left.
    """
    view = base.view
    primary = view.is_primary[None, :, :] & left[:, None, :]
    least = np.array([policy.min_limit for policy in view.policies], np.int64)
    short = primary.sum(axis=2) < least
    second = view.is_secondary[None, :, :] & left[:, None, :] & short[:, :, None]
    shared = left & ~view.is_primary.any(axis=0)
    kinds = np.stack([shared & view.serves_non_persistent, shared & view.serves_persistent], axis=1)
    whole = np.concatenate([primary | second, kinds], axis=1)
    return np.asarray(whole & base.usable, np.bool_)
