"""The failure drill of one very large cluster: some failures at a time, distributed to tasks.

A failure is about the bundles of the brokers that are lost; of all others it needs what they add up
to by broker and by namespace. So failures come in waves: the bundles of a wave are brought here,
and its failures are distributed with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from core.errors import InputError
from core.facts import Assumed
from core.operations.drill.placing import Loss
from core.operations.drill.pulsar import Drill, drill_of, losses_of, simulate_losses
from core.operations.drill.request import DrillRequest
from core.progress import Progress
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.view import Floats, LoadView
from core.snapshot import PulsarSnapshot
from core.spark.jobs.packed import dealt, each, pack
from core.spark.pulsar.large.cluster import CLIENTS, NEEDED, LargeCluster
from core.spark.pulsar.large.map_order import BucketOrders
from core.spark.pulsar.large.place import sendable
from core.spark.pulsar.large.reduced import ReducedCluster
from core.spark.size import MAX_PLACED
from core.units import pluralize

_GROUPS: Final = 16
_DRILLED: Final = (*NEEDED, *CLIENTS)


class _Clients(LargeCluster):
    """The cluster, whose bundles are brought with their clients."""

    @property
    def fetched(self) -> tuple[str, ...]:
        """Columns of bundles that are brought here."""
        return _DRILLED


def spread_drill(
    spark: SparkSession,
    directory: str,
    assumed: Assumed,
    request: DrillRequest,
    progress: Progress,
) -> Drill:
    """Simulate the failures of a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError, InputError, ComputeError, JobStoppedError: See :func:`large_drill`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    settings = effective_settings(
        cluster.skeleton, overrides=assumed.settings, release=assumed.release
    )
    return large_drill(cluster, settings, request)


def large_drill(cluster: LargeCluster, settings: EffectiveSettings, request: DrillRequest) -> Drill:
    """Simulate the failures, as :func:`core.operations.drill.pulsar.drill` does in process.

    One that is too large is left out and named: the leader places its bundles one after the other,
    each by what it placed before, which is nothing to deal out.

    Args:
        cluster: The whole.
        settings: The leader's active settings, of this cluster.
        request: What is computed.
    Raises:
        UnknownNameError: A name that is no broker and no failure domain.
        InputError: All of them are too large.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    whole = _Clients(cluster.spark, cluster.directory, cluster.manifest, cluster.progress)
    owned = whole.owned.counts
    losses = losses_of(LoadView.of(whole.skeleton, settings), request)
    fitting = [loss for loss in losses if _size(loss, owned) <= MAX_PLACED]
    skipped = tuple(
        _too_large(cluster.manifest.cluster, loss, _size(loss, owned))
        for loss in losses
        if _size(loss, owned) > MAX_PLACED
    )
    if not fitting:
        raise skipped[0]
    found: list[dict[str, pa.Table]] = []
    for wave in _waves(fitting, owned):
        found += _simulated(whole, settings, wave, request)
    done = drill_of(found, request)
    if not skipped:
        return done
    words = f"{done.answer} {pluralize(len(skipped), 'failure')} excluded: too large for Spark."
    return replace(done, answer=words, skipped=skipped)


def _size(loss: Loss, owned: Floats) -> float:
    return float(owned[list(loss.rows)].sum())


def _too_large(cluster: str, loss: Loss, bundles: float) -> InputError:
    what = "Failure domain" if loss.kind == "domain" else "Broker"
    return InputError(
        f"{what} {loss.name} of {cluster} has {bundles:,.0f} bundles. After a failure the "
        f"leader places them one after the other; Spark simulates at most {MAX_PLACED:,}.",
        hint=f"`trimtab drill --engine local --only {loss.name}` simulates it if one process can "
        "hold the whole cluster.",
    )


def _waves(losses: Sequence[Loss], owned: Floats) -> Iterator[tuple[Loss, ...]]:
    """Cut the failures into waves."""
    wave: list[Loss] = []
    size = 0.0
    for loss in losses:
        own = _size(loss, owned)
        if wave and size + own > MAX_PLACED:
            yield tuple(wave)
            wave, size = [], 0.0
        wave.append(loss)
        size += own
    yield tuple(wave)


def _simulated(
    cluster: LargeCluster, settings: EffectiveSettings, wave: Sequence[Loss], request: DrillRequest
) -> list[dict[str, pa.Table]]:
    lost = sorted({row for loss in wave for row in loss.rows})
    reduced = ReducedCluster.of(cluster, (), owners=lost)
    view = sendable(reduced.view(settings, BucketOrders(cluster), is_placed=True))
    snapshot = PulsarSnapshot.build(cluster.manifest, reduced.snapshot.tables)  # nothing derived
    groups = dealt(wave, _GROUPS)

    def kernel(tasks: pa.Table) -> pa.Table:
        numbers = tasks["task"].to_pylist()
        done = [
            pack(one, simulate_losses(snapshot, settings, groups[one], request, view))
            for one in numbers
        ]
        return pa.concat_tables(done)

    words = f"failure drill, {pluralize(len(wave), 'failure')} from {wave[0].name} on"
    return each(cluster.spark, groups, kernel, cluster.progress, words)
