"""Simulations of one cluster under different settings, which share what comes out the same.

Most settings change a simulation late or never. A round is computed once for all simulations that
reach it with the same fleet, memory and settings that it reads; the next round then starts from one
and the same fleet. Nothing is approximated: what a setting decides is computed for its every value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from core.pulsar.catalogue import Value
from core.pulsar.cluster import ColumnFleet, FleetStart
from core.pulsar.measures import Measures
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Move
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadOutcome
from core.pulsar.view import LoadView
from core.simulation.cluster import ExtensibleCluster, ModularCluster
from core.simulation.managers import ModularManager, manager_of
from core.simulation.model import SimulatedMove
from core.snapshot import PulsarSnapshot

_MAX_ROWS: Final = 1_200_000
"""Bundles in all fleets held: about 250 bytes each, averages and layout included."""

_MAX_FLEETS: Final = 1_500
_CONFIG: Final = "_shared_shedding_config"


@dataclass(frozen=True, kw_only=True)
class RecordedSettings(EffectiveSettings):
    """Settings that record which of them are read."""

    _read: dict[str, Value] = field(default_factory=dict, compare=False, repr=False)

    @property
    def reads(self) -> frozenset[str]:
        """The settings that were read."""
        return frozenset(self._read)

    @classmethod
    def recorded(cls, settings: EffectiveSettings) -> RecordedSettings:
        """Return the same settings, none of them read so far."""
        own = {one.name: getattr(settings, one.name) for one in fields(EffectiveSettings)}
        return cls(**own)

    def value(self, key: str) -> Value:
        """Return the typed value, and record the key."""
        try:
            return self._read[key]
        except KeyError:
            found = self._read[key] = super().value(key)
            return found


class SharedRounds:
    """Results of rounds by what they were computed from, for simulations of one snapshot.

    Fleets are identified by identity, so a fleet that is not held has no results here. What is held
    first stays: the rounds of the cluster as it is serve every other simulation.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[object, object]] = {}
        self._unload_outcomes: dict[
            Hashable, list[tuple[dict[str, Value], tuple[UnloadOutcome, ...]]]
        ] = {}
        self._states: dict[int, object] = {}
        self._first: list[object] = []
        self._rows = self._fleets = 0

    def result(self, key: Hashable, used: object, make: Callable[[], Any]) -> Any:
        """Return the result of ``key``, computed now if it is not held.

        Args:
            key: With the identity of what the result is computed from.
            used: The objects identified; they are kept, so that no other gets their identity.
            make: Computes it.
        """
        held = self._results.get(key)
        if held is None:
            held = self._results[key] = (make(), used)
        return held[0]

    def fleet(
        self, key: Hashable, used: object, make: Callable[[], ColumnFleet]
    ) -> tuple[ColumnFleet, bool]:
        """Return the fleet of ``key``, and whether it is held."""
        held: tuple[Any, object] | None = self._results.get(key)
        if held is not None:
            return held[0], True
        fleet = make()
        if fleet is used:  # nothing has changed: no further one is held
            self._results[key] = (fleet, used)
            return fleet, True
        rows = fleet.start.size
        if self._fleets >= _MAX_FLEETS or self._rows + rows > _MAX_ROWS:
            return fleet, False
        self._fleets, self._rows = self._fleets + 1, self._rows + rows
        self._results[key] = (fleet, used)
        return fleet, True

    def unload_outcomes(
        self,
        key: Hashable,
        settings: EffectiveSettings,
        make: Callable[[EffectiveSettings], Iterable[UnloadOutcome]],
    ) -> tuple[UnloadOutcome, ...]:
        """Return the outcomes of ``key`` under the settings that they read, computed if new."""
        for reads, unload_outcomes in self._unload_outcomes.setdefault(key, []):
            if all(settings.value(name) == value for name, value in reads.items()):
                return unload_outcomes
        recorded = RecordedSettings.recorded(settings)
        found: tuple[UnloadOutcome, ...] = tuple(make(recorded))
        reads = {name: settings.value(name) for name in sorted(recorded.reads)}
        self._unload_outcomes[key].append((reads, found))
        return found

    def state(self, state: object) -> object:
        """Return one object for a strategy's memory, wherever the same memory comes from."""
        if id(state) in self._states:
            return state
        for known in self._first:
            if type(known) is type(state) and known == state:
                return known
        self._first.append(state)
        return self.hold_state(state)

    def hold_state(self, state: object) -> object:
        """Keep a memory, so that its identity stays its own."""
        return self._states.setdefault(id(state), state)


