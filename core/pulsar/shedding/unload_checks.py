"""What the load manager checks before it unloads a picked bundle, and its destination.

Nothing is recomputed between the bundles of a round: each is checked and placed as if alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.pulsar.placement import (
    PlacementMemory,
    PlacementTable,
    place_bundle,
)
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.place import chances_of, place_namespaces
from core.pulsar.placement.selectors import PAIRED_NAMES
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding.model import Move
from core.pulsar.view import LoadView
from core.units import pluralize

_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_EXCLUDED: Final = "loadBalancerSheddingExcludedNamespaces"
_FEW_NAMESPACES: Final = 12


@dataclass(frozen=True, slots=True)
class UnloadOutcome:
    """Outcome of one selected bundle.

    Attributes:
        move: What the strategy picked.
        distribution: ``{broker: probability}`` of its destination; the owner's share is the chance
            that it stays where it is; before 3.0.2 it is unloaded for that, too. Empty: it is not
            unloaded.
        skipped: Why it is not unloaded; blank: it is.
    """

    move: Move
    distribution: dict[str, float]
    skipped: str = ""


class _SelectedMove(NamedTuple):
    """One move with what decides about it: the row of its namespace, and its kind of topics."""

    move: Move
    namespace: int
    is_non_persistent: bool


@dataclass(frozen=True, slots=True)
class _NamespaceDestinations:
    """Destinations of a namespace's bundles: see :class:`core.pulsar.placement.Placement`."""

    distribution: dict[str, float]
    candidates: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, eq=False)
