"""Health: the findings of a cluster, and how even its load is."""

from __future__ import annotations

from typing import Final

from core.findings.request import HealthRequest
from core.operations.health.pegasus import PegasusHealth, pegasus_health
from core.operations.health.pulsar import PulsarHealth, pulsar_health
from core.operations.health.tables import FINDINGS, HEALTH, MEASURES
from core.operations.operation import CountedSummary, Job, Operation, Tables

_STATES: Final = {
    "bad": "unhealthy",
    "attention": "with warnings",
    "unknown": "unknown",
    "ok": "healthy",
}


def _words(found: Tables) -> str:
    """Return the number of clusters in each state."""
    states = found["health"]["state"].to_pylist()
    return "; ".join(
        f"{word}: {states.count(code):,}" for code, word in _STATES.items() if code in states
    )


OPERATION: Final[Operation[HealthRequest, PulsarHealth | PegasusHealth]] = Operation(
    name="health",
    module=__name__,
    help="""Show the findings of a cluster or a snapshot.

    Each finding has its numbers.
    """,
    request=HealthRequest,
    answers={"pulsar": pulsar_health, "pegasus": pegasus_health},
    is_timed=False,
    is_many=True,
    spread={"pulsar": "core.spark.pulsar.large.health:spread_health"},
    job=Job(
        title="Health of all clusters",
        question="Which findings does each cluster have, and how even is its load?",
        tables={
            "health": "State and summary of each cluster.",
            "measures": "Mean, spread and the busiest broker or node, by measure.",
            "findings": "Findings, worst first.",
        },
        summary=CountedSummary("health", _words),
        schemas={"health": HEALTH, "measures": MEASURES, "findings": FINDINGS},
    ),
)
