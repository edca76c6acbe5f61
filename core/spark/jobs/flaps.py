"""Flaps on Spark: minutes by cluster and day, then a task for the moves of each cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from core.history.analysis.flaps.flaps import EVENT_COLUMNS, FlapAnswer, flap_answer, flaps_of
from core.history.analysis.requests import FlapsRequest, RecordScope
from core.history.analysis.trends.job import chosen_clusters, with_cluster
from core.history.analysis.trends.registry import TRENDS_OF
from core.history.analysis.trends.subject import SystemTrends
from core.progress import Progress
from core.snapshot.record import CLUSTER, DAY
from core.spark.jobs.history import Span, recorded_rows
from core.spark.jobs.packed import PACKED, pack, unpack
from core.spark.lift import Kernel, lift
from core.spark.progress import followed

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

_MINUTES: Final = pa.schema(
    [
        pa.field(CLUSTER, pa.string()),
        pa.field("taken_at", pa.int64()),
        pa.field("deviation", pa.float64()),
    ]
)


def flaps_on_spark(
    spark: SparkSession,
    store: HistoryStore,
    request: FlapsRequest,
    scope: RecordScope,
    progress: Progress,
) -> FlapAnswer:
    """Return the flaps of recorded clusters.

    The answer is that of :func:`core.history.analysis.flaps.job.flaps_here`.

    Args:
        spark: Session; its executors must be able to read the history's files.
        store: The history.
        request: Which minutes around a move are compared.
        scope: Clusters, time, and how long a minute is.
        progress: Receives the tasks done.
    Raises:
        UnknownNameError, HistoryError: See there.
        JobStoppedError: A stop was requested.
    """
    names = chosen_clusters(store, scope.clusters)
    span = (tuple(names), scope.start, scope.end)
    with followed(spark, progress, "flaps"):
        events = recorded_rows(spark, store, "events", EVENT_COLUMNS, span)
        minutes = _minutes(spark, store, span)
        # every cluster has an answer, one without events too
        known = spark.createDataFrame(pa.table({CLUSTER: pa.array(names, pa.string())}))
        events = known.join(events.drop(DAY), CLUSTER, "left")
        both = events.groupBy(CLUSTER).cogroup(minutes.groupBy(CLUSTER))
        kernel = _kernel(request, scope.minute_s, names)
        found = both.applyInArrow(kernel, from_arrow_schema(PACKED)).toArrow()
    return flap_answer(zip(names, unpack(found), strict=True))


def _minutes(spark: SparkSession, store: HistoryStore, span: Span) -> DataFrame:
    parts = [spark.createDataFrame([], from_arrow_schema(_MINUTES))]
    for system in TRENDS_OF.values():
        if store.files(system.minute_rows, None, span[1], span[2]):
            rows = recorded_rows(spark, store, system.minute_rows, system.minute_columns, span)
            parts.append(lift(rows, [CLUSTER, DAY], _day_of(system), _MINUTES))
    return reduce(DataFrame.unionByName, parts)


def _day_of(system: SystemTrends) -> Kernel:
    def day(group: pa.Table) -> pa.Table:
        cluster = group[CLUSTER][0].as_py()
        minutes = system.minutes(group).select(["taken_at", "deviation"])
        whole = with_cluster(minutes, cluster)
        return pa.table([whole[one.name] for one in _MINUTES], schema=_MINUTES)

    return day


def _kernel(
    request: FlapsRequest, minute_s: float, names: list[str]
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    places = {name: at for at, name in enumerate(names)}

    def kernel(events: pa.Table, minutes: pa.Table) -> pa.Table:
        place = places[events[CLUSTER][0].as_py()]
        ascending = minutes.sort_by("taken_at")
        return pack(place, flaps_of(events, ascending, request, minute_s))

    return kernel
