"""What a simulation reads of a cluster, and a cluster whose bundles are in this process.

The rounds get decisions and destinations from a :class:`SimulatedCluster` and report what moved; a
very large cluster, whose bundles no process holds, answers elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.pulsar.bundle_index import share_bundle_index
from core.pulsar.cluster import ColumnFleet, FleetStart
from core.pulsar.measures import Measures, measure, owned_bundle_counts
from core.pulsar.plan.clients import ClientImpact, client_impact, client_impact_of
from core.pulsar.plan.outcomes import Scenario
from core.pulsar.plan.project import project_scenario
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Move
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadOutcome
from core.pulsar.view import LoadView, share_layout
from core.simulation.managers import (
    SAMPLES_OF_REST,
    ExtensibleManager,
    Manager,
    ModularManager,
    manager_of,
)
from core.simulation.model import SimulatedMove
from core.simulation.scenario import joined, without_brokers
from core.snapshot import PulsarSnapshot


class SimulatedCluster(Protocol):
    """A fleet at one moment of a simulation; changes make a new one."""

    @property
    def snapshot(self) -> PulsarSnapshot:
        """The current fleet; of a very large one its brokers, without their bundles."""
        ...

    @property
    def identity(self) -> object:
        """An object that is the same for the same fleet."""
        ...

    @property
    def manager(self) -> Manager:
        """Load manager rules: checks, placement, reports."""
        ...

    def decided(self, state: object, recent: frozenset[str]) -> tuple[Decision, object]:
        """Return the strategy's decision and its memory; ``recent``: in grace period."""
        ...

    def unload_outcomes(self, moves: Sequence[Move]) -> Iterable[UnloadOutcome]:
        """Return the outcome of each selected bundle, in order."""
        ...

    def remembered(self, state: object, moves: Sequence[Move]) -> object:
        """Return the strategy's memory after moves are carried out."""
        ...

    def after(self, moves: Sequence[SimulatedMove]) -> SimulatedCluster:
        """Return the fleet once bundles have moved and the reports of that were written."""
        ...

    def changed(
        self, grown: PulsarSnapshot, gone: Sequence[str], rng: np.random.Generator
    ) -> tuple[SimulatedCluster, tuple[SimulatedMove, ...]]:
        """Return the fleet once brokers joined and went and that was reported, and what moved.

        Args:
            grown: :attr:`snapshot` with the brokers that join; itself where none does.
            gone: Those that go; their bundles are looked up one after the other.
            rng: For the draws, and the order of the lookups.
        """
        ...

    def rested(self, state: object) -> tuple[SimulatedCluster, object]:
        """Return fleet and memory once everything that only takes time is over."""
        ...

    def impact(self, moves: Sequence[SimulatedMove]) -> ClientImpact:
        """Return the cost of the moves that led to this fleet."""
        ...

    def measures(self) -> Measures:
        """Return the evenness of its load."""
        ...


def local_cluster(
    snapshot: PulsarSnapshot, settings: EffectiveSettings, strategy: AnyStrategy
) -> ModularCluster | ExtensibleCluster:
    """Return a fleet that this process holds.

    Args:
        snapshot: All of it.
        settings: What the leader goes by.
        strategy: Who decides.
    Raises:
        InputError: The strategy cannot run on this snapshot.
    """
    manager = manager_of(snapshot, strategy, settings)
    if isinstance(manager, ModularManager):
        return ModularCluster(settings, strategy, manager, FleetStart(snapshot).fleet())
    return ExtensibleCluster(settings, strategy, manager, snapshot)


@dataclass(frozen=True, eq=False)
class _LocalCluster:
    """A fleet that this process holds.

    Attributes:
        settings: What the leader goes by.
        strategy: Who decides.
        manager: Who checks, places and reports.
    """

    settings: EffectiveSettings
    strategy: AnyStrategy
    manager: ModularManager | ExtensibleManager

    @cached_property
    def _view(self) -> LoadView:
        raise NotImplementedError

    def decided(self, state: object, recent: frozenset[str]) -> tuple[Decision, object]:
        """Run the strategy."""
        config = self.strategy.config(self.settings)
        decided: tuple[Decision, object] = self.strategy.decide(self._view, config, state, recent)
        return decided

    def unload_outcomes(self, moves: Sequence[Move]) -> Iterable[UnloadOutcome]:
        """Place by the manager, one by one."""
        return self.manager.unload_outcomes(self._view, moves)

    def remembered(self, state: object, moves: Sequence[Move]) -> object:
        """Delegate to the manager."""
        return self.manager.remembered(self._view, state, moves)


