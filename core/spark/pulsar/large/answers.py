"""What answers a request for one large cluster, with its bundles spread over Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import InputError
from core.findings.request import HealthRequest
from core.planning.what_if.compare import compared
from core.planning.what_if.request import WhatIfRequest
from core.progress import Progress
from core.pulsar.requests import ShedRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Round
from core.pulsar.shedding.registry import AnyStrategy
from core.simulation import Run, Simulation
from core.snapshot import LoadManager
from core.snapshot.store import load_manifest
from core.spark.fleet import FleetRequest, Operation
from core.spark.pulsar.jobs.health import measured_tables, target_of
from core.spark.pulsar.jobs.place import PLACE
from core.spark.pulsar.jobs.shed import SHED, shed_tables, throughput_by_bundle
from core.spark.pulsar.jobs.what_if import WHAT_IF
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.health import large_health
from core.spark.pulsar.large.place import large_placement
from core.spark.pulsar.large.shed import large_rounds
from core.spark.pulsar.large.simulate import cached_start, large_simulation
from core.spark.pulsar.large.size import is_large
from core.spark.systems import HEALTH_OF_CLUSTERS


def spread_by_broker(
    directory: Path, request: FleetRequest[Any]
) -> Callable[[SparkSession, Progress], Mapping[str, pa.Table]] | None:
    """Return the distributed operation of a snapshot directory, or ``None`` if small.

    Raises:
        SnapshotError: There is none.
    """
    return partial(_by_broker, directory, request) if is_large(directory) else None


def _by_broker(
    directory: Path, request: FleetRequest[Any], spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    return large_answer(LargeCluster.of(spark, directory, progress), request)


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
        f"{cluster.manifest.cluster} is too large for one task, and this "
        "operation cannot be distributed over Spark.",
        hint="Omit --engine spark.",
    )


def _shed(cluster: LargeCluster, request: ShedRequest) -> Mapping[str, pa.Table]:
    return shed_tables(PartitionedCluster(cluster), request)


def _what_if(cluster: LargeCluster, request: WhatIfRequest) -> Mapping[str, pa.Table]:
    return {"pairs": _compared(cluster, request)}


def _health(cluster: LargeCluster, request: HealthRequest) -> Mapping[str, pa.Table]:
    target = target_of(request, cluster.manifest)
    found = large_health(cluster, target)
    return measured_tables(load_manifest(cluster.directory), found.measures, found.verdict, target)


_LARGE: Final[tuple[tuple[Operation[Any], Callable[..., Mapping[str, pa.Table]]], ...]] = (
    (HEALTH_OF_CLUSTERS, _health),
    (PLACE, large_placement),
    (SHED, _shed),
    (WHAT_IF, _what_if),
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


@dataclass(frozen=True)
class PartitionedCluster:
    """A cluster whose bundles stay on Spark; see :class:`core.spark.pulsar.jobs.shed.Decider`."""

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
