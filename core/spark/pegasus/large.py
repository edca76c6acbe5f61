"""One large Pegasus cluster: its tables are balanced by tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import BalanceRound, rounds_until_converged
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.progress import Progress
from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import load_manifest
from core.spark.fleet import FleetRequest
from core.spark.pegasus.balance import SparkRounds
from core.spark.pegasus.jobs.balance import BALANCE, balance_tables

MAX_PARTITIONS: Final = 50_000
"""Up to so many partitions, one task is done before several would have begun."""


def spread_by_table(
    directory: Path, request: FleetRequest[Any]
) -> Callable[[SparkSession, Progress], Mapping[str, pa.Table]] | None:
    """Return the distributed operation of a snapshot directory, or ``None`` if small.

    Only rounds of the balancer are spread.

    Raises:
        SnapshotError: There is none.
    """
    if request.operation is not BALANCE:
        return None
    found = load_manifest(directory)[1].tables.get("partitions")
    is_large = found is not None and found.rows > MAX_PARTITIONS
    return partial(_by_table, directory, request.request) if is_large else None


def _by_table(
    directory: Path, request: BalanceRequest, spark: SparkSession, progress: Progress
) -> Mapping[str, pa.Table]:
    """Have tables of Pegasus balanced by tasks; who holds what is a few numbers a partition."""
    facts = PegasusFacts(load_pegasus_snapshot(directory))
    on_spark = SparkRounds(spark, progress)

    def rounds_of(view: ClusterView, options: BalanceOptions, pick: Pick) -> Iterator[BalanceRound]:
        # the cluster policy looks at all tables before every single plan; so does a draw at random
        if options.policy == "app" and request.seed is None:
            return on_spark.rounds(view, options)
        return rounds_until_converged(view, options, pick)

    return balance_tables(facts, request, rounds_of)
