"""The failure drill: the effect of losing a broker, a failure domain or a node."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from core.operations.drill.pegasus import NODES, NodeDrill, drill_nodes, refuses
from core.operations.drill.pulsar import Drill, drill
from core.operations.drill.request import DrillRequest
from core.operations.drill.tables import FAILURES, GROUPS, HOT, hurts
from core.operations.operation import Job, JobSummary, Operation, Tables


def _summary(found: Tables) -> JobSummary:
    """Return the number of simulated failures and of harmful ones, in words and as figures."""
    harmful = {
        "with hot brokers, or bundles or isolation groups without a broker": hurts(
            found["failures"]
        ),
        "with Pegasus partitions that refuse reads or writes": refuses(found["nodes"]),
    }
    counts = {words: pc.sum(flags).as_py() or 0 for words, flags in harmful.items()}
    count = found["failures"].num_rows + found["nodes"].num_rows
    harm = "; ".join(f"{words}: {number:,}" for words, number in counts.items())
    return JobSummary(
        f"Failures simulated: {count:,}; {harm}.",
        {"failures": count, "hurt": sum(counts.values())},
    )


OPERATION: Final[Operation[DrillRequest, Drill | NodeDrill]] = Operation(
    name="drill",
    module=__name__,
    help="""Simulate the failure of each broker, domain or node.

    Show hot brokers and lost capacity after each.
    """,
    request=DrillRequest,
    answers={"pulsar": drill, "pegasus": drill_nodes},
    columns={"failures": FAILURES, "hot": HOT, "groups": GROUPS, "nodes": NODES},
    can_assume=True,
    spread={"pulsar": "core.spark.pulsar.large.drill:spread_drill"},
    job=Job(
        title="Failure drill",
        question=("Which brokers run hot, and which bundles stay unassigned, when a broker fails?"),
        tables={
            "failures": "Each failed broker or failure domain of Pulsar clusters, worst first.",
            "hot": "Brokers above the hot threshold after a failure.",
            "groups": "Remaining brokers of isolation groups after a failure.",
            "nodes": "Each failed node of Pegasus clusters, worst first.",
        },
        summary=_summary,
        part="failure",
    ),
)
