"""Trends on Spark: a task for each day of a cluster; of bundles and tables for a share of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from core.history.analysis.requests import Period, RecordScope, TrendsRequest
from core.history.analysis.trends.answer import RecordedMinutes, Trends, answer
from core.history.analysis.trends.job import recorded_of, trends_of_tiers, with_cluster
from core.history.analysis.trends.registry import TRENDS_OF, subjects_of
from core.history.analysis.trends.subject import TrendSubject
from core.history.analysis.trends.tables import LAST_OF_CLUSTERS, OF_CLUSTERS
from core.history.analysis.trends.trends import LAST, TRENDS
from core.progress import Progress
from core.snapshot.record import CLUSTER, DAY
from core.spark.jobs.history import recorded_rows
from core.spark.lift import Kernel, lift
from core.spark.progress import followed
from core.units import ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

_SHARES: Final = 8
"""Groups of the bundles or tables of a day: no task holds all of them."""

_BOTH: Final = pa.schema(
    [
        *(pa.field(one.name, one.type) for one in OF_CLUSTERS),
        *(pa.field(one.name, one.type) for one in LAST if one.name != "subject"),
    ]
)
"""Trends, and last rows of bundles: those have no measure."""


def trends_on_spark(
    spark: SparkSession,
    store: HistoryStore,
    request: TrendsRequest,
    scope: RecordScope,
    progress: Progress,
) -> Trends:
    """Return the trends of recorded clusters.

    The answer is that of :func:`core.history.analysis.trends.job.trends_here`.

    Args:
        spark: Session; its executors must be able to read the history's files.
        store: The history.
        request: Period and subjects.
        scope: Clusters and time.
        progress: Receives the tasks done.
    Raises:
        UnknownNameError, HistoryError: See there.
        JobStoppedError: A stop was requested.
    """
    recorded = recorded_of(store, scope, request.period)
    systems = {one.system for one in recorded.values() if one.taken_at.size}
    trends, lasts = trends_of_tiers(store, request, recorded)
    for subject in (one for system in sorted(systems) for one in subjects_of(system)):
        if subject.name not in request.subjects:
            continue
        own = {
            name: one
            for name, one in recorded.items()
            if one.taken_at.size and subject in TRENDS_OF[one.system].subjects
        }
        first = min(int(one.taken_at[0]) for one in own.values())
        span = (tuple(sorted(own)), ms_to_datetime(first), scope.end)
        with followed(spark, progress, f"trends of {subject.name}"):
            rows = recorded_rows(spark, store, subject.rows, subject.columns, span)
            rows = rows.withColumn("share", _share(subject.shared_by))
            kernel = _kernel(subject, own, request.period)
            found = lift(rows, [CLUSTER, DAY, "share"], kernel, _BOTH).toArrow()
        is_last = found["measure"].is_null()
        trends.append(found.filter(pc.invert(is_last)).select(OF_CLUSTERS.names).cast(OF_CLUSTERS))
        lasts.append(found.filter(is_last).select(LAST_OF_CLUSTERS.names).cast(LAST_OF_CLUSTERS))
    return answer(trends, lasts, recorded, request.period)


def _share(column: str) -> Column:
    if not column:
        return sf.lit(0)
    return sf.pmod(sf.crc32(sf.col(column).cast("string")), sf.lit(_SHARES)).cast("int")


def _kernel(
    subject: TrendSubject, recorded: Mapping[str, RecordedMinutes], period: Period
) -> Kernel:
    minutes = dict(recorded)

    def kernel(group: pa.Table) -> pa.Table:
        cluster = group[CLUSTER][0].as_py()
        # a collector goes on while Spark starts: the minutes that were counted are the ones summed
        group = minutes[cluster].within(group)
        parts = [_BOTH.empty_table()]
        counts = minutes[cluster].per_period(period)
        for name, table in subject.day(group, period, counts):
            whole = with_cluster(table, cluster)
            schema = LAST if name == "last" else TRENDS
            parts.append(_widened(whole, schema))
        return pa.concat_tables(parts)

    return kernel


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    names = {CLUSTER, *schema.names}
    columns = [
        table[one.name].cast(one.type) if one.name in names else pa.nulls(table.num_rows, one.type)
        for one in _BOTH
    ]
    return pa.table(columns, schema=_BOTH)
