"""Fleets that do not exist: brokers join, leave or fail, and the Rebalance page compares on that.

Where the bundles of brokers that go land is what the cluster's own placement would do. Nothing that
is computed on such a fleet can be applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from core.errors import InputError, OpsError
from core.findings.measures import Spread
from core.pulsar.measures import Measures, measure
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES, active_shedding_strategy
from core.pulsar.view import LoadView
from core.simulation import RoundResult, Run, WhatIf, changed_fleet
from core.snapshot import PulsarSnapshot
from core.snapshot.store import CachedSnapshot
from dashboard.queries.background import BackgroundResults
from dashboard.queries.cache import cached
from dashboard.queries.pulsar.snapshots import Reading, reading

_NEW: Final = "new-broker-{}:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """Changes of the fleet against the snapshot; by default none.

    Attributes:
        joining: How many brokers join, empty, as large as most.
        failing: Brokers that leave or fail.
        domains: Failure domains all of whose brokers fail.
    """

    joining: int = 0
    failing: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    @property
    def is_real(self) -> bool:
        """Whether it is the snapshot's own fleet."""
        return not (self.joining or self.failing or self.domains)

    def what_if(self, snapshot: PulsarSnapshot) -> WhatIf:
        """Return it as simulations take it, with names for those that join."""
        there = set(snapshot.brokers["broker"].to_pylist())
        numbers = range(1, self.joining + len(there) + 1)
        free = [name for name in map(_NEW.format, numbers) if name not in there]
        return WhatIf(added=free[: self.joining], failed=self.failing, failed_domains=self.domains)


REAL: Final = FleetChange()


@dataclass(frozen=True, kw_only=True)
class FleetScenario:
    """A fleet that does not exist, as a reading has it.

    Attributes:
        snapshot: The snapshot with the change.
        settings: In force.
        view: For the kernels.
        change: What the change itself moved.
        before: Traffic of the brokers before it.
        measures: Of the changed fleet, before anything is shed.
    """

    snapshot: PulsarSnapshot = field(repr=False)
    settings: EffectiveSettings
    view: LoadView = field(repr=False)
    change: RoundResult
    before: Spread
    measures: Measures


def _strategy(one: Reading) -> str:
    """The strategy in force: it says which manager places; any does where it is not known."""
    try:
        return active_shedding_strategy(one.snapshot.manifest.load_manager, one.settings).name
    except OpsError:
        return SHEDDING_STRATEGY_NAMES[0]


def _scenario(key: tuple[CachedSnapshot, FleetChange]) -> FleetScenario | str:
    stored, fleet = key
    one = reading(stored)
    try:
        run = Run(shedding=_strategy(one), what_if=fleet.what_if(one.snapshot))
        changed, change = changed_fleet(one.snapshot, run)
    except OpsError as error:
        return f"{error.message} {error.hint}".strip()
    if change is None:
        return "The scenario is ignored."
    return FleetScenario(
        snapshot=changed,
        settings=one.settings,
        view=LoadView.of(changed, one.settings),
        change=change,
        before=one.measures.throughput,
        measures=measure(changed, one.settings),
    )


scenarios = cached(_scenario, max_entries=8)
scenarios_in_background = BackgroundResults(scenarios, max_entries=8)
"""The changed fleet of a snapshot, or why there is none; computed here or in the background."""


def origin(stored: CachedSnapshot, fleet: FleetChange) -> Reading | FleetScenario:
    """Return the basis of the decision: the reading of the snapshot, or the changed fleet.

    Raises:
        InputError: There is no such fleet.
    """
    if fleet.is_real:
        return reading(stored)
    found = scenarios((stored, fleet))
    if isinstance(found, str):
        raise InputError(found)
    return found
