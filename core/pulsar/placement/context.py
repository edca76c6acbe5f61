"""What all filters and selectors share in one question: the view, the settings, the memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, Self

import numpy as np

from core.pulsar.bundle_counts import Codes, Ints
from core.pulsar.placement.model import PlacedInTurn, PlacementMemory
from core.pulsar.placement.versions import version_ranks
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import Flags, Floats, LoadView

_NO_ROWS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class PlacementContext:
    """One question's surroundings; arrays are per broker row.

    Attributes:
        view: The cluster.
        settings: The leader's active settings.
        memory: What the leader remembers.
        available: Brokers that take part at all; those that are dead or suspected never do.
        knows_leader: Whether the leader's averages are known and not only what it last wrote.
        bundle: Row of the bundle in question; -1: a whole namespace.
        non_persistent: Whether the bundle holds non-persistent topics; ``None`` if as the view has
            it, and no for a whole namespace.
    """

    group_unit: ClassVar[str] = "namespace"
    """What counts once in an anti-affinity group."""

    view: LoadView
    settings: EffectiveSettings
    memory: PlacementMemory = field(default_factory=PlacementMemory)
    available: Flags = field(default_factory=lambda: np.ones(0, np.bool_))
    knows_leader: bool = True
    bundle: int = -1
    non_persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.view.dead:
            object.__setattr__(self, "available", self.available & self.view.is_alive)

    @classmethod
    def of(
        cls,
        view: LoadView,
        settings: EffectiveSettings,
        memory: PlacementMemory | None = None,
        candidates: Iterable[str] | None = None,
        bundle: int = -1,
        *,
        non_persistent: bool | None = None,
    ) -> Self:
        """Build it.

        Raises:
            UnknownNameError: A candidate that the snapshot does not have.
        """
        available = np.ones(len(view.brokers), np.bool_)
        if candidates is not None:
            available[:] = False
            available[[view.broker_row(name) for name in candidates]] = True
        held = memory or PlacementMemory()
        is_known = memory is not None
        return cls(view, settings, held, available, is_known, bundle, non_persistent=non_persistent)

    @cached_property
    def is_non_persistent(self) -> bool:
        """Whether brokers must serve non-persistent topics."""
        if self.non_persistent is not None:
            return self.non_persistent
        return self.bundle >= 0 and bool(self.view.is_non_persistent[self.bundle])

    @cached_property
    def planned(self) -> int:
        """Row of the broker that AvgShedder planned for the bundle; -1 for none."""
        if self.bundle < 0 or not self.memory.planned:
            return -1
        broker = self.memory.planned.get(str(self.view.bundles[self.bundle]), "")
        return self.view.broker_index.get(broker, -1)

    @cached_property
    def overload_ratio(self) -> float:
        """Usage above which a broker is overloaded."""
        return self.settings.number("loadBalancerBrokerOverloadedThresholdPercentage") / 100.0

    @cached_property
    def is_overloaded(self) -> Flags:
        """Brokers above it; strictly, as upstream."""
        return self.view.overload_usage > self.overload_ratio

    @cached_property
    def usable(self) -> Flags:
        """Available brokers whose load report is known; upstream refuses the others as well.

        Where no report of any broker is known, all that are available: equal ones.
        """
        view = self.view
        return self.available & view.has_report if view.has_report.any() else self.available

    @cached_property
    def allowed(self) -> Flags:
        """Brokers by isolation policy, ``(n_policies + 2, n_brokers)``.

        The last row is that of bundles without policy; the one before it that of such with
        non-persistent topics. A policy does not depend on what its brokers serve.

        Source:
            Pulsar ``LoadManagerShared#applyNamespacePolicies``.
        """
        if np.array_equal(self.available, self.view.is_alive):
            return self.view.allowed
        return self.view.allowed_of(self.available) & self.usable

    def allowed_row(self, policy: Codes, *, non_persistent: bool | Flags | None = None) -> Codes:
        """Return the rows of :attr:`allowed` for bundles.

        Args:
            policy: Isolation policy of each one's namespace; -1: none.
            non_persistent: Whether each holds non-persistent topics; ``None`` as in the question.
        """
        such = self.is_non_persistent if non_persistent is None else non_persistent
        return np.where((policy < 0) & such, len(self.view.policies), policy).astype(np.int32)

    @cached_property
    def _preallocated(self) -> tuple[Ints, Ints]:
        """Rows of the bundles and brokers that the memory names, and what the leader keeps."""
        given = self.memory.preallocated
        if not given and not self.view.remembered_by_leader.size:
            return _NO_ROWS, _NO_ROWS
        brokers = self.view.broker_index
        if isinstance(given, PlacedInTurn) and given.view is self.view:
            rows = given.rows
        else:
            rows = self._rows_of(given)
        remembered = self.view.remembered_by_leader
        if remembered.size:
            remembered = np.setdiff1d(remembered, rows[:, 0])
        leader = np.full(remembered.size, brokers.get(self.view.leader or "", -1))
        return np.append(rows[:, 0], remembered), np.append(rows[:, 1], leader)

    def _rows_of(self, given: Mapping[str, str]) -> Ints:
        """Return rows of bundles and brokers; what the view does not have is skipped."""
        brokers = self.view.broker_index
        self.view.indexed_for(len(given))
        find = self.view.find_bundle
        pairs = [(find(bundle), brokers.get(broker, -1)) for bundle, broker in given.items()]
        rows = np.array(pairs, np.int64).reshape(-1, 2)
        return np.asarray(rows[(rows >= 0).all(axis=1)], np.int64)

    @cached_property
    def topics(self) -> Ints:
        """Topics reported and preallocated."""
        bundles, brokers = self._preallocated
        if not bundles.size:
            return self.view.broker_topics
        total = self.view.broker_topics.copy()
        np.add.at(total, brokers, self.view.bundle_topics[bundles])
        return total

    @cached_property
    def long_rate(self) -> Floats:
        """Long-term rate, msg/s, reported and preallocated."""
        bundles, brokers = self._preallocated
        extra = np.zeros(len(self.view.brokers))
        np.add.at(extra, brokers, self.view.bundle_long_rate[bundles])
        return extra + self.view.broker_long_rate

    @cached_property
    def long_doubt(self) -> Floats:
        """Uncertainty of long-term rates, msg/s; empty if the leader's own are known."""
        doubt = self.view.broker_long_doubt
        return np.zeros_like(doubt) if self.knows_leader else doubt

    def range_counts(self, namespaces: Ints) -> Codes:
        """Bundles of some namespaces per broker, preallocated ones included."""
        counts = self.view.range_counts.dense(namespaces, len(self.view.brokers))
        spaces, brokers = self._new_ranges
        if spaces.size:
            rows, columns = np.nonzero(namespaces[:, None] == spaces)
            np.add.at(counts, (rows, brokers[columns]), 1)
        return counts

    @cached_property
    def _new_ranges(self) -> tuple[Ints, Ints]:
        """Namespaces and brokers of preallocated bundles that the broker does not report yet."""
        bundles, brokers = self._preallocated
        if not bundles.size:
            return _NO_ROWS, _NO_ROWS
        new = self.view.reporter[bundles] != brokers
        return self.view.bundle_namespace[bundles[new]].astype(np.int64), brokers[new]

    @cached_property
    def group_counts(self) -> Codes:
        """Namespaces of each anti-affinity group per broker, preallocated ones included."""
        spaces, brokers = self._new_ranges
        is_grouped = self.view.namespace_group[spaces] >= 0
        spaces, brokers = spaces[is_grouped], brokers[is_grouped]
        if not spaces.size:
            return self.view.group_counts
        counts = self.view.group_counts.copy()
        n_brokers = len(self.view.brokers)
        for namespace, broker in sorted(set(zip(spaces.tolist(), brokers.tolist(), strict=True))):
            group = self.view.namespace_group[namespace]
            reported = self.view.range_counts.dense(np.array([namespace]), n_brokers)
            if reported[0, broker] == 0:
                counts[group, broker] += 1
        return counts

    @cached_property
    def domains(self) -> Codes | None:
        """Failure domain number per broker; ``None`` when domains have no effect."""
        names = [name or "default" for name in self.view.failure_domains]
        if not self.settings.flag("failureDomainsEnabled") or not any(self.view.failure_domains):
            return None
        return np.unique(names, return_inverse=True)[1].astype(np.int32)

    @cached_property
    def version_ranks(self) -> Ints:
        """Rank of each broker's version."""
        return version_ranks(self.view.versions)

    @cached_property
    def excluded_namespaces(self) -> frozenset[int]:
        """Rows of the namespaces that are placed in turn."""
        index = self.view.namespace_index
        return frozenset(index[name] for name in self.settings.excluded_namespaces if name in index)
