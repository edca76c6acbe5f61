"""Questions to a fleet some of whose clusters are too large for one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import OpsError
from core.progress import JobStoppedError, Progress
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Round
from core.pulsar.shedding.registry import AnyStrategy
from core.simulation import Run, Simulation
from core.snapshot import LoadManager
from core.snapshot.store import load_manifest
from core.spark.fleet import (
    Answers,
    InDirectory,
    Question,
    Source,
    ask_on_spark,
    gathered,
    problem_of,
)
from core.spark.jobs.health import HealthQuestion
from core.spark.jobs.place import PlaceQuestion
from core.spark.jobs.shed import ShedQuestion, throughput_by_bundle
from core.spark.jobs.simulate import SimulateQuestion
from core.spark.large.cluster import LargeCluster
from core.spark.large.health import large_health
from core.spark.large.place import large_placement
from core.spark.large.shed import large_rounds
from core.spark.large.simulate import large_simulation
from core.spark.large.size import is_large

Spreadable = HealthQuestion | PlaceQuestion | ShedQuestion | SimulateQuestion
_SPREAD: Final = (HealthQuestion, PlaceQuestion, ShedQuestion, SimulateQuestion)


def ask_fleet(
    spark: SparkSession, sources: Mapping[str, Source], question: Question, progress: Progress
) -> Answers:
    """Ask all clusters: small ones by a task each, large ones by their brokers where that can be.

    Args:
        spark: Session; its executors must be able to read the sources.
        sources: By the name under which each is told.
        question: What is asked.
        progress: Told of tasks.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    if not isinstance(question, _SPREAD):
        return ask_on_spark(spark, sources, question, progress)
    directories = {name: _large_directory(source) for name, source in sources.items()}
    small = {name: source for name, source in sources.items() if directories[name] is None}
    found = ask_on_spark(spark, small, question, progress) if small else gathered(question, [])
    parts: list[tuple[str, Mapping[str, pa.Table]]] = []
    for name, directory in sorted(directories.items()):
        if directory is not None:
            cluster = LargeCluster.of(spark, directory, progress)
            parts.append((name, _told(cluster, question)))
    more = gathered(question, parts)
    whole = {key: pa.concat_tables([found[key], more[key]]) for key in found}
    return {key: _by_cluster(table) for key, table in whole.items()}


def _large_directory(source: Source) -> Path | None:
    """Return the directory of a snapshot that is too large for one task; ``None``: it is not."""
    if not isinstance(source, InDirectory) or not Path(source.path).is_dir():
        return None
    directory = Path(source.path)
    return directory if is_large(directory) else None


def _told(cluster: LargeCluster, question: Spreadable) -> Mapping[str, pa.Table]:
    try:
        return large_answer(cluster, question)
    except JobStoppedError:
        raise
    except OpsError as exc:
        return problem_of(exc)


def large_answer(cluster: LargeCluster, question: Spreadable) -> Mapping[str, pa.Table]:
    """Return the tables of one large cluster; they are those of a process with all of it.

    Args:
        cluster: The whole.
        question: What is asked.
    Raises:
        OpsError: It cannot be answered for this cluster.
    """
    if isinstance(question, ShedQuestion):
        return question.told_by(Spread(cluster))
    if isinstance(question, PlaceQuestion):
        return large_placement(cluster, question)
    if isinstance(question, SimulateQuestion):
        return question.told_by(cluster.skeleton, partial(_simulated, cluster, question))
    found = large_health(cluster, question.target)
    identity = load_manifest(cluster.directory)
    return question.told(identity, found.measures, found.findings)


def _simulated(cluster: LargeCluster, question: SimulateQuestion, run: Run) -> Simulation:
    return large_simulation(
        cluster, run, placement=question.placement, overrides=question.overrides
    )


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
        """Return the settings in force with assumptions on top."""
        return self.cluster.settings(overrides)

    def rounds(
        self, strategy: AnyStrategy, settings: EffectiveSettings, count: int
    ) -> Sequence[Round]:
        """Return so many rounds."""
        return large_rounds(self.cluster, strategy, settings, count)

    def throughputs(self, bundles: Sequence[str]) -> Mapping[str, float]:
        """Return bytes/s of bundles by their names."""
        return throughput_by_bundle(self.cluster.named(bundles)) if bundles else {}
