"""Answers of placement, and what the real classes remember between picks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.pulsar.view import LoadView

_FIRST_ROOM: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMemory:
    """The leader's memory between selections; the default is a new leader.

    Attributes:
        preallocated: ``{bundle: broker}`` picked, not yet reported by the broker.
        smoothed_usage: ``{broker: ratio}``, LeastResourceUsageWithWeight's own running usage.
        round_robin_count: RoundRobinBrokerSelector's counter; ``None`` if unknown.
        planned: ``{bundle: broker}``, AvgShedder's plans: where it sends what it sheds and, up to
            4.2, where it placed a bundle last.
        plans_picks: Whether the next pick becomes its bundle's plan: AvgShedder up to 4.2.
    """

    preallocated: Mapping[str, str] = field(default_factory=dict)
    smoothed_usage: Mapping[str, float] = field(default_factory=dict)
    round_robin_count: int | None = None
    planned: Mapping[str, str] = field(default_factory=dict)
    plans_picks: bool = False

    def with_picked(self, bundle: str, broker: str) -> PlacementMemory:
        """Return the memory after ``broker`` was drawn for ``bundle``, without a preallocation.

        Call it on :attr:`Placement.after`. A shedding round draws destinations like this.

        Source:
            Pulsar ``AvgShedder#selectBroker``: a pick that follows no plan becomes the plan.
        """
        if not self.plans_picks:
            return self
        return replace(self, planned={**self.planned, bundle: broker})

    def with_placed(self, view: LoadView, bundle: str, broker: str) -> PlacementMemory:
        """Return the memory after ``bundle`` was given to ``broker``, which has not reported yet.

        Raises:
            UnknownNameError: The snapshot has no such bundle or broker.
        """
        view.bundle_row(bundle)
        view.broker_row(broker)
        picked = self.with_picked(bundle, broker)
        return replace(picked, preallocated={**self.preallocated, bundle: broker})


class PlacedInTurn(Mapping[str, str]):
    """``{bundle: broker}`` of what is placed one after the other, with the rows of both.

    Every question adds up all that was placed before it: a hundred thousand bundles in turn would
    have their names looked up five thousand million times.

    Args:
        view: Whose rows.
    """

    __slots__ = ("_by_name", "_rows", "view")

    def __init__(self, view: LoadView) -> None:
        self.view = view
        self._by_name: dict[str, str] = {}
        self._rows = np.empty((_FIRST_ROOM, 2), np.int64)

    def add(self, row: int, broker: str) -> None:
        """Note that the bundle in a row was given to a broker; each bundle once at most."""
        at = len(self._by_name)
        if at == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[at] = row, self.view.broker_row(broker)
        self._by_name[str(self.view.bundles[row])] = broker

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of bundle and broker in the order of their placing; shape ``(n_placed, 2)``."""
        return self._rows[: len(self._by_name)]

    def __getitem__(self, bundle: str) -> str:
        return self._by_name[bundle]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


