"""Questions to a fleet some of whose clusters are too large for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import InputError, OpsError
from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import BalanceRound, rounds_until_converged
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.planning.drill.request import DrillRequest
from core.planning.what_if.compare import compared
from core.planning.what_if.request import WhatIfRequest
from core.progress import JobStoppedError, Progress
from core.pulsar.requests import HealthRequest, ShedRequest, SimulateRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Round
from core.pulsar.shedding.registry import AnyStrategy
from core.simulation import Run, Simulation
from core.snapshot import LoadManager
from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import load_manifest
from core.spark.fleet import (
    Answers,
    FleetRequest,
    InDirectory,
    Operation,
    Source,
    answer_on_spark,
    gathered,
    problem_of,
)
from core.spark.jobs.health import HEALTH_OF_CLUSTERS, health_tables, target_of
from core.spark.jobs.planning import DRILL, WHAT_IF, drill_tables
from core.spark.large.size import is_large, is_large_pegasus
from core.spark.pegasus.balance import SparkRounds
from core.spark.pegasus.jobs.balance import BALANCE, balance_tables
from core.spark.pulsar.jobs.place import PLACE
from core.spark.pulsar.jobs.shed import SHED, shed_tables, throughput_by_bundle
from core.spark.pulsar.jobs.simulate import SIMULATE, simulate_tables
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.drill import large_drill
from core.spark.pulsar.large.health import large_health
from core.spark.pulsar.large.place import large_placement
from core.spark.pulsar.large.shed import large_rounds
from core.spark.pulsar.large.simulate import cached_start, large_simulation


def answer_fleet(
    spark: SparkSession,
    sources: Mapping[str, Source],
    request: FleetRequest[Any],
    progress: Progress,
) -> Answers:
    """Answer for all clusters: small ones by a task each, large ones by their brokers if possible.

    Args:
        spark: Session; its executors must be able to read the sources.
        sources: By cluster name.
        request: The request.
        progress: Receives the tasks done.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    spread = {name: _spread_over(source, request) for name, source in sources.items()}
    small = {name: source for name, source in sources.items() if spread[name] is None}
    found = answer_on_spark(spark, small, request, progress) if small else gathered(request, [])
    parts: list[tuple[str, Mapping[str, pa.Table]]] = []
    for name, answer in sorted(spread.items()):
        if answer is not None:
            parts.append((name, _answered(partial(answer, spark, progress))))
    more = gathered(request, parts)
    whole = {key: pa.concat_tables([found[key], more[key]]) for key in found}
    return {key: _by_cluster(table) for key, table in whole.items()}


_Answer = Callable[[SparkSession, Progress], Mapping[str, pa.Table]]


def _spread_over(source: Source, request: FleetRequest[Any]) -> _Answer | None:
    """Return what answers for a cluster that is too large for one task; ``None``: it is not.

    An operation that cannot be spread stays with one task, as the minutes of a history do.
    """
    if not isinstance(source, InDirectory) or not Path(source.path).is_dir():
        return None
    directory = Path(source.path)
    if request.operation is BALANCE:
        return (
            partial(_by_table, directory, request.request) if is_large_pegasus(directory) else None
        )
    return partial(_by_broker, directory, request) if is_large(directory) else None


def _answered(answer: Callable[[], Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    try:
        return answer()
    except JobStoppedError:
        raise
    except OpsError as exc:
        return problem_of(exc)


def _by_broker(
    directory: Path, request: FleetRequest[Any], spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    return large_answer(LargeCluster.of(spark, directory, progress), request)


def _by_table(
    directory: Path, request: BalanceRequest, spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    """Have tables of Pegasus balanced by tasks; who holds what is a few numbers a partition."""
    facts = PegasusFacts(load_pegasus_snapshot(directory))
    on_spark = SparkRounds(spark, progress)

    def rounds_of(view: ClusterView, options: BalanceOptions, pick: Pick) -> Iterator[BalanceRound]:
        # the cluster policy looks at all tables before every single plan; so does a draw at random
        if options.policy == "app" and request.seed is None:
            return on_spark.rounds(view, options)
        return rounds_until_converged(view, options, pick)

    return balance_tables(facts, request, rounds_of)


def large_answer(cluster: LargeCluster, request: FleetRequest[Any]) -> Mapping[str, pa.Table]:
    """Return the tables of one large cluster; they are those of a process with all of it.

    Args:
        cluster: The whole.
        request: The request.
    Raises:
        OpsError: It cannot be answered for this cluster.
    """
    for operation, answer in _LARGE:
        if request.operation is operation:
            return answer(cluster, request.request)
    raise InputError(
        f"{cluster.manifest.cluster} is too large for one task, and this is not spread over Spark.",
        hint="Leave --engine spark out.",
    )


def _shed(cluster: LargeCluster, request: ShedRequest) -> Mapping[str, pa.Table]:
    return shed_tables(Spread(cluster), request)


def _simulate(cluster: LargeCluster, request: SimulateRequest) -> Mapping[str, pa.Table]:
    with cached_start(cluster) as start:

        def simulated(run: Run) -> Simulation:
            return large_simulation(
                start.cached.origin,
                run,
                placement=request.placement,
                overrides=request.settings,
                start=start,
            )

        return simulate_tables(cluster.skeleton, request, simulated)


def _what_if(cluster: LargeCluster, request: WhatIfRequest) -> Mapping[str, pa.Table]:
    return {"pairs": _compared(cluster, request)}


def _drill(cluster: LargeCluster, request: DrillRequest) -> Mapping[str, pa.Table]:
    return drill_tables(large_drill(cluster, cluster.settings(), request))


def _health(cluster: LargeCluster, request: HealthRequest) -> Mapping[str, pa.Table]:
    target = target_of(request)
    found = large_health(cluster, target)
    return health_tables(load_manifest(cluster.directory), found.measures, found.findings, target)


_LARGE: Final[tuple[tuple[Operation[Any], Callable[..., Mapping[str, pa.Table]]], ...]] = (
    (HEALTH_OF_CLUSTERS, _health),
    (PLACE, large_placement),
    (SHED, _shed),
    (SIMULATE, _simulate),
    (WHAT_IF, _what_if),
    (DRILL, _drill),
)
"""By operation: what answers for one large cluster, with its bundles spread over Spark."""


def _compared(cluster: LargeCluster, request: WhatIfRequest) -> pa.Table:
    with cached_start(cluster) as start:

        def rounds_of(run: Run, placement: str) -> Simulation:
            return large_simulation(
                cluster, run, placement=placement, overrides=request.settings, start=start
            )

        now = start.measures(cluster.settings(request.settings))
        return compared(cluster.skeleton, request, now, rounds_of)


def _by_cluster(table: pa.Table) -> pa.Table:
    """Sort by cluster; rows of one cluster keep their order."""
    place = pa.array(range(table.num_rows), pa.int64())
    keys = pa.table({"cluster": table["cluster"], "place": place})
    return table.take(keys.sort_by([("cluster", "ascending"), ("place", "ascending")])["place"])


@dataclass(frozen=True)
class Spread:
    """A cluster whose bundles stay on Spark; see :class:`core.spark.pulsar.jobs.shed.Decider`."""

    cluster: LargeCluster

    @property
    def manager(self) -> LoadManager:
        """Which load manager it runs."""
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
