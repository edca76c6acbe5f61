"""The requests that clusters of every system answer, and how: the one list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from core.errors import InputError
from core.findings.request import HealthRequest
from core.planning.drill.pegasus import NODE_FAILURES, refuses
from core.planning.drill.request import DrillRequest
from core.planning.drill.tables import TABLES, hurts
from core.spark.fleet import Operation
from core.spark.jobs.health import HEALTH_TABLES
from core.spark.pegasus.jobs.drill import pegasus_drill
from core.spark.pegasus.jobs.health import pegasus_health
from core.spark.pulsar.jobs.drill import pulsar_drill
from core.spark.pulsar.jobs.health import pulsar_health
from core.system import Snapshot

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, kw_only=True)
class FleetSystem:
    """Fleet operations of one system.

    Attributes:
        health: Returns ``HEALTH_TABLES`` of a snapshot.
        drill: Returns some of the system's own tables of failures.
        drill_tables: What these tables hold, by name, in a sentence each.
        failures: Name of the one with a row a failure.
        is_harmful: Returns which of these rows cost clients something.
        harm: What such failures do, as it follows their number.
    """

    health: Callable[[Any, HealthRequest], Tables]
    drill: Callable[[Any, DrillRequest], Tables]
    drill_tables: Mapping[str, str]
    failures: str
    is_harmful: Callable[[pa.Table], pa.ChunkedArray]
    harm: str


SYSTEMS: Final = {
    "pulsar": FleetSystem(
        health=pulsar_health,
        drill=pulsar_drill,
        drill_tables={
            "failures": "Each failed broker or failure domain of Pulsar clusters, worst first.",
            "hot": "Brokers above the hot threshold after a failure.",
            "groups": "Remaining brokers of isolation groups after a failure.",
        },
        failures="failures",
        is_harmful=hurts,
        harm="make brokers hot or leave bundles or isolation groups without a broker",
    ),
    "pegasus": FleetSystem(
        health=pegasus_health,
        drill=pegasus_drill,
        drill_tables={"nodes": "Each failed node of Pegasus clusters, worst first."},
        failures="nodes",
        is_harmful=refuses,
        harm="leave Pegasus partitions that refuse reads or writes",
    ),
}
"""By the kind of the snapshot's manifest."""


def health_cluster(snapshot: Snapshot, request: HealthRequest) -> Tables:
    """Return the findings of a cluster.

    Raises:
        InputError: Its system does not answer.
    """
    return _system_of(snapshot).health(snapshot, request)


def drill_cluster(snapshot: Snapshot, request: DrillRequest) -> Tables:
    """Drill a cluster.

    Raises:
        InputError: It cannot be computed, or its system does not answer.
        IncompleteSnapshotError: Its snapshot lacks what that needs.
    """
    return _system_of(snapshot).drill(snapshot, request)


def _system_of(snapshot: Snapshot) -> FleetSystem:
    kind = snapshot.manifest.kind
    if kind not in SYSTEMS:
        raise InputError(
            f"{snapshot.manifest.cluster} is of system {kind!r}, which this "
            "operation does not support.",
            hint=f"Specify clusters of {' or '.join(one.capitalize() for one in SYSTEMS)}.",
        )
    return SYSTEMS[kind]


HEALTH_OF_CLUSTERS: Final = Operation(health_cluster, HEALTH_TABLES)
"""The findings of each cluster, and how even its load is."""

DRILL: Final = Operation(drill_cluster, {**TABLES, "nodes": NODE_FAILURES})
"""Each broker or node, and each failure domain, lost in turn."""
