"""The requests that clusters of every system answer, and how: the one list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from core.errors import InputError
from core.findings.request import HealthRequest
from core.spark.fleet import Operation
from core.spark.jobs.health import HEALTH_TABLES
from core.spark.pegasus.jobs.health import pegasus_health
from core.spark.pulsar.jobs.health import pulsar_health
from core.system import Snapshot

Tables = Mapping[str, pa.Table]


HEALTH: Final[Mapping[str, Callable[[Any, HealthRequest], Tables]]] = {
    "pulsar": pulsar_health,
    "pegasus": pegasus_health,
}
"""By the kind of the snapshot's manifest: returns ``HEALTH_TABLES``."""


def health_cluster(snapshot: Snapshot, request: HealthRequest) -> Tables:
    """Return the findings of a cluster.

    Raises:
        InputError: Its system does not answer.
    """
    kind = snapshot.manifest.kind
    if kind not in HEALTH:
        raise InputError(
            f"{snapshot.manifest.cluster} is of system {kind!r}, which this "
            "operation does not support.",
            hint=f"Specify clusters of {' or '.join(one.capitalize() for one in HEALTH)}.",
        )
    return HEALTH[kind](snapshot, request)


HEALTH_OF_CLUSTERS: Final = Operation(health_cluster, HEALTH_TABLES)
"""The findings of each cluster, and how even its load is."""
