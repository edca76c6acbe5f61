"""One large Pegasus cluster: its tables are balanced by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from core.facts import Assumed
from core.operations.balance import balance_tables
from core.operations.operation import Rows
from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import BalanceRound, rounds_until_converged
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.view import ClusterView
from core.progress import Progress
from core.snapshot.pegasus import load_pegasus_snapshot
from core.spark.pegasus.balance import SparkRounds


def spread_balance(
    spark: SparkSession,
    directory: str,
    _: Assumed,
    request: BalanceRequest,
    progress: Progress,
) -> Rows:
    """Balance the tables of a snapshot directory; see :data:`core.operations.operation.Spread`.

    Who holds what is a few numbers per partition, which fit here.

    Raises:
        InputError: A switch does not exist.
        IncompleteSnapshotError: Partitions of some table were not read.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    on_spark = SparkRounds(spark, progress)

    def rounds_of(view: ClusterView, options: BalanceOptions, pick: Pick) -> Iterator[BalanceRound]:
        # the cluster policy looks at all tables before every single plan; so does a draw at random
        if options.policy == "app" and request.seed is None:
            return on_spark.rounds(view, options)
        return rounds_until_converged(view, options, pick)

    return balance_tables(PegasusFacts(load_pegasus_snapshot(Path(directory))), request, rounds_of)
