"""What answers a request for one large cluster, with its bundles spread over Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import InputError
from core.findings.request import HealthRequest
from core.progress import Progress
from core.snapshot.store import load_manifest
from core.spark.fleet import FleetRequest, Operation
from core.spark.pulsar.jobs.health import measured_tables, target_of
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.health import large_health
from core.spark.size import is_large
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


def _health(cluster: LargeCluster, request: HealthRequest) -> Mapping[str, pa.Table]:
    target = target_of(request, cluster.manifest)
    found = large_health(cluster, target)
    return measured_tables(load_manifest(cluster.directory), found.measures, found.verdict, target)


_LARGE: Final[tuple[tuple[Operation[Any], Callable[..., Mapping[str, pa.Table]]], ...]] = (
    (HEALTH_OF_CLUSTERS, _health),
)
"""By operation: what answers for one large cluster, with its bundles spread over Spark."""
