"""The leader's own shedding, off until its setting is on: rounds at its interval, as upstream's."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from time import time
from typing import Final

import numpy as np

from connectors.sandbox.pulsar.engine import Engine
from connectors.sandbox.pulsar.ownership import OwnershipChanges
from connectors.sandbox.pulsar.state import NO_BROKER
from core.errors import InputError, RemoteError
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import find_shedding_strategy
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.shedding.unload_checks import UnloadChecks, UnloadOutcome

_LOOK_S: Final = 0.25
_MAX_ROUNDS: Final = 1_000
_STRATEGY: Final = "loadBalancerLoadSheddingStrategy"
_INTERVAL: Final = "loadBalancerSheddingIntervalMinutes"
_GRACE: Final = "loadBalancerSheddingGracePeriodMinutes"


@dataclass(kw_only=True)
class HeldRound:
    """One shedding round, as the leader held it.

    Attributes:
        at_s: Its start, seconds since the epoch.
        leader: Broker id.
        selected: What the strategy selected, in order.
        unloaded: What was unloaded of it.
    """

    at_s: float
    leader: str
    selected: tuple[str, ...] = ()
    unloaded: list[str] = field(default_factory=list)


class OwnBalancer:
    """Sheds while this broker or that one leads; a new leader begins with no memory.

    Args:
        engine: The running cluster.
        ownership: Who unloads.
    Source:
        Pulsar ``LoadSheddingTask``, ``ModularLoadManagerImpl#doLoadShedding``.
    """

    def __init__(self, engine: Engine, ownership: OwnershipChanges) -> None:
        self._engine, self._ownership = engine, ownership
        self._rng = np.random.default_rng([engine.options.seed, 5])
        self._strategy: AnyStrategy | None = None
        self._state: object = None
        self._leader = NO_BROKER
        self._unloaded_s: dict[str, float] = {}
        self.rounds: deque[HeldRound] = deque(maxlen=_MAX_ROUNDS)

    async def run(self) -> None:
        """Hold a round at every interval, the first one after the election; until cancelled."""
        engine = self._engine
        ended_s, elected_s = engine.elected_s, engine.elected_s
        while True:
            if elected_s != engine.elected_s:
                ended_s = elected_s = engine.elected_s
            settings = engine.load_manager.settings()
            interval_s = max(settings.number(_INTERVAL), 1.0) * engine.options.minute_s
            left_s = ended_s + interval_s - time()
            if left_s > 0:
                await asyncio.sleep(min(_LOOK_S, left_s))
                continue
            with contextlib.suppress(RemoteError):  # ZooKeeper is away: at the next interval
                await self._round(settings)
            ended_s = time()  # upstream's timer waits from the end of a round

    async def _round(self, settings: EffectiveSettings) -> None:
        engine = self._engine
        if settings.shedding_off or engine.leader == NO_BROKER:
            return
        await engine.write_averages_if_due(time())  # the same thread does both, in this order
        async with engine.sampling:
            held = HeldRound(at_s=time(), leader=engine.state.brokers[engine.leader].broker_id)
            unload_outcomes = self._decided(settings)
        held.selected = tuple(outcome.move.bundle for outcome in unload_outcomes)
        self.rounds.append(held)
        sources: set[str] = set()
        for outcome in unload_outcomes:
            ends = list(outcome.distribution)
            if outcome.skipped:
                continue
            chances = np.array(list(outcome.distribution.values()))
            end = ends[int(self._rng.choice(len(ends), p=chances / chances.sum()))]
            if end != outcome.move.broker:
                held.unloaded.append(outcome.move.bundle)
                await self._unload(outcome.move.bundle, end)
                engine.shed_counts[engine.leader] += (1, outcome.move.broker not in sources)
                sources.add(outcome.move.broker)

    def _decided(self, settings: EffectiveSettings) -> list[UnloadOutcome]:
        """Ask the active strategy, and what the load manager checks before it unloads."""
        strategy = self._active_strategy(settings)
        if strategy is None:
            return []
        self._engine.load_manager.look_again()  # owners may have changed without a report
        view = self._engine.load_manager.view()
        grace_s = settings.number(_GRACE) * self._engine.options.minute_s
        self._unloaded_s = {
            name: at for name, at in self._unloaded_s.items() if time() - at <= grace_s
        }
        recent = frozenset(self._unloaded_s)
        decision, self._state = strategy.decide(
            view, strategy.config(settings), self._state, recent
        )
        return list(UnloadChecks(view, settings).unload_outcomes(decision.moves))

    def _active_strategy(self, settings: EffectiveSettings) -> AnyStrategy | None:
        try:
            strategy = find_shedding_strategy(settings.text(_STRATEGY))
        except InputError:  # upstream keeps the one it has when the class is not there
            return self._strategy
        if strategy is not self._strategy or self._leader != self._engine.leader:
            self._strategy, self._leader = strategy, self._engine.leader
            self._state, self._unloaded_s = strategy.initial_state(), {}
        return strategy

    async def _unload(self, bundle: str, destination: str) -> None:
        state = self._engine.state
        row = state.live_row(bundle)
        target = next(one.row for one in state.brokers if one.broker_id == destination)
        if row is None or row in self._ownership.closing:
            return
        self._ownership.hint(bundle, target)
        await self._ownership.unload(row)
        self._unloaded_s[bundle] = time()
