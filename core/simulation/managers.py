"""The two load managers as a simulation needs them: who checks, who places, who reports what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from core.errors import InputError
from core.pulsar.placement import find_strategy, place_bundle, placement_name
from core.pulsar.placement.context import PlacementContext
from core.pulsar.placement.distribution import distribute
from core.pulsar.placement.filters import run_filters
from core.pulsar.placement.model import PlacementMemory
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Move
from core.pulsar.shedding.registry import AnyStrategy, strategies_run_by
from core.pulsar.shedding.unload_checks import UnloadChecks, UnloadOutcome
from core.pulsar.view import Flags, LoadView
from core.simulation.records import after_reports
from core.snapshot import PulsarSnapshot

_PLACEMENT: Final = "loadBalancerLoadPlacementStrategy"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_MAX_REPORT: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_CONVERGED_MINUTES: Final = 60.0

UNLOADS_PER_MINUTE: Final = 600.0
"""An unload took 0.03 to 0.15 s on a real cluster; statistics are renewed once a minute."""


SAMPLES_OF_REST: Final = 10
"""Of each broker's report, after which averages have come to their values."""


class Manager(Protocol):
    """Load manager interface of a simulation."""

    @property
    def placement(self) -> str:
        """Class name of the placement strategy."""
        ...

    @property
    def unloads_per_minute(self) -> float:
        """Max unloads before brokers have reported their new load."""
        ...

    def unload_outcomes(self, view: LoadView, moves: Sequence[Move]) -> Iterator[UnloadOutcome]:
        """Yield the outcome of each selected bundle."""
        ...

    def lookup(
        self, view: LoadView, row: int, placed: Mapping[str, str], available: Flags
    ) -> Mapping[str, float]:
        """Return the destination of an unassigned bundle; ``placed``: recently looked up."""
        ...

    def remembered(self, view: LoadView, state: object, moves: Sequence[Move]) -> object:
        """Return the strategy's memory after moves were carried out."""
        ...


def manager_of(
    snapshot: PulsarSnapshot, strategy: AnyStrategy, settings: EffectiveSettings
) -> ModularManager | ExtensibleManager:
    """Return the manager that runs the strategy.

    Raises:
        InputError: A strategy of the extensible manager without what its brokers publish.
    """
    if strategy.manager != "extensible":
        return ModularManager(settings)
    if not snapshot.broker_loads.num_rows:
        raise InputError(
            f"{strategy.name} uses data that brokers of the extensible manager "
            "publish, and this snapshot has none of it.",
            hint="If the cluster has that manager, see the problems of the snapshot; "
            "else choose another strategy.",
        )
    return ExtensibleManager(settings, strategy)


class ModularManager:
    """Pulsar ``ModularLoadManagerImpl``."""

    def __init__(self, settings: EffectiveSettings) -> None:
        self._settings = settings
        wanted = settings.text(_PLACEMENT).rpartition(".")[2]
        self._strategy = find_strategy(placement_name(settings))
        if self._strategy.name != wanted and settings.release < "5.0":
            raise InputError(
                f"A broker of {settings.release} does not start with {wanted} for placement and "
                "another class for shedding.",
                hint=f"Use {wanted} for both, or another placement strategy.",
            )
        self._interval_minutes = max(settings.number(_INTERVAL), 1.0)

    @property
    def placement(self) -> str:
        """Class name of the placement strategy."""
        return self._strategy.name

    @property
    def unloads_per_minute(self) -> float:
        """One after the other."""
        return UNLOADS_PER_MINUTE

    def unload_outcomes(self, view: LoadView, moves: Sequence[Move]) -> Iterator[UnloadOutcome]:
        """Check and place each, as ``doLoadShedding`` does."""
        return UnloadChecks(view, self._settings).unload_outcomes(moves)

    def lookup(
        self, view: LoadView, row: int, placed: Mapping[str, str], available: Flags
    ) -> Mapping[str, float]:
        """Filters and strategy; the leader remembers what it placed until it is reported."""
        memory = PlacementMemory(preallocated=placed)
        context = PlacementContext(
            view, self._settings, memory, available, knows_leader=True, bundle=row
        )
        namespaces = np.array([view.bundle_namespace[row]], np.int64)
        filtered = run_filters(context, namespaces)
        chances, _ = distribute(context, self._strategy, namespaces, filtered)
        return {view.brokers[at]: float(chances[0, at]) for at in np.flatnonzero(chances[0])}

    def samples(self, brokers: int, touched: int) -> int:
        """Return the number of samples that the leader takes in a round: one for each report.

        Brokers whose bundles changed write one, all others when the longest interval is over.
        """
        quiet_minutes = max(self._settings.number(_MAX_REPORT), 1.0)
        return max(round(touched + brokers * self._interval_minutes / quiet_minutes), 1)

    def remembered(self, _view: LoadView, state: object, _moves: Sequence[Move]) -> object:
        """Nothing more than the strategy itself remembers."""
        return state


class ExtensibleManager:
    """Pulsar ``ExtensibleLoadManagerImpl`` whose strategy checks everything itself."""

    def __init__(self, settings: EffectiveSettings, strategy: AnyStrategy | None = None) -> None:
        self._settings = settings
        self._strategy = strategy or strategies_run_by("extensible")[0]
        self._interval_minutes = max(settings.number(_INTERVAL), 1.0)

    @property
    def placement(self) -> str:
        """The one class there is."""
        return "LeastResourceUsageWithWeight"

    @property
    def unloads_per_minute(self) -> float:
        """All at once: the leader waits for them together."""
        return np.inf

    def unload_outcomes(self, view: LoadView, moves: Sequence[Move]) -> Iterator[UnloadOutcome]:
        """Take the destinations that the strategy gave; place the rest."""
        view.indexed_for(len(moves))
        for move in moves:
            known = move.destination is not None
            yield (
                UnloadOutcome(move, {str(move.destination): 1.0})
                if known
                else self._placed(view, move)
            )

    def _placed(self, view: LoadView, move: Move) -> UnloadOutcome:
        found = place_bundle(view, move.bundle, self._settings)
        return UnloadOutcome(move, found.distribution, "" if found.distribution else found.why)

    def lookup(
        self, view: LoadView, row: int, _placed: Mapping[str, str], available: Flags
    ) -> Mapping[str, float]:
        """Filters and strategy; nothing is remembered between lookups."""
        candidates = [view.brokers[at] for at in np.flatnonzero(available)]
        bundle = str(view.bundles[row])
        return place_bundle(view, bundle, self._settings, candidates=candidates).distribution

    def reported(
        self, snapshot: PulsarSnapshot, touched: set[str], tops: pa.Table | None = None
    ) -> PulsarSnapshot:
        """Publish load and hottest bundles; ``tops``: see :func:`after_reports`."""
        return after_reports(snapshot, self._settings, self._interval_minutes, touched, tops)

    def rested(
        self, snapshot: PulsarSnapshot, state: object, tops: pa.Table | None = None
    ) -> tuple[PulsarSnapshot, object]:
        """Smoothed usage converges to its value, and no broker rests any more."""
        later = after_reports(snapshot, self._settings, _CONVERGED_MINUTES, (), tops)
        return later, self._strategy.with_recent_sources(state, {})

    def remembered(self, view: LoadView, state: object, moves: Sequence[Move]) -> object:
        """Sources of the moves rest."""
        return self._strategy.after_unloads(view, state, moves)
