"""Health of Pulsar clusters: what is wrong in each, and how even its load is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from core.findings.request import HealthRequest
from core.findings.verdict import Verdict
from core.pulsar.measures import (
    CLUSTER_TARGET,
    TARGETS,
    Measures,
    Target,
    balance_sentence,
    cluster_target,
    measure,
)
from core.pulsar.rules.verdict import verdict_of
from core.pulsar.settings import effective_settings
from core.snapshot import Manifest, PulsarSnapshot
from core.spark.jobs.health import health_tables


def pulsar_health(snapshot: PulsarSnapshot, request: HealthRequest) -> Mapping[str, pa.Table]:
    """Return the findings of a cluster."""
    target = target_of(request, snapshot.manifest)
    settings = effective_settings(snapshot)
    found = verdict_of(snapshot, settings, target=target)
    identity = (snapshot.snapshot_id, snapshot.manifest)
    return measured_tables(identity, measure(snapshot, settings), found, target)


def measured_tables(
    identity: tuple[str, Manifest],
    measures: Measures,
    found: Verdict,
    target: Target,
) -> Mapping[str, pa.Table]:
    """Return the tables of one cluster, measured here or on Spark.

    Args:
        identity: Id and manifest of the snapshot.
        measures: How even its load is.
        found: The verdict on it.
        target: What counts as balanced.
    """
    verdict = (measures.verdict(target), balance_sentence(measures, target))
    return health_tables(identity, verdict, list(_spreads(measures)), found)


def target_of(request: HealthRequest, manifest: Manifest) -> Target:
    """Return the target that a request names: the cluster's own, or another for this question."""
    if request.target == CLUSTER_TARGET:
        return cluster_target(manifest)
    return next(target for target in TARGETS if target.code == request.target)


def _spreads(measures: Measures) -> Iterator[dict[str, Any]]:
    for spread in measures:
        yield {
            "measure": spread.name,
            "unit": spread.unit,
            "mean": spread.mean,
            "std": spread.std,
            "maximum": spread.maximum,
            "minimum": spread.minimum,
            "max_deviation_ratio": spread.max_deviation_ratio,
            "worst": spread.worst,
            "known": spread.known_count,
            "count": len(spread.brokers),
        }