class UnloadChecks:
    """The checks of ``doLoadShedding`` on one view.

    Attributes:
        view: Load of the cluster.
        settings: The leader's active settings.
    """

    view: LoadView
    settings: EffectiveSettings

    @cached_property
    def _context(self) -> PlacementContext:
        return PlacementContext.of(self.view, self.settings)

    @cached_property
    def _is_paired(self) -> bool:
        """Whether placement uses the destinations that the shedding strategy planned."""
        return self.settings.text(_PLACEMENT).rpartition(".")[2] in PAIRED_NAMES

    @cached_property
    def _tables(self) -> dict[int, PlacementTable]:
        """Tables so far, by the rows of the namespaces that each is about."""
        return {}

    @cached_property
    def _refused(self) -> dict[tuple[int, str, bool], str]:
        """Refusals so far, by all that decides them: namespace, broker and kind of topics."""
        return {}

    @cached_property
    def _shares(self) -> dict[tuple[int, bool], dict[str, float]]:
        """Distributions of :attr:`_tables` so far, by namespace and kind of topics."""
        return {}

    @cached_property
    def _placed(self) -> dict[tuple[int, bool], _NamespaceDestinations]:
        """Placements so far, by namespace and by whether topics are non-persistent."""
        return {}

    def unload_outcomes(self, moves: Sequence[Move]) -> Iterator[UnloadOutcome]:
        """Yield the outcome of each move, in order.

        Source:
            Pulsar ``ModularLoadManagerImpl#doLoadShedding``.
        """
        self.view.indexed_for(len(moves))
        picked = self._picked(moves)
        namespaces = {one.namespace for one in picked}
        many = len(namespaces) > _FEW_NAMESPACES
        if len(namespaces) > 1:
            self._place(namespaces)
        for one in picked:
            move, key = one.move, (one.namespace, one.move.broker, one.is_non_persistent)
            refused = self._refused.get(key)
            if refused is None:
                refused = self._refused[key] = self._refusal_in(one)
            if refused:
                yield UnloadOutcome(move, {}, refused)
                continue
            found, why = self._distribution(one, many=many)
            if not found:
                yield UnloadOutcome(move, {}, f"no destination: {why}")
            elif found.get(move.broker) == 1.0 and self.settings.rules.names_destination:
                stays = "placement would return it to its current broker"
                yield UnloadOutcome(move, {}, stays)
            else:
                yield UnloadOutcome(move, found)

    def _picked(self, moves: Sequence[Move]) -> list[_SelectedMove]:
        view = self.view
        rows = [view.bundle_row(move.bundle) for move in moves]
        namespaces, kinds = view.bundle_namespace[rows], view.is_non_persistent[rows]
        return list(map(_SelectedMove, moves, namespaces.tolist(), kinds.tolist()))

    def _refusal_in(self, one: _SelectedMove) -> str:
        view, namespace, move = self.view, one.namespace, one.move
        if namespace in self._context.excluded_namespaces:
            return f"namespace {view.namespaces[namespace]} is excluded from shedding ({_EXCLUDED})"
        broker = view.broker_row(move.broker)
        policy = int(view.namespace_policy[namespace])
        row = len(view.policies) if policy < 0 and one.is_non_persistent else policy
        allowed = self._context.allowed[row]
        has_others = self._allowed_counts[row] > allowed[broker]
        if not has_others and self.settings.rules.checks_policies:
            name = (
                f"isolation policy {view.policies[policy].name!r}" if policy >= 0 else "isolation"
            )
            return f"{name} allows no broker but {move.broker}"
        return self._anti_affinity(namespace, broker, allowed)

    @cached_property
    def _allowed_counts(self) -> NDArray[np.int64]:
        """Number of brokers that each row of the policies allows."""
        return np.asarray(self._context.allowed.sum(axis=1), np.int64)

    def _anti_affinity(self, namespace: int, broker: int, allowed: np.ndarray) -> str:
        """Return the reason an anti-affinity group blocks a bundle.

        Source:
            Pulsar ``LoadManagerShared#shouldAntiAffinityNamespaceUnload``: it goes when some broker
            is free of the group, when its own has more of it than the least, or when one candidate
            differs.
        """
        group = int(self.view.namespace_group[namespace])
        if group < 0:
            return ""
        counts = self._context.group_counts[group]
        if not counts.any():
            return ""
        least = int(counts[allowed].min()) if allowed.any() else 0
        if least == 0 or counts[broker] > least or (counts[allowed] != least).any():
            return ""
        return (
            f"anti-affinity group {self.view.groups[group]!r}: every candidate "
            f"already has {pluralize(least, 'namespace')} of it"
        )

    def _distribution(self, one: _SelectedMove, *, many: bool) -> tuple[dict[str, float], str]:
        if one.move.destination is not None and self._is_paired:
            return self._planned(one, one.move.destination)
        table, key = self._tables.get(one.namespace), (one.namespace, one.is_non_persistent)
        if table is not None:
            if key not in self._shares:
                self._shares[key] = table.distribution(one.move.bundle)
            if self._shares[key] or many:  # of a few, the reason is explained
                return self._shares[key], table.why or "no broker is eligible"
        placed = self._in_namespace(one)
        return placed.distribution, placed.why

    def _place(self, namespaces: AbstractSet[int]) -> None:
        """Have the bundles of namespaces placed together; those that were placed before stay."""
        new = sorted(namespaces - self._tables.keys())
        if new:
            rows = np.array(new, np.int64)
            table = place_namespaces(self.view, self.settings, rows, self.view.bound_namespaces)
            self._tables.update(dict.fromkeys(new, table))

    def _in_namespace(self, one: _SelectedMove) -> _NamespaceDestinations:
        """Return the placement of a bundle: its namespace and its kind of topics matter."""
        key = one.namespace, one.is_non_persistent
        if key not in self._placed:
            found = chances_of(self.view, one.move.bundle, self.settings)
            if found is None:
                placed = place_bundle(self.view, one.move.bundle, self.settings)
                self._placed[key] = _NamespaceDestinations(
                    dict(placed.distribution), placed.candidates, placed.why
                )
            else:
                self._placed[key] = _NamespaceDestinations(*found)
        return self._placed[key]

    def _planned(self, one: _SelectedMove, planned: str) -> tuple[dict[str, float], str]:
        """Return the destination that the shedding strategy planned for a bundle."""
        is_sure = self.settings.release < "5.0"  # from 5.0 on an overloaded one is passed over
        if is_sure and planned in self._in_namespace(one).candidates:
            return {planned: 1.0}, ""
        memory = PlacementMemory(planned={one.move.bundle: planned})
        placed = place_bundle(self.view, one.move.bundle, self.settings, memory=memory)
        return dict(placed.distribution), placed.why
