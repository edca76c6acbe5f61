"""The failure drill on Spark: a task for each group of failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from core.pegasus.snapshot import PegasusFacts
from core.planning.drill.pegasus import (
    PegasusDrill,
    nodes_of,
    pegasus_drill_of,
    simulate_node_losses,
)
from core.planning.drill.pulsar import Drill, drill_of, losses_of, simulate_losses
from core.planning.drill.request import DrillRequest
from core.progress import Progress
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.spark.jobs.packed import each, pack

_T = TypeVar("_T")

_GROUPS: Final = 64
"""Max tasks for the failures: each lays out the snapshot once."""


def drill_on_spark(
    spark: SparkSession,
    snapshot: PulsarSnapshot,
    settings: EffectiveSettings,
    request: DrillRequest,
    progress: Progress,
) -> Drill:
    """Simulate the failures, as :func:`core.planning.drill.pulsar.drill` does.

    Args:
        spark: Session; every task gets the snapshot's tables.
        snapshot: Before.
        settings: The leader's active settings.
        request: What is computed.
        progress: Receives the tasks done.
    Raises:
        UnknownNameError, InputError: See :func:`core.planning.drill.pulsar.losses_of`.
        JobStoppedError: A stop was requested.
    """
    losses = losses_of(LoadView.of(snapshot, settings), request)
    groups = dealt(losses, _GROUPS)
    bare = replace(snapshot)  # without what was derived from it here

    def kernel(asked: pa.Table) -> pa.Table:
        numbers = asked["task"].to_pylist()
        done = [pack(one, simulate_losses(bare, settings, groups[one], request)) for one in numbers]
        return pa.concat_tables(done)

    return drill_of(each(spark, groups, kernel, progress, "failure drill"))


def drill_pegasus_on_spark(
    spark: SparkSession, facts: PegasusFacts, progress: Progress, *, only: Sequence[str] = ()
) -> PegasusDrill:
    """Simulate the loss of each node, as :func:`core.planning.drill.pegasus.drill_pegasus` does.

    Raises:
        IncompleteSnapshotError, UnknownNameError: See there.
        JobStoppedError: A stop was requested.
    """
    groups = dealt(nodes_of(facts, only), _GROUPS)
    bare = replace(facts.snapshot)

    def kernel(asked: pa.Table) -> pa.Table:
        own = PegasusFacts(bare)
        numbers = asked["task"].to_pylist()
        done = [pack(one, {"failures": simulate_node_losses(own, groups[one])}) for one in numbers]
        return pa.concat_tables(done)

    found = each(spark, groups, kernel, progress, "failure drill")
    return pegasus_drill_of(one["failures"] for one in found)


def dealt(items: Sequence[_T], most: int) -> list[list[_T]]:
    """Deal items out in turn, so that groups are of about equal work."""
    count = max(min(len(items), most), 1)
    return [list(items[at::count]) for at in range(count)]
