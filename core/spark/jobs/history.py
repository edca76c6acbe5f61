"""Rows of the history on Spark: those of committed minutes, as the store itself reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from core.history.store.layout import MINUTES
from core.snapshot.record import CLUSTER, DAY, SEGMENT, TAKEN_AT
from core.spark.tables import history_rows
from core.units import datetime_to_ms

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Span = tuple[Sequence[str], datetime | None, datetime | None]
"""Clusters (none: all), start and end."""


def recorded_rows(
    spark: SparkSession,
    store: HistoryStore,
    kind: str,
    columns: Sequence[str],
    span: Span,
) -> DataFrame:
    """Return rows of one kind with ``cluster`` and ``day``; those of committed minutes only.

    Args:
        spark: Session; its executors must be able to read the history's files.
        store: The history.
        kind: One of :attr:`HistoryLocation.kinds`.
        columns: Wanted ones, ``taken_at`` among them.
        span: Clusters, start and end, both in it.
    Raises:
        HistoryError: There is no such kind, or its table cannot be read.
    """
    # minutes first: whatever they name was committed before them
    minutes = _within(_read(spark, store, MINUTES.name, (TAKEN_AT, SEGMENT), span), span)
    rows = _within(_read(spark, store, kind, (*columns, SEGMENT), span), span)
    there = sf.broadcast(minutes.select(CLUSTER, TAKEN_AT, SEGMENT))
    wanted = list(dict.fromkeys((CLUSTER, DAY, *columns)))
    timed = rows.join(there, [CLUSTER, TAKEN_AT, SEGMENT], "left_semi").select(*wanted)
    if store.tables.kinds.of(kind).table:
        return timed  # parts of snapshots are always a recorder's
    return timed.unionByName(rows.where(sf.col(SEGMENT).isNull()).select(*wanted))


def _read(
    spark: SparkSession,
    store: HistoryStore,
    kind: str,
    columns: Sequence[str],
    span: Span,
) -> DataFrame:
    stored = store.tables.kinds.of(kind).stored
    schema = pa.schema([stored.field(name) for name in dict.fromkeys(columns)])
    clusters, start, end = span
    only = clusters[0] if len(clusters) == 1 else None
    return history_rows(spark, store.files(kind, only, start, end), schema)


def _within(rows: DataFrame, span: Span) -> DataFrame:
    clusters, start, end = span
    if clusters:
        rows = rows.where(sf.col(CLUSTER).isin(list(clusters)))
    if start is not None:
        rows = rows.where(sf.col(TAKEN_AT) >= datetime_to_ms(start))
    if end is not None:
        rows = rows.where(sf.col(TAKEN_AT) <= datetime_to_ms(end))
    return rows
