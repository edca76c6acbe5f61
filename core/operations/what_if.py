"""Every shedding strategy with every placement strategy, simulated on a cluster: a job."""

from __future__ import annotations

from typing import Final

from core.operations.operation import Job, JobSummary, Operation, Rows, Tables
from core.planning.what_if.compare import PAIRS, compare, totals_of, what_if_sentence
from core.planning.what_if.request import WhatIfRequest
from core.progress import Progress
from core.pulsar.facts import PulsarFacts


def compare_pairs(facts: PulsarFacts, request: WhatIfRequest, _: Progress) -> Rows:
    """Simulate the pairs on a cluster.

    Raises:
        InputError: It cannot be simulated, or cannot run any of the requested pairs.
    """
    return Rows({"pairs": compare(facts.snapshot, request)})


def _summary(found: Tables) -> JobSummary:
    """Return the best pair, and the pairs summed over the clusters."""
    totals = totals_of(found["pairs"])
    figures = {"pairs": found["pairs"].num_rows}
    return JobSummary(what_if_sentence(found["pairs"], totals), figures, {"totals": totals})


OPERATION: Final = Operation(
    name="what_if",
    module=__name__,
    help="""Simulate every pair of strategies, and compare what each achieves.""",
    request=WhatIfRequest,
    answers={"pulsar": compare_pairs},
    spread={"pulsar": "core.spark.pulsar.large.simulate:spread_pairs"},
    job=Job(
        title="Pairs of strategies",
        question="Which shedding and placement would bring each cluster within the target?",
        tables={
            "pairs": "Every pair of strategies in each cluster, best first.",
            "totals": "The same pairs summed over the clusters.",
        },
        summary=_summary,
        schemas={"pairs": PAIRS},
    ),
)
