"""Hours of the tiers on Spark: native columns, from the files of the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.history.store.layout import EVENTS, HOUR_MS, MINUTES
from core.history.store.reading import TimeRange
from core.history.tiers.local import completed, ordered, profile_columns, tier_columns
from core.history.tiers.model import SystemTiers
from core.history.tiers.partitions import tier_files
from core.history.tiers.registry import HOURS, PROFILES, tier_tables
from core.history.tiers.sql import Dialect, hour_query, profile_query, views
from core.snapshot.record import CLUSTER, SEGMENT, TAKEN_AT
from core.spark.tables import history_rows
from core.units import ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

SPARK: Final = Dialect(
    quote="`",
    # not struct(): after that word Spark reads >> as the end of two types
    listed=lambda column, order: (
        f"transform(array_sort(collect_list(named_struct('o', {order}, 'v', {column}))), x -> x.v)"
    ),
    spread=lambda rows, keys, bins, counts: (
        f"SELECT {keys}, z.{bins} AS b, z.{counts} AS c FROM "  # noqa: S608  # names of ours
        f"(SELECT {keys}, explode(arrays_zip({bins}, {counts})) AS z FROM {rows} hours) zipped"
    ),
)


class SparkTiers:
    """Computes hours of the tiers on Spark; the rows are those of one process, to the last bit.

    Args:
        spark: Session; its executors must be able to read the history's files.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def hours(
        self, store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int]
    ) -> pa.Table:
        """Return the rows of some hours, as :func:`core.history.tiers.local.hours_here` does.

        Raises:
            HistoryError: A table of the history cannot be read.
        """
        if not hours:
            return tier_columns(HOURS).empty_table()
        kept: list[DataFrame] = []
        try:
            for name, rows in self._sources(store, cluster, system, hours).items():
                rows.createOrReplaceTempView(name)
            for name, sql in views(system, SPARK):
                rows = self._spark.sql(sql)
                if name.startswith("tier_samples"):  # read by several queries each
                    kept.append(rows.cache())
                rows.createOrReplaceTempView(name)
            parts = [
                completed(HOURS, self._spark.sql(hour_query(system, one, SPARK)).toArrow())
                for one in system.everything
            ]
        finally:
            for rows in kept:
                rows.unpersist()
        return ordered(pa.concat_tables(parts))

    def profiles(
        self, store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int]
    ) -> pa.Table:
        """Return the profiles of hours, as :func:`core.history.tiers.local.profiles_here` does.

        Raises:
            HistoryError: The hours cannot be read.
        """
        names = [name for name in profile_columns(system) if name != TAKEN_AT]
        schema = pa.schema([HOURS.stored.field(name) for name in (TAKEN_AT, *names)])
        span = TimeRange(min(hours), max(hours))
        rows = history_rows(
            self._spark, tier_files(tier_tables(store), HOURS, cluster, span), schema
        )
        rows = rows.where((sf.col(CLUSTER) == cluster) & sf.col(TAKEN_AT).isin(list(hours)))
        rows.createOrReplaceTempView("tier_hours")
        parts = [
            completed(PROFILES, self._spark.sql(profile_query(one)).toArrow())
            for one in system.everything
        ]
        return ordered(pa.concat_tables(parts))

    def _sources(
        self, store: HistoryStore, cluster: str, system: SystemTiers, hours: Sequence[int]
    ) -> dict[str, DataFrame]:
        # minutes first: whatever they name was committed before them
        minutes = self._read(store, MINUTES.name, ("system", SEGMENT), cluster, hours)
        minutes = minutes.where(sf.col("system") == system.system)
        events = self._read(store, EVENTS.name, (*EVENTS.columns.names, SEGMENT), cluster, hours)
        there = events.join(
            sf.broadcast(minutes.select(CLUSTER, TAKEN_AT, SEGMENT)),
            [CLUSTER, TAKEN_AT, SEGMENT],
            "left_semi",
        )
        alone = events.where(sf.col(SEGMENT).isNull())
        found = {"tier_minutes": minutes, "tier_events": there.unionByName(alone)}
        for subject in system.subjects:
            if subject.rows:
                columns = (SEGMENT, "gone", "copy", *subject.columns)
                rows = self._read(store, subject.rows, columns, cluster, hours)
                found[f"tier_rows_{subject.rows}"] = rows
        return found

    def _read(
        self,
        store: HistoryStore,
        kind: str,
        columns: Sequence[str],
        cluster: str,
        hours: Sequence[int],
    ) -> DataFrame:
        stored = store.tables.kinds.of(kind).stored
        schema = pa.schema([stored.field(name) for name in (TAKEN_AT, *columns)])
        first, last = min(hours), max(hours) + HOUR_MS - 1
        files = store.files(kind, cluster, ms_to_datetime(first), ms_to_datetime(last))
        rows = history_rows(self._spark, files, schema).where(sf.col(CLUSTER) == cluster)
        at = sf.col(TAKEN_AT)
        return rows.where((at - at % HOUR_MS).isin(list(hours)))
