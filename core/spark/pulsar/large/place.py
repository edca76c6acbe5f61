"""Placement of all bundles of one very large cluster: namespaces are distributed to tasks.

A distribution hangs on the brokers, which every task knows, and on how many bundles of the
namespace each broker has, which the task counts in the bundles it was given. What the leader
remembers of bundles without topics, and the anti-affinity groups, are few and go to every task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from core.facts import Assumed
from core.operations.operation import Rows
from core.operations.place import Placed, placed
from core.operations.place.namespaces import NAMESPACES, by_namespace, place_tables
from core.progress import Progress
from core.pulsar.bundle_counts import Codes, Ints, RangeCounts, row_index
from core.pulsar.facts import PulsarFacts
from core.pulsar.placement import find_strategy
from core.pulsar.placement.model import PlacementTable
from core.pulsar.placement.place import bound_brokers, place_namespaces
from core.pulsar.requests import PlaceBundleRequest, PlaceRequest
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView
from core.spark.progress import followed
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.map_order import BucketOrders
from core.spark.pulsar.large.reduced import ReducedCluster
from core.spark.pulsar.large.scan import CODE, OWN, ROW, Cut, each_group
from core.spark.tables import collected

_NAMESPACES_A_GROUP: Final = 64
_MAX_GROUPS: Final = 2_000
_COLUMNS: Final = ("namespace", "is_broker_bound")
_BASE_COLUMNS: Final = ("range_counts", "group_counts")


def spread_placement(
    spark: SparkSession,
    directory: str,
    _: Assumed,
    request: PlaceRequest,
    progress: Progress,
) -> Rows:
    """Place the bundles of a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError, ComputeError, JobStoppedError: See :func:`large_placement`.
    """
    return large_placement(LargeCluster.of(spark, Path(directory), progress), request)


def spread_bundle(
    spark: SparkSession,
    directory: str,
    assumed: Assumed,
    request: PlaceBundleRequest,
    progress: Progress,
) -> Placed:
    """Place a bundle of a snapshot directory; see :data:`core.operations.operation.Spread`.

    Raises:
        UnknownNameError: There is no such bundle, broker or strategy.
        ComputeError, JobStoppedError: See :func:`view_of_namespace`.
    """
    cluster = LargeCluster.of(spark, Path(directory), progress)
    settings = PulsarFacts(cluster.skeleton, assumed).settings
    view = view_of_namespace(cluster, settings, request.bundle.rpartition("/")[0])
    return placed(view, settings, request)


def large_placement(cluster: LargeCluster, request: PlaceRequest) -> Rows:
    """Place all bundles, as :func:`core.operations.place.namespaces.place_bundles` does in process.

    Args:
        cluster: The whole.
        request: The strategy and settings.
    Raises:
        UnknownNameError: No such strategy.
        ComputeError: Spark failed.
        JobStoppedError: A person stopped it.
    """
    if request.strategy is not None:
        find_strategy(request.strategy)  # before anything is read
    settings = cluster.settings(request.settings)
    reduced = ReducedCluster.of(cluster, ())
    view = reduced.view(settings, BucketOrders(cluster), is_placed=True)
    nothing = np.zeros(0, np.int64)
    # the name of the strategy, or why there is none, before anything is distributed
    empty = place_namespaces(view, settings, nothing, {}, strategy=request.strategy)
    kernel = _Namespaces(sendable(view), settings, request.strategy)
    groups = min(max(cluster.namespaces.num_rows // _NAMESPACES_A_GROUP, 1), _MAX_GROUPS)
    pieces = cluster.pieces(Cut(_columns, ByNamespace(groups)), _COLUMNS)
    with followed(cluster.spark, cluster.progress, "placing bundles by namespace"):
        namespaces = collected(each_group(pieces, kernel, NAMESPACES), NAMESPACES)
    return place_tables(empty.strategy, empty.why, namespaces.sort_by("namespace"))


def _columns(part: pa.Table) -> pa.Table:
    return part.select([*_COLUMNS, CODE, OWN, ROW])


@dataclass(frozen=True)
class ByNamespace:
    """Deals out namespaces."""

    groups: int

    def __call__(self, rows: pa.Table) -> Ints:
        """Return the group of each row, the same wherever it is."""
        names = rows["namespace"].combine_chunks().dictionary_encode()
        group = [crc32(name.encode()) % self.groups for name in names.dictionary.to_pylist()]
        return np.asarray(np.array(group, np.int64)[names.indices.to_numpy()], np.int64)


def view_of_namespace(
    cluster: LargeCluster, settings: EffectiveSettings, namespace: str
) -> LoadView:
    """Return a view with all bundles of a namespace, on which each of them can be placed.

    Args:
        cluster: The whole.
        settings: The leader's active settings.
        namespace: Name; bundles of others are not available.
    Raises:
        ComputeError: Spark failed.
    """
    reduced = ReducedCluster.of(cluster, (), namespace)
    return reduced.view(settings, BucketOrders(cluster), is_placed=True)


def sendable(view: LoadView) -> LoadView:
    """Return a view that tasks can be sent, with the counts that it was given."""
    sent = replace(view, shared_index=partial(row_index, view.bundle_names))
    sent.__dict__.update({name: getattr(view, name) for name in _BASE_COLUMNS})
    return sent


@dataclass(frozen=True, eq=False)
class _Namespaces:
    """Places the bundles of some namespaces.

    Attributes:
        base: Brokers, and the bundles and namespaces that matter to all others.
        settings: The leader's active settings.
        strategy: Class name; ``None`` for the configured one.
    """

    base: LoadView
    settings: EffectiveSettings
    strategy: str | None

    def __call__(self, group: pa.Table) -> pa.Table:
        view, rows = self._view(group)
        is_bound = group["is_broker_bound"].to_numpy(zero_copy_only=False)
        bound = bound_brokers(view, np.unique(rows[is_bound]))
        table = place_namespaces(
            view, self.settings, np.unique(rows), bound, strategy=self.strategy
        )
        return by_namespace(_of_group(table, rows, group[OWN].to_numpy()))

    def _view(self, group: pa.Table) -> tuple[LoadView, Ints]:
        """Return the base with the group's namespaces, and which of them each row is of."""
        base = self.base
        names = group["namespace"].unique().to_pylist()
        new = [name for name in names if name not in base.namespace_index]
        known = (*base.namespaces, *new)
        rows = pc.index_in(group["namespace"], value_set=pa.array(known, pa.string())).to_numpy()
        group_codes = np.append(base.namespace_group, np.full(len(new), -1, np.int32))
        view = replace(base, namespaces=known, namespace_group=group_codes.astype(np.int32))
        reporter = group[CODE].to_numpy()
        view.__dict__["range_counts"] = self._range_counts(rows, reporter, len(new))
        view.__dict__["group_counts"] = base.group_counts
        return view, rows.astype(np.int64)

    def _range_counts(self, rows: Ints, reporter: Ints, new: int) -> RangeCounts:
        """Counts of the base's namespaces, and of the new ones after them."""
        first = len(self.base.namespaces)
        is_new = rows >= first
        size = (new, len(self.base.brokers))
        whole: Codes = (rows[is_new] - first).astype(np.int32)
        more = RangeCounts.of(whole, reporter[is_new].astype(np.int32), size)
        base = self.base.range_counts
        return RangeCounts(
            offsets=np.append(base.offsets, more.offsets[1:] + base.offsets[-1]),
            broker=np.append(base.broker, more.broker),
            count=np.append(base.count, more.count),
        )


def _of_group(table: PlacementTable, rows: Ints, owner: Ints) -> PlacementTable:
    """Return the table with the bundles of the group in the place of those of the base."""
    view = replace(table.view, owner=owner.astype(np.int32))
    return replace(table, view=view, bundle_group=rows.astype(np.int32))
