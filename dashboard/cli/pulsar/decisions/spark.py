"""Commands on one snapshot that is too large for one task: spread over Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.progress import Progress
from core.pulsar.recent import RecentBundles
from core.pulsar.requests import ShedRequest
from core.spark.size import is_large
from dashboard.cli.pulsar.decisions import shed
from dashboard.cli.pulsar.decisions.shed_answer import ShedAnswer
from dashboard.cli.pulsar.snapshots import Assumptions
from dashboard.cli.requests import read_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.spark.pulsar.large.cluster import LargeCluster


def shed_of(
    spark: SparkSession,
    directory: Path,
    progress: Progress,
    *,
    request: ShedRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None,
) -> Callable[..., int] | None:
    """Return the ``trimtab shed`` of a large cluster; ``None`` if one task can hold it."""
    if not is_large(directory):
        return None
    from core.spark.pulsar.large.cluster import LargeCluster  # noqa: PLC0415  # commands start fast

    return partial(
        _shed, LargeCluster.of(spark, directory, progress), request, assumptions, recently_unloaded
    )


def _shed(
    cluster: LargeCluster,
    request: ShedRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None,
    _directory: Path,
    *,
    as_json: bool,
) -> int:
    from core.spark.pulsar.large.shed import large_rounds  # noqa: PLC0415  # the same

    recent = _known(cluster, read_list(recently_unloaded))
    strategy, assumptions = shed.chosen(cluster.skeleton, request, assumptions)
    settings = assumptions.settings_of(cluster.skeleton)
    started = time.perf_counter()
    rounds = large_rounds(
        cluster,
        strategy,
        settings,
        request.rounds,
        recently_unloaded=recent.names,
        is_strategy_only=request.strategy_only,
    )
    each_ms = (time.perf_counter() - started) * 1000 / len(rounds)
    manager = cluster.manifest.load_manager
    answer = ShedAnswer(
        strategy=strategy,
        settings=settings,
        rounds=rounds,
        elapsed_ms=(each_ms,) * len(rounds),
    )
    if not request.strategy_only:
        placed = shed.placed_by(settings, manager)
        answer = replace(answer, placement=placed["placement"], warning=placed["warning"])
    return shed.print_rounds(answer, recent, request, as_json=as_json)


def _known(cluster: LargeCluster, named: list[str]) -> RecentBundles:
    """Leave out the bundles that the cluster does not have."""
    return shed.known_bundles(cluster.named(named), named) if named else RecentBundles()
