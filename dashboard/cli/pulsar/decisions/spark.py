"""Commands on one snapshot that is too large for one task: spread over Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.progress import Progress
from core.pulsar.requests import PlaceBundleRequest, ShedRequest, SimulateRequest
from core.snapshot import PulsarSnapshot
from core.spark.pulsar.large.size import is_large
from dashboard.cli.pulsar import snapshots
from dashboard.cli.pulsar.decisions import shed, simulation
from dashboard.cli.pulsar.decisions.shed import KnownBundles
from dashboard.cli.pulsar.decisions.shed_answer import ShedAnswer
from dashboard.cli.pulsar.snapshots import Assumptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from core.spark.pulsar.large.cluster import LargeCluster

_BUNDLES: Final = "bundles"


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


def place_of(
    spark: SparkSession,
    directory: Path,
    progress: Progress,
    *,
    request: PlaceBundleRequest,
    assumptions: Assumptions,
) -> Callable[..., int] | None:
    """Return the ``trimtab place`` of a large cluster; ``None`` if one task can hold it."""
    if not is_large(directory):
        return None
    from core.spark.pulsar.large.cluster import LargeCluster  # noqa: PLC0415  # commands start fast

    return partial(_place, LargeCluster.of(spark, directory, progress), request, assumptions)


def _place(
    cluster: LargeCluster,
    request: PlaceBundleRequest,
    assumptions: Assumptions,
    _directory: Path,
    *,
    as_json: bool,
) -> int:
    from core.spark.pulsar.large.place import view_of_namespace  # noqa: PLC0415  # the same

    settings = assumptions.settings_of(cluster.skeleton)
    view = view_of_namespace(cluster, settings, request.bundle.rpartition("/")[0])
    return snapshots.print_placement(view, settings, request, as_json=as_json)


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

    recent = _known(cluster, shed.read_bundle_list(recently_unloaded))
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


def simulate_of(
    spark: SparkSession,
    directory: Path,
    progress: Progress,
    *,
    request: SimulateRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None,
) -> Callable[..., int] | None:
    """Return the ``trimtab simulate`` of a large cluster; ``None`` if one task can hold it."""
    if not is_large(directory):
        return None
    from core.spark.pulsar.large.cluster import LargeCluster  # noqa: PLC0415  # commands start fast

    return partial(
        _simulate,
        LargeCluster.of(spark, directory, progress),
        request,
        assumptions,
        recently_unloaded,
    )


def _simulate(
    cluster: LargeCluster,
    request: SimulateRequest,
    assumptions: Assumptions,
    recently_unloaded: Path | None,
    _directory: Path,
    *,
    as_json: bool,
) -> int:
    from core.spark.pulsar.large.simulate import large_simulation  # noqa: PLC0415  # the same

    recent = _known(cluster, shed.read_bundle_list(recently_unloaded))
    simulated = partial(large_simulation, cluster)
    return simulation.print_simulation(
        cluster.skeleton, simulated, recent, request, assumptions, as_json=as_json
    )


def _known(cluster: LargeCluster, named: list[str]) -> KnownBundles:
    """Leave out the bundles that the cluster does not have."""
    if not named:
        return KnownBundles(())
    few = PulsarSnapshot.build(cluster.manifest, {_BUNDLES: cluster.named(named)})
    return shed.known_bundles(few, named)
