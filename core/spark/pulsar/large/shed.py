"""Shedding on one very large cluster: each strategy's own code, on the bundles it looks at."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from core.errors import ComputeError
from core.facts import Assumed
from core.operations.operation import Rows
from core.operations.shed import Shedding, shedding_of, strategy_of, with_strategy
from core.operations.shed.strategies import shed_tables, throughput_by_bundle
from core.progress import Progress
from core.pulsar.facts import PulsarFacts
from core.pulsar.recent import RecentBundles, recent_bundles
from core.pulsar.requests import ShedRequest, ShedRoundsRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Round, shed_rounds, strategy_rounds
from core.pulsar.shedding.registry import AnyStrategy
from core.pulsar.view import LoadView
from core.snapshot import LoadManager
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.map_order import BucketOrders
from core.spark.pulsar.large.reduced import ReducedCluster, missing_of

_MAX_TURNS: Final = 40
TRACED_ROUNDS: Final = 10
"""Rounds whose gates can be read afterwards; a trace looks at bundles of its own."""


def spread_rounds(
    spark: SparkSession,
    directory: str,
    assumed: Assumed,
    request: ShedRoundsRequest,
    progress: Progress,
) -> Shedding:
    """Shed on a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError: The configured strategy is not known here.
        ComputeError, JobStoppedError: See :func:`large_rounds`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    facts = PulsarFacts(cluster.skeleton, assumed)
    shedding = PulsarFacts(cluster.skeleton, with_strategy(assumed, request))
    named = request.recently_unloaded
    recent = recent_bundles(cluster.named(named), named) if named else RecentBundles()
    started = time.perf_counter()
    rounds = large_rounds(
        cluster,
        strategy_of(shedding, request),
        shedding.settings,
        request.rounds,
        recently_unloaded=recent.names,
        is_strategy_only=request.strategy_only,
    )
    each_ms = (time.perf_counter() - started) * 1000 / len(rounds)
    return shedding_of(facts, request, rounds, [each_ms] * len(rounds), recent=recent)


def spread_strategies(
    spark: SparkSession,
    directory: str,
    _: Assumed,
    request: ShedRequest,
    progress: Progress,
) -> Rows:
    """Shed on a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError: No such strategy.
        ComputeError, JobStoppedError: See :func:`large_rounds`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    return shed_tables(PartitionedCluster(cluster), request)


def large_rounds(
    cluster: LargeCluster,
    strategy: AnyStrategy,
    settings: EffectiveSettings,
    count: int,
    *,
    recently_unloaded: Collection[str] = (),
    is_strategy_only: bool = False,
) -> tuple[Round, ...]:
    """Return rounds of shedding, the same as :mod:`core.pulsar.shedding.rounds` gives in process.

    Args:
        cluster: The whole.
        strategy: Of the registry.
        settings: The leader's active settings, of this cluster.
        count: How many rounds.
        recently_unloaded: Bundles in their grace period.
        is_strategy_only: Without the load manager's checks and destinations.
    Raises:
        ComputeError: Spark failed, or so many brokers shed that their bundles do not fit here.
        JobStoppedError: A person stopped it.
    """
    is_idle = not is_strategy_only and bool(settings.shedding_off)
    turn = _RoundInput(strategy, settings, frozenset(recently_unloaded), count)
    start = shed_rounds if is_idle else strategy_rounds
    is_placed = not is_idle and not is_strategy_only
    orders = BucketOrders(cluster)
    wanted: frozenset[int] = frozenset()
    reduced = ReducedCluster.of(cluster, wanted)
    for _ in range(_MAX_TURNS):
        view = reduced.view(settings, orders, is_placed=False)
        rounds = turn.of(start, view)
        if is_placed and not missing_of(view) and not orders.needed:
            view = reduced.view(settings, orders, is_placed=True)
            rounds = turn.of(shed_rounds, view)
        missing = missing_of(view)
        if missing:
            wanted |= missing
            reduced = ReducedCluster.of(cluster, wanted)
        elif orders.needed:
            orders.find()
        else:
            return rounds
    raise ComputeError(
        f"{strategy.name} needs the bundles of too many brokers of {cluster.manifest.cluster}.",
        hint="Run it in process, on a machine with the memory for the whole snapshot.",
    )


@dataclass(frozen=True)
class _RoundInput:
    """Input of the simulation of rounds."""

    strategy: AnyStrategy
    settings: EffectiveSettings
    recent: frozenset[str]
    count: int

    def of(self, start: Callable[..., Iterator[Round]], view: LoadView) -> tuple[Round, ...]:
        """Simulate the rounds on a view, and have them explained while it notes what is missing."""
        endless = start(self.strategy, view, self.settings, recently_unloaded=self.recent)
        rounds = tuple(itertools.islice(endless, self.count))
        for done in rounds[:TRACED_ROUNDS]:
            len(done.decision.trace)  # stored with the decision
        return rounds


@dataclass(frozen=True)
class PartitionedCluster:
    """A cluster whose bundles stay on Spark: a :class:`core.operations.shed.strategies.Decider`."""

    cluster: LargeCluster

    @property
    def manager(self) -> LoadManager:
        """Its load manager."""
        return self.cluster.manifest.load_manager

    def settings(self, overrides: Mapping[str, object]) -> EffectiveSettings:
        """Return the active settings with assumptions on top."""
        return self.cluster.settings(overrides)

    def rounds(
        self, strategy: AnyStrategy, settings: EffectiveSettings, request: ShedRequest
    ) -> Sequence[Round]:
        """Return the rounds of a request."""
        return large_rounds(
            self.cluster,
            strategy,
            settings,
            request.rounds,
            is_strategy_only=request.strategy_only,
        )

    def throughputs(self, bundles: Sequence[str]) -> Mapping[str, float]:
        """Return bytes/s of bundles by their names."""
        return throughput_by_bundle(self.cluster.named(bundles)) if bundles else {}
