"""One large Pegasus cluster: its tables are balanced by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from core.facts import Assumed
from core.operations.balance import BalanceAnswer, Rounds, balance, state_of
from core.pegasus.balance.model import BalanceOptions, Pick
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import BalanceRound, pick_first, rounds_until_converged
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
) -> BalanceAnswer:
    """Balance the tables of a snapshot directory; see :data:`core.operations.operation.Spread`.

    Who holds what is a few numbers per partition, which fit here.

    Raises:
        InputError: A switch does not exist.
        IncompleteSnapshotError: Partitions of some table were not read.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    facts = PegasusFacts(load_pegasus_snapshot(Path(directory)))
    return balance(state_of(facts, request), request, rounds_on(spark, progress), progress)


def rounds_on(spark: SparkSession, progress: Progress) -> Rounds:
    """Return rounds until convergence, computed on Spark where it can share them."""
    on_spark = SparkRounds(spark, progress)

    def rounds_of(view: ClusterView, options: BalanceOptions, pick: Pick) -> Iterator[BalanceRound]:
        # the cluster policy looks at all tables before every single plan; so does a draw at random
        if options.policy == "app" and pick is pick_first and not view.children:
            return on_spark.rounds(view, options)
        return rounds_until_converged(view, options, pick)

    return rounds_of
