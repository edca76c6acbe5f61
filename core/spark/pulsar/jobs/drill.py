"""The failure drill of Pulsar clusters: a task a cluster, or a task a group of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from core.planning.drill.pulsar import Drill, drill, drill_of, losses_of, simulate_losses
from core.planning.drill.request import DrillRequest
from core.progress import NoProgress, Progress
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.spark.fleet import PROBLEMS, problems_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pulsar_drill(snapshot: PulsarSnapshot, request: DrillRequest) -> Mapping[str, pa.Table]:
    """Drill a cluster.

    Raises:
        InputError: It cannot be computed.
        IncompleteSnapshotError: Its snapshot lacks what that needs.
    """
    snapshot.require("brokers", "bundles")
    return drill_tables(drill(snapshot, effective_settings(snapshot), request, NoProgress()))


def drill_tables(done: Drill) -> Mapping[str, pa.Table]:
    """Return the tables of a cluster; what was left out is a problem of it."""
    tables = {"failures": done.failures, "hot": done.hot, "groups": done.groups}
    return {**tables, PROBLEMS: problems_of(done.skipped)} if done.skipped else tables


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
    from core.spark.jobs.packed import (  # noqa: PLC0415  # answers in this process need no PySpark
        MAX_GROUPS,
        dealt,
        each,
        pack,
    )

    losses = losses_of(LoadView.of(snapshot, settings), request)
    groups = dealt(losses, MAX_GROUPS)
    bare = replace(snapshot)  # without what was derived from it here

    def kernel(tasks: pa.Table) -> pa.Table:
        numbers = tasks["task"].to_pylist()
        done = [pack(one, simulate_losses(bare, settings, groups[one], request)) for one in numbers]
        return pa.concat_tables(done)

    return drill_of(each(spark, groups, kernel, progress, "failure drill"))