@dataclass(frozen=True, eq=False)
class ModularCluster(_LocalCluster):
    """A fleet of the modular manager; ``fleet`` is all of it."""

    manager: ModularManager
    fleet: ColumnFleet

    @property
    def snapshot(self) -> PulsarSnapshot:
        """The current fleet; its tables are built on first access."""
        return self.fleet.snapshot

    @property
    def identity(self) -> object:
        """The fleet."""
        return self.fleet

    @cached_property
    def _view(self) -> LoadView:
        return self.fleet.view(self.settings)

    def after(self, moves: Sequence[SimulatedMove]) -> ModularCluster:
        """Move the bundles, and sample the averages by the reports of that."""
        fleet = self.fleet
        if moves:
            fleet = fleet.moved(self._rows(moves), [str(move.destination) for move in moves])
        return replace(self, fleet=fleet.sampled(self._samples(moves)))

    def _samples(self, moves: Sequence[SimulatedMove]) -> int:
        return self.manager.samples(len(self.fleet.start.names), len(touched_by(moves)))

    def changed(
        self, grown: PulsarSnapshot, gone: Sequence[str], rng: np.random.Generator
    ) -> tuple[ModularCluster, tuple[SimulatedMove, ...]]:
        """Look up what went, and sample the averages by the reports of that."""
        after, moves, touched = _changed(self, grown, gone, rng)
        fleet = FleetStart(after).fleet()
        samples = self.manager.samples(len(fleet.start.names), len(touched))
        fleet = fleet.sampled(samples)
        return ModularCluster(self.settings, self.strategy, self.manager, fleet), moves

    def rested(self, state: object) -> tuple[ModularCluster, object]:
        """Averages come to their values."""
        count = len(self.fleet.start.names) * SAMPLES_OF_REST
        return replace(self, fleet=self.fleet.sampled(count)), state

    def impact(self, moves: Sequence[SimulatedMove]) -> ClientImpact:
        """Add it up."""
        return client_impact_of(self.fleet.start.column, self._rows(moves))

    def measures(self) -> Measures:
        """Measure it."""
        return self.fleet.measures(self.settings)

    def _rows(self, moves: Sequence[SimulatedMove]) -> NDArray[np.int64]:
        if not moves:
            return np.zeros(0, np.int64)
        index = self._view.bundle_index
        return np.array([index[move.bundle] for move in moves], np.int64)


@dataclass(frozen=True, eq=False)
class ExtensibleCluster(_LocalCluster):
    """A fleet of the extensible manager; ``snapshot`` is all of it."""

    manager: ExtensibleManager
    snapshot: PulsarSnapshot

    @property
    def identity(self) -> object:
        """The snapshot."""
        return self.snapshot

    @cached_property
    def _view(self) -> LoadView:
        return LoadView.of(self.snapshot, self.settings)

    def after(self, moves: Sequence[SimulatedMove]) -> ExtensibleCluster:
        """Project the moves, and have them reported."""
        snapshot = self.snapshot
        if moves:
            rows = np.array([self._view.bundle_row(move.bundle) for move in moves], np.int64)
            ends = tuple(move.destination for move in moves)
            snapshot = project_scenario(snapshot, rows, Scenario(1.0, ends))
            share_layout(self.snapshot, snapshot, has_moved=True)
        later = self.manager.reported(snapshot, touched_by(moves))
        self._share(snapshot, later)
        if self._view.indexed_for(len(moves)):
            share_bundle_index(self.snapshot, later)
        return replace(self, snapshot=later)

    def changed(
        self, grown: PulsarSnapshot, gone: Sequence[str], rng: np.random.Generator
    ) -> tuple[ExtensibleCluster, tuple[SimulatedMove, ...]]:
        """Look up what went, and have it reported."""
        after, moves, touched = _changed(self, grown, gone, rng)
        return replace(self, snapshot=self.manager.reported(after, touched)), moves

    def rested(self, state: object) -> tuple[ExtensibleCluster, object]:
        """Delegate to the manager."""
        snapshot, state = self.manager.rested(self.snapshot, state)
        self._share(self.snapshot, snapshot)
        return replace(self, snapshot=snapshot), state

    @staticmethod
    def _share(before: PulsarSnapshot, after: PulsarSnapshot) -> None:
        """Give what was laid out or counted to a fleet that differs in reports only."""
        if after is not before:
            share_layout(before, after, has_moved=False)
            counts = owned_bundle_counts(before)
            after.derived.get("owned_bundle_counts", lambda: counts)

    def impact(self, moves: Sequence[SimulatedMove]) -> ClientImpact:
        """Add it up."""
        view = self._view
        view.indexed_for(len(moves))
        return client_impact(
            self.snapshot.bundles, [view.bundle_row(move.bundle) for move in moves]
        )

    def measures(self) -> Measures:
        """Measure it."""
        return measure(self.snapshot, self.settings)


def _changed(
    cluster: ModularCluster | ExtensibleCluster,
    grown: PulsarSnapshot,
    gone: Sequence[str],
    rng: np.random.Generator,
) -> tuple[PulsarSnapshot, tuple[SimulatedMove, ...], set[str]]:
    """Return the fleet once brokers joined and went, what moved, and the brokers that report it."""
    after: PulsarSnapshot = grown
    moves: tuple[SimulatedMove, ...] = ()
    if gone:
        view = LoadView.of(grown, cluster.settings)
        done = without_brokers(grown, view, gone, cluster.manager, rng)
        after, moves = done.snapshot, done.moves
    return after, moves, joined(cluster.snapshot, grown) | touched_by(moves)


def touched_by(moves: Sequence[SimulatedMove]) -> set[str]:
    """Return the brokers that gave or took a bundle."""
    ends = {end for move in moves for end in (move.source, move.destination)}
    return {end for end in ends if end is not None}
