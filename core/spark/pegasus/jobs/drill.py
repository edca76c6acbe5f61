"""The failure drill of Pegasus clusters: a task a cluster, or a task for each group of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from core.pegasus.snapshot import PegasusFacts
from core.planning.drill.pegasus import (
    PegasusDrill,
    drill_pegasus,
    nodes_of,
    pegasus_drill_of,
    simulate_node_losses,
)
from core.planning.drill.request import DrillRequest
from core.progress import NoProgress, Progress
from core.snapshot.pegasus import PegasusSnapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pegasus_drill(snapshot: PegasusSnapshot, request: DrillRequest) -> Mapping[str, pa.Table]:
    """Drill a cluster.

    Raises:
        IncompleteSnapshotError: Its snapshot lacks what that needs.
        UnknownNameError: No node has a name that the request gives.
    """
    facts = PegasusFacts(snapshot)
    return {"nodes": drill_pegasus(facts, NoProgress(), only=request.only).failures}


def drill_pegasus_on_spark(
    spark: SparkSession, facts: PegasusFacts, progress: Progress, *, only: Sequence[str] = ()
) -> PegasusDrill:
    """Simulate the loss of each node, as :func:`core.planning.drill.pegasus.drill_pegasus` does.

    Raises:
        IncompleteSnapshotError, UnknownNameError: See there.
        JobStoppedError: A stop was requested.
    """
    from core.spark.jobs.packed import (  # noqa: PLC0415  # answers in this process need no PySpark
        MAX_GROUPS,
        dealt,
        each,
        pack,
    )

    groups = dealt(nodes_of(facts, only), MAX_GROUPS)
    bare = replace(facts.snapshot)

    def kernel(tasks: pa.Table) -> pa.Table:
        own = PegasusFacts(bare)
        numbers = tasks["task"].to_pylist()
        done = [pack(one, {"failures": simulate_node_losses(own, groups[one])}) for one in numbers]
        return pa.concat_tables(done)

    found = each(spark, groups, kernel, progress, "failure drill")
    return pegasus_drill_of(one["failures"] for one in found)
