"""The fleet while it is being rebalanced: what moved so far, and what may still move where.

Constraints are held so that no order of the moves can break: arrivals count at once,
departures never make room for topics or for namespaces of an anti-affinity group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.optimize.fleet import FleetColumns, load_of
from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.view import Flags, Floats

EPSILON: Final = 1e-9

Rows = int | Ints | Codes
"""One broker, or several as an array of any shape."""


@dataclass(frozen=True, slots=True)
class Band:
    """The loads that are in order; ``low`` is minus infinity where only the top matters."""

    low: float
    high: float

    @property
    def slack(self) -> float:
        """Rounding tolerance of a load."""
        return EPSILON * max(abs(self.high), EPSILON)

    def violation(self, load: Floats) -> Floats:
        """Return the distance of each load to the band; 0 or less inside."""
        return np.maximum(load - self.high, self.low - load)


class Balance:
    """Current assignment; starts as the fleet.

    Attributes:
        used: ``(b, r)``.
        load: ``(b,)``: the largest component of each.
        destination: ``(m,)``: where each bundle went, -1: it stays.
        order: Bundles in the order in which they moved.
        is_cut: Whether a budget ended the moves.
    """

    def __init__(self, fleet: FleetColumns) -> None:
        self.fleet = fleet
        self.used = fleet.used.copy()
        self.load = load_of(self.used)
        self.destination = np.full(fleet.rows.size, -1, np.int64)
        self.order: list[int] = []
        self.is_cut = False
        self._topics = np.zeros(len(fleet.view.brokers), np.int64)
        groups = max(len(fleet.view.groups), 1)
        domains = int(fleet.where.domains.max(initial=0)) + 1
        # bundles that arrived, by (group, broker) and (group, domain), and of which namespace
        self._at_broker = _Arrivals(groups, len(fleet.view.brokers))
        self._at_domain = _Arrivals(groups, domains)

    def staying(self, broker: int) -> Ints:
        """Return the movable bundles of a broker that did not move, largest first."""
        bundles = self.fleet.bundles_of(broker)
        return bundles[self.destination[bundles] < 0]

    def present(self, broker: int) -> Ints:
        """Return the movable bundles that a broker has now, those that came to it included."""
        came = np.flatnonzero(self.destination == broker)
        return np.concatenate([self.staying(broker), came])

    def may_come(self, brokers: Rows, bundles: Ints) -> Flags:
        """Return the broker-bundle eligibility mask; current owners are always eligible."""
        at_home = self.fleet.owner[bundles] == brokers
        return np.asarray(self.may_take(brokers, bundles) | at_home, np.bool_)

    def relocate(self, bundle: int, broker: int) -> None:
        """Set another destination of a bundle; its owner cancels the move."""
        at = self.undo(bundle) if self.destination[bundle] >= 0 else None
        if broker != self.fleet.owner[bundle]:
            self.move(bundle, broker, at=at)

    def added_bytes(self, bundles: Ints, broker: Rows) -> Floats:
        """Return the additional traffic moved if each bundle is sent to the broker."""
        moved = (self.destination[bundles] >= 0).astype(np.float64)
        moves = (self.fleet.owner[bundles] != broker).astype(np.float64)
        return np.asarray(self.fleet.bytes_per_s[bundles] * (moves - moved), np.float64)

    def load_without(self, brokers: Rows, bundles: Ints) -> Floats:
        """Return the brokers' load without each of the bundles; both are broadcast."""
        return load_of(self.used[brokers] - self._adds(brokers, bundles))

    def load_with(self, brokers: Rows, bundles: Ints) -> Floats:
        """Return the brokers' load with each of the bundles; both are broadcast."""
        return load_of(self.used[brokers] + self._adds(brokers, bundles))

    def _adds(self, brokers: Rows, bundles: Ints) -> Floats:
        return np.asarray(self.fleet.amount[bundles] * self.fleet.scale[brokers], np.float64)

    def may_take(self, brokers: Rows, bundles: Ints) -> Flags:
        """Return the eligibility by every hard constraint; both arguments are broadcast."""
        fleet = self.fleet
        room = fleet.where.topic_room[brokers] - self._topics[brokers]
        allowed = fleet.where.allowed[fleet.kind[bundles], brokers]
        allowed = allowed & (fleet.topics[bundles] <= room) & (fleet.owner[bundles] != brokers)
        group = fleet.group[bundles]
        if (group >= 0).any():
            space = fleet.namespace[bundles]
            allowed &= self._at_broker.is_free(group, brokers, space)
            if fleet.where.has_domains:
                domains = fleet.where.domains[brokers]
                allowed &= self._at_domain.is_free(group, domains, space)
        return np.asarray(allowed, np.bool_)

    def move(self, bundle: int, destination: int, *, at: int | None = None) -> None:
        """Move a bundle that has not moved yet, as the last one or at a place in the order."""
        self._shift(bundle, destination, 1)
        self.destination[bundle] = destination
        self.order.insert(len(self.order) if at is None else at, bundle)

    def undo(self, bundle: int) -> int:
        """Take a move back and return its place in the order."""
        self._shift(bundle, int(self.destination[bundle]), -1)
        self.destination[bundle] = -1
        at = self.order.index(bundle)
        del self.order[at]
        return at

    def _shift(self, bundle: int, destination: int, sign: int) -> None:
        fleet = self.fleet
        source = int(fleet.owner[bundle])
        amount = sign * fleet.amount[bundle]
        self.used[source] -= amount * fleet.scale[source]
        self.used[destination] += amount * fleet.scale[destination]
        self.load[source] = self.used[source].max()
        self.load[destination] = self.used[destination].max()
        self._topics[destination] += sign * fleet.topics[bundle]
        group = int(fleet.group[bundle])
        if group >= 0:
            space = int(fleet.namespace[bundle])
            self._at_broker.count(group, destination, space, sign)
            self._at_domain.count(group, int(fleet.where.domains[destination]), space, sign)


class _Arrivals:
    """Namespaces per anti-affinity group and place; one per place is enough."""

    def __init__(self, groups: int, places: int) -> None:
        self._namespace = np.full((groups, places), -1, np.int64)
        self._bundles = np.zeros((groups, places), np.int64)

    def is_free(self, group: Codes, places: Rows, namespace: Codes) -> Flags:
        there = self._namespace[np.maximum(group, 0), places]
        return np.asarray((group < 0) | (there < 0) | (there == namespace), np.bool_)

    def count(self, group: int, place: int, namespace: int, sign: int) -> None:
        self._bundles[group, place] += sign
        self._namespace[group, place] = namespace if self._bundles[group, place] else -1
