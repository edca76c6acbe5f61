"""Questions to a fleet some of whose clusters are too large for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import OpsError
from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import BalanceRound, rounds_until_settled
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.planning.what_if import compared
from core.planning.what_if_request import WhatIfRequest
from core.progress import JobStoppedError, Progress
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
    Question,
    Source,
    ask_on_spark,
    gathered,
    problem_of,
)
from core.spark.jobs.balance import BALANCE, balance_tables
from core.spark.jobs.health import HealthQuestion
from core.spark.jobs.place import PlaceQuestion
from core.spark.jobs.planning import WHAT_IF, drill_tables
from core.spark.jobs.shed import ShedQuestion, throughput_by_bundle
from core.spark.jobs.simulate import SimulateQuestion
from core.spark.large.cluster import LargeCluster
from core.spark.large.drill import large_drill
from core.spark.large.evolved import Evolved
from core.spark.large.health import large_health
from core.spark.large.place import large_placement
from core.spark.large.shed import large_rounds
from core.spark.large.simulate import cached_start, large_simulation
from core.spark.large.size import is_large, is_large_pegasus
from core.spark.pegasus_balance import SparkRounds

Spreadable = HealthQuestion | PlaceQuestion | ShedQuestion | SimulateQuestion | FleetRequest[Any]
_BY_BROKER: Final = (
    HealthQuestion,
    PlaceQuestion,
    ShedQuestion,
    SimulateQuestion,
    FleetRequest,
)


def ask_fleet(
    spark: SparkSession, sources: Mapping[str, Source], question: Question, progress: Progress
) -> Answers:
    """Ask all clusters: small ones by a task each, large ones by their brokers where that can be.

    Args:
        spark: Session; its executors must be able to read the sources.
        sources: By cluster name.
        question: What is asked.
        progress: Receives the tasks done.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    spread = {name: _spread_over(source, question) for name, source in sources.items()}
    small = {name: source for name, source in sources.items() if spread[name] is None}
    found = ask_on_spark(spark, small, question, progress) if small else gathered(question, [])
    parts: list[tuple[str, Mapping[str, pa.Table]]] = []
    for name, answer in sorted(spread.items()):
        if answer is not None:
            parts.append((name, _answered(partial(answer, spark, progress))))
    more = gathered(question, parts)
    whole = {key: pa.concat_tables([found[key], more[key]]) for key in found}
    return {key: _by_cluster(table) for key, table in whole.items()}


_Answer = Callable[[SparkSession, Progress], Mapping[str, pa.Table]]


def _spread_over(source: Source, question: Question) -> _Answer | None:
    """Return what answers for a cluster that is too large for one task; ``None``: it is not.

    A question that cannot be spread stays with one task, as the minutes of a history do.
    """
    if not isinstance(source, InDirectory) or not Path(source.path).is_dir():
        return None
    directory = Path(source.path)
    if isinstance(question, FleetRequest) and question.operation is BALANCE:
        return (
            partial(_by_table, directory, question.request) if is_large_pegasus(directory) else None
        )
    if isinstance(question, _BY_BROKER) and is_large(directory):
        return partial(_by_broker, directory, question)
    return None


def _answered(answer: Callable[[], Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    try:
        return answer()
    except JobStoppedError:
        raise
    except OpsError as exc:
        return problem_of(exc)


def _by_broker(
    directory: Path, question: Spreadable, spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    return large_answer(LargeCluster.of(spark, directory, progress), question)


def _by_table(
    directory: Path, request: BalanceRequest, spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    """Have tables of Pegasus balanced by tasks; who holds what is a few numbers a partition."""
    facts = PegasusFacts(load_pegasus_snapshot(directory))
    on_spark = SparkRounds(spark, progress)

    def play(view: ClusterView, options: BalanceOptions, pick: Pick) -> Iterator[BalanceRound]:
        # the cluster policy looks at all tables before every single plan; so does a draw at random
        if options.policy == "app" and request.seed is None:
            return on_spark.rounds(view, options)
        return rounds_until_settled(view, options, pick)

    return balance_tables(facts, request, play)


def large_answer(cluster: LargeCluster, question: Spreadable) -> Mapping[str, pa.Table]:
    """Return the tables of one large cluster; they are those of a process with all of it.

    Args:
        cluster: The whole.
        question: What is asked.
    Raises:
        OpsError: It cannot be answered for this cluster.
    """
    if isinstance(question, ShedQuestion):
        return question.answer_with(Spread(cluster))
    if isinstance(question, PlaceQuestion):
        return large_placement(cluster, question)
    if isinstance(question, SimulateQuestion):
        with cached_start(cluster) as start:
            return question.answer_with(cluster.skeleton, partial(_simulated, start, question))
    if isinstance(question, FleetRequest):
        if question.operation is WHAT_IF:
            return {"pairs": _compared(cluster, question.request)}
        return drill_tables(large_drill(cluster, cluster.settings(), question.request))
    found = large_health(cluster, question.target)
    identity = load_manifest(cluster.directory)
    return question.tables_of(identity, found.measures, found.findings)


def _simulated(start: Evolved, question: SimulateQuestion, run: Run) -> Simulation:
    return large_simulation(
        start.cached.origin,
        run,
        placement=question.placement,
        overrides=question.overrides,
        start=start,
    )


def _compared(cluster: LargeCluster, request: WhatIfRequest) -> pa.Table:
    with cached_start(cluster) as start:

        def play(run: Run, placement: str) -> Simulation:
            return large_simulation(
                cluster, run, placement=placement, overrides=request.settings, start=start
            )

        now = start.measures(cluster.settings(request.settings))
        return compared(cluster.skeleton, request, now, play)


def _by_cluster(table: pa.Table) -> pa.Table:
    """Sort by cluster; rows of one cluster keep their order."""
    place = pa.array(range(table.num_rows), pa.int64())
    keys = pa.table({"cluster": table["cluster"], "place": place})
    return table.take(keys.sort_by([("cluster", "ascending"), ("place", "ascending")])["place"])


@dataclass(frozen=True)
class Spread:
    """A cluster whose bundles stay on Spark; see :class:`core.spark.jobs.shed.Decider`."""

    cluster: LargeCluster

    @property
    def manager(self) -> LoadManager:
        """Which load manager it runs."""
        return self.cluster.manifest.load_manager

    def settings(self, overrides: Mapping[str, object]) -> EffectiveSettings:
        """Return the active settings with assumptions on top."""
        return self.cluster.settings(overrides)

    def rounds(
        self, strategy: AnyStrategy, settings: EffectiveSettings, count: int
    ) -> Sequence[Round]:
        """Return so many rounds."""
        return large_rounds(self.cluster, strategy, settings, count)

    def throughputs(self, bundles: Sequence[str]) -> Mapping[str, float]:
        """Return bytes/s of bundles by their names."""
        return throughput_by_bundle(self.cluster.named(bundles)) if bundles else {}
