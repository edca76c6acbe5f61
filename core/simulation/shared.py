"""Simulations of one cluster under different settings, which share what comes out the same.

Most settings change a simulation late or never. A round is computed once for all simulations that
reach it with the same fleet, memory and settings that it reads; the next round then starts from one
and the same fleet. Nothing is approximated: what a setting decides is computed for its every value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from core.pulsar.catalogue import Value
from core.pulsar.measures import Measures
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Move
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import Landing
from core.pulsar.view import LoadView
from core.simulation.cluster import LocalCluster, touched_by
from core.simulation.managers import ModularManager, manager_of
from core.simulation.model import Landed
from core.snapshot import PulsarSnapshot

_MAX_ROWS: Final = 1_200_000
"""Bundles in all fleets held: about 250 bytes each, averages and layout included."""

_MAX_FLEETS: Final = 1_500


@dataclass(frozen=True, kw_only=True)
class RecordedSettings(EffectiveSettings):
    """Settings that record which of them are read."""

    reads: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def recorded(cls, settings: EffectiveSettings) -> RecordedSettings:
        """Return the same settings, none of them read so far."""
        own = {one.name: getattr(settings, one.name) for one in fields(EffectiveSettings)}
        return cls(**own)

    def value(self, key: str) -> Value:
        """Return the typed value, and record the key."""
        self.reads.add(key)
        return super().value(key)


class SharedRounds:
    """Results of rounds by what they were computed from, for simulations of one snapshot.

    Fleets are identified by identity, so a fleet that is not held has no results here. What is held
    first stays: the rounds of the cluster as it is serve every other simulation.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[Any, object]] = {}
        self._landings: dict[Hashable, list[tuple[dict[str, Value], tuple[Landing, ...]]]] = {}
        self._states: dict[int, Any] = {}
        self._first: list[Any] = []
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
        self, key: Hashable, used: object, make: Callable[[], PulsarSnapshot]
    ) -> tuple[PulsarSnapshot, bool]:
        """Return the fleet of ``key``, and whether it is held."""
        held = self._results.get(key)
        if held is not None:
            return held[0], True
        snapshot = make()
        rows = snapshot.bundles.num_rows
        if self._fleets >= _MAX_FLEETS or self._rows + rows > _MAX_ROWS:
            return snapshot, False
        self._fleets, self._rows = self._fleets + 1, self._rows + rows
        self._results[key] = (snapshot, used)
        return snapshot, True

    def landings(
        self, key: Hashable, settings: EffectiveSettings, make: Callable[[Any], Any]
    ) -> tuple[Landing, ...]:
        """Return the landings of ``key`` under the settings that they read, computed if new."""
        for reads, landings in self._landings.setdefault(key, []):
            if all(settings.value(name) == value for name, value in reads.items()):
                return landings
        recorded = RecordedSettings.recorded(settings)
        found: tuple[Landing, ...] = tuple(make(recorded))
        reads = {name: settings.value(name) for name in sorted(recorded.reads)}
        self._landings[key].append((reads, found))
        return found

    def state(self, state: Any) -> Any:
        """Return one object for a strategy's memory, wherever the same memory comes from."""
        if id(state) in self._states:
            return state
        for known in self._first:
            if type(known) is type(state) and known == state:
                return known
        self._first.append(state)
        return self.hold_state(state)

    def hold_state(self, state: Any) -> Any:
        """Keep a memory, so that its identity stays its own."""
        return self._states.setdefault(id(state), state)


@dataclass(frozen=True, eq=False)
class SharedCluster(LocalCluster):
    """A fleet of the modular manager whose rounds are shared.

    Attributes:
        shared: With whom.
        is_held: Whether this fleet is; otherwise its rounds are computed by itself.
    """

    shared: SharedRounds = field(default_factory=SharedRounds, kw_only=True)
    is_held: bool = field(default=True, kw_only=True)

    def decided(self, state: Any, recent: frozenset[str]) -> tuple[Decision, Any]:
        """Run the strategy, once for the same load, memory and settings of the strategy."""
        if not self.is_held:
            return super().decided(state, recent)
        view, known, config = self._view, self.shared.state(state), self._config
        key = ("decided", id(view), self.strategy.name, config, id(known), recent)

        def decide() -> tuple[Decision, Any]:
            decision, following = self.strategy.decide(view, config, known, recent)
            return decision, known if following == known else self.shared.hold_state(following)

        decided: tuple[Decision, Any] = self.shared.result(key, view, decide)
        return decided

    def landings(self, moves: Sequence[Move]) -> Sequence[Landing]:
        """Place by the manager, once under the settings that placement reads."""
        if not moves:
            return ()
        if not self.is_held:
            return tuple(super().landings(moves))
        view = self._view
        self.shared.result(("view", id(view)), view, lambda: view)
        key = (id(view), self.settings.target, tuple(moves))
        return self.shared.landings(
            key, self.settings, lambda settings: ModularManager(settings).landings(view, moves)
        )

    def after(self, moves: Sequence[Landed]) -> SharedCluster:
        """Project the moves and have them reported, once for the same moves."""
        touched = len(touched_by(moves))
        manager = ModularManager(self.settings)
        samples = manager.samples(self.snapshot.brokers.num_rows, touched)
        return self._fleet(
            ("after", id(self.snapshot), tuple(moves), samples),
            lambda: super(SharedCluster, self).after(moves).snapshot,
        )

    def rested(self, state: Any) -> tuple[SharedCluster, Any]:
        """Have averages come to their values, once for a fleet."""
        key = ("rested", id(self.snapshot))
        return self._fleet(key, lambda: super(SharedCluster, self).rested(state)[0].snapshot), state

    def impact(self, moves: Sequence[Landed]) -> ClientImpact:
        """Add it up."""
        if not self.is_held:
            return super().impact(moves)
        key = ("impact", id(self.snapshot), tuple(moves))
        found: ClientImpact = self.shared.result(
            key, self.snapshot, lambda: super(SharedCluster, self).impact(moves)
        )
        return found

    def measures(self) -> Measures:
        """Measure it, once for a load."""
        if not self.is_held:
            return super().measures()
        view = self._view
        key = ("measures", id(view))
        found: Measures = self.shared.result(
            key, view, lambda: super(SharedCluster, self).measures()
        )
        return found

    def _fleet(self, key: Hashable, make: Callable[[], PulsarSnapshot]) -> SharedCluster:
        if not self.is_held:
            return replace(self, snapshot=make())
        snapshot, is_held = self.shared.fleet(key, self.snapshot, make)
        return replace(self, snapshot=snapshot, is_held=is_held)

    @cached_property
    def _view(self) -> LoadView:
        if not self.is_held:
            return LoadView.of(self.snapshot, self.settings)
        key = ("laid out", id(self.snapshot), LoadView.inputs(self.settings))
        view: LoadView = self.shared.result(
            key, self.snapshot, lambda: LoadView.of(self.snapshot, self.settings)
        )
        return view

    @cached_property
    def _config(self) -> Any:
        return self.strategy.config(self.settings)


def shared_cluster(
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    strategy: AnyStrategy,
    shared: SharedRounds,
) -> LocalCluster:
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
        return LocalCluster(snapshot, settings, strategy, manager)
    shared.result(("start", id(snapshot)), snapshot, lambda: snapshot)
    return SharedCluster(snapshot, settings, strategy, manager, shared=shared)
