"""How the live tests look at the real cluster through Trimtab's own connectors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from cluster_truth import ClusterTruth, Znodes
from real_pulsar import RealPulsar

from connectors.config.model import ClusterConfig
from connectors.pulsar.collect import PulsarCollector
from core.snapshot import PulsarSnapshot

CLUSTER_NAME = "real"
STEADY_ATTEMPTS = 12


def config_of(cluster: RealPulsar, **changes: Any) -> ClusterConfig:
    """Return the configuration that an operator would write for the cluster."""
    known = {"zookeeper": cluster.zookeeper, "admin_urls": list(cluster.admin_urls)}
    return ClusterConfig(name=CLUSTER_NAME, **{**known, **changes})


def capture(cluster: RealPulsar, **changes: Any) -> PulsarSnapshot:
    """Capture the cluster once with a collector of its own."""
    collector = PulsarCollector(config_of(cluster, **changes))
    try:
        return collector.collect()
    finally:
        collector.close()


def steady_capture(
    cluster: RealPulsar, truth: ClusterTruth, *folders: str
) -> tuple[PulsarSnapshot, Znodes]:
    """Capture while nothing below ``folders`` changed; return the capture and those znodes."""
    for _ in range(STEADY_ATTEMPTS):
        before = truth.read(*folders)
        snapshot = capture(cluster)
        after = truth.read(*folders)
        if before.changes == after.changes:
            return snapshot, after
    pytest.fail(f"{', '.join(folders)} changed during each of {STEADY_ATTEMPTS} captures")


def rows_by(table: pa.Table, key: str) -> dict[str, dict[str, Any]]:
    """Return the rows as dictionaries by the value of their key column."""
    rows = {row[key]: row for row in table.to_pylist()}
    assert len(rows) == table.num_rows, f"{key} is not unique"
    return rows


def places_of_problems(snapshot: PulsarSnapshot) -> set[tuple[str, str]]:
    """Return ``(code, place)`` of every problem."""
    return {(problem.code, problem.place) for problem in snapshot.manifest.problems}