class Reasons(Mapping[str, str]):
    """``{broker: reason}``, formatted when read.

    A plan of hundreds of steps on a thousand brokers has hundreds of thousands of them, and a
    person reads a few.

    Args:
        make: Returns that of one broker (none where it is not ruled out), or all of them where it
            gets ``None``; for all it is called at most once, but for a race that costs time only,
            and let go, with what it needs.
    """

    __slots__ = ("_known",)

    def __init__(self, make: Callable[[str | None], dict[str, str]]) -> None:
        self._known: dict[str, str] | Callable[[str | None], dict[str, str]] = make

    def _all(self) -> dict[str, str]:
        known = self._known
        if not isinstance(known, dict):
            known = self._known = known(None)
        return known

    def __getitem__(self, broker: str) -> str:
        known = self._known
        return (known if isinstance(known, dict) else known(broker))[broker]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Destination probabilities of a bundle, with reasons for excluded brokers.

    Attributes:
        bundle: Name.
        strategy: The class that picks.
        distribution: ``{broker: probability}``; sums to 1, or empty with the reason in ``why``.
        ruled_out: ``{broker: "<filter or class>: <reason>"}`` for every other broker.
        why: One sentence.
        notes: What was assumed, fallbacks that fired.
        scores: ``{candidate: score}`` as the strategy saw them; less is better.
        score_label: What the scores are, with unit.
        candidates: Brokers that the filters left, in row order.
        after: The leader's memory after this pick, without what depends on the broker that is drawn
            (see :meth:`PlacementMemory.with_picked` and :meth:`PlacementMemory.with_placed`); a
            plan of AvgShedder is in it where only one broker can be drawn.
        is_known: False: what the cluster would do is unknown (``why`` says so); an empty
            distribution then does not mean that no broker is eligible.
    """

    bundle: str
    strategy: str
    distribution: dict[str, float]
    ruled_out: Mapping[str, str]
    why: str
    notes: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    score_label: str = ""
    candidates: tuple[str, ...] = ()
    after: PlacementMemory = field(default_factory=PlacementMemory)
    is_known: bool = True


@dataclass(frozen=True, kw_only=True)
class PlacementTable:
    """Distributions of all bundles. Bundles of one namespace share theirs, so it is stored once.

    Attributes:
        view: What it was computed on.
        strategy: The class that picks.
        bundle_group: Row of ``offsets`` of each bundle, in the order of ``view.bundles``.
        offsets: Shape ``(n_groups + 1,)``; the entries of group g are offsets[g]..offsets[g+1].
        broker: Broker row of each entry.
        probability: Of each entry; those of a group sum to 1.
        why: Why every distribution is empty; blank when it is not so.
        notes: What was assumed.
        non_persistent: The same for bundles with non-persistent topics; ``None`` if there are none.
    """

    view: LoadView
    strategy: str
    bundle_group: NDArray[np.int32]
    offsets: NDArray[np.int64]
    broker: NDArray[np.int32]
    probability: NDArray[np.float64]
    why: str = ""
    notes: tuple[str, ...] = ()
    non_persistent: PlacementTable | None = None

    def row(self, bundle_row: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return ``(broker rows, probabilities)`` of one bundle."""
        if self.non_persistent is not None and self.view.is_non_persistent[bundle_row]:
            return self.non_persistent.row(bundle_row)
        group = self.bundle_group[bundle_row]
        part = slice(self.offsets[group], self.offsets[group + 1])
        return self.broker[part], self.probability[part]

    def distribution(self, bundle: str) -> dict[str, float]:
        """Return ``{broker: probability}`` of one bundle; empty when no broker is eligible.

        Raises:
            UnknownNameError: The snapshot has no such bundle.
        """
        rows, chances = self.row(self.view.bundle_row(bundle))
        names = self.view.brokers
        return {
            names[row]: chance for row, chance in zip(rows.tolist(), chances.tolist(), strict=True)
        }

    def candidate_counts(self) -> NDArray[np.int64]:
        """Return the number of eligible brokers per bundle, in the order of ``view.bundles``."""
        counts = np.diff(self.offsets)[self.bundle_group]
        if self.non_persistent is None:
            return counts
        others = self.non_persistent.candidate_counts()
        return np.where(self.view.is_non_persistent, others, counts)

    def stay_probability(self) -> NDArray[np.float64]:
        """Return the probability that each bundle returns to its owner; 0 without an owner."""
        group = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        width = max(len(self.view.brokers), 1)
        keys = group * width + self.broker
        wanted = self.bundle_group.astype(np.int64) * width + self.view.owner
        at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
        if not keys.size:
            return np.zeros(self.bundle_group.size)
        found = (keys[at] == wanted) & (self.view.owner >= 0)
        stays = np.where(found, self.probability[at], 0.0)
        if self.non_persistent is None:
            return stays
        others = self.non_persistent.stay_probability()
        return np.where(self.view.is_non_persistent, others, stays)