@dataclass(frozen=True, eq=False)
class SharedCluster(ModularCluster):
    """A fleet whose rounds are shared; one that is not held goes on by itself.

    Attributes:
        shared: With whom.
    """

    shared: SharedRounds

    def decided(self, state: object, recent: frozenset[str]) -> tuple[Decision, object]:
        """Run the strategy, once for the same load, memory and settings of the strategy."""
        view, config = self._view, self._config
        known = self.shared.state(state)
        key = ("decided", id(view), self.strategy.name, id(config), id(known), recent)

        def decide() -> tuple[Decision, object]:
            decision, following = self.strategy.decide(view, config, known, recent)
            return decision, known if following == known else self.shared.hold_state(following)

        decided: tuple[Decision, object] = self.shared.result(key, view, decide)
        return decided

    def unload_outcomes(self, moves: Sequence[Move]) -> Sequence[UnloadOutcome]:
        """Place by the manager, once under the settings that placement reads."""
        if not moves:
            return ()
        view = self._view
        self.shared.result(("view", id(view)), view, lambda: view)
        key = (id(view), self.settings.target, tuple(moves))
        return self.shared.unload_outcomes(
            key,
            self.settings,
            lambda settings: ModularManager(settings).unload_outcomes(view, moves),
        )

    def after(self, moves: Sequence[SimulatedMove]) -> ModularCluster:
        """Move the bundles and have that reported, once for the same moves."""
        key = ("after", id(self.fleet), tuple(moves), self._samples(moves))
        return self._on(key, lambda: super(SharedCluster, self).after(moves).fleet)

    def rested(self, state: object) -> tuple[ModularCluster, object]:
        """Have averages come to their values, once for a fleet."""
        key = ("rested", id(self.fleet))
        return self._on(key, lambda: super(SharedCluster, self).rested(state)[0].fleet), state

    def measures(self) -> Measures:
        """Measure it, once for a load."""
        key = ("measures", id(self._view))
        found: Measures = self.shared.result(key, self._view, super().measures)
        return found

    def _on(self, key: Hashable, make: Callable[[], ColumnFleet]) -> ModularCluster:
        fleet, is_held = self.shared.fleet(key, self.fleet, make)
        if is_held:
            return replace(self, fleet=fleet)
        return ModularCluster(self.settings, self.strategy, self.manager, fleet)

    @cached_property
    def _view(self) -> LoadView:
        key = ("laid out", id(self.fleet), LoadView.inputs(self.settings))
        view: LoadView = self.shared.result(key, self.fleet, lambda: self.fleet.view(self.settings))
        return view

    @property
    def _config(self) -> object:
        """The settings of the strategy, one object for equal ones; read once for all rounds."""
        held = self.settings.__dict__
        if _CONFIG not in held:
            held[_CONFIG] = self.shared.state(self.strategy.config(self.settings))
        return held[_CONFIG]


def shared_cluster(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    strategy: AnyStrategy,
    shared: SharedRounds,
) -> ModularCluster | ExtensibleCluster:
    """Return a fleet whose rounds are shared; brokers of the extensible manager share none.

    Args:
        snapshot: The start; the same object in all simulations that are to share.
        settings: What the leader goes by.
        strategy: Who decides.
        shared: With whom.
    Raises:
        InputError: The strategy cannot run on this snapshot.
    """
    manager = manager_of(snapshot, strategy, settings)
    if not isinstance(manager, ModularManager):
        return ExtensibleCluster(settings, strategy, manager, snapshot)
    key = ("start", id(snapshot))
    start: ColumnFleet = shared.result(key, snapshot, lambda: FleetStart(snapshot).fleet())
    return SharedCluster(settings, strategy, manager, start, shared)
