"""Snapshot directories and history files as Spark tables with declared schemas, and back.

Nothing is inferred: a file that lacks a column gives nulls, one whose column is of another type is
an error. Every table of several clusters has a column ``cluster``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from core.errors import ComputeError, InputError
from core.schemas import conform

CLUSTER: Final = "cluster"
MAX_ROWS: Final = 5_000_000
"""More rows than this are no answer for one process; a job that makes more writes files."""

_PARTITION_COLUMNS: Final = (pa.field(CLUSTER, pa.string()), pa.field("day", pa.string()))
_HADOOP_SCHEMES: Final = {"s3://": "s3a://", "az://": "abfss://"}
"""What the history's library calls a store, and what Spark calls it."""


def snapshot_rows(
    spark: SparkSession,
    directories: Mapping[str, str | Path],
    name: str,
    schema: pa.Schema,
    *,
    row_number: str | None = None,
) -> DataFrame:
    """Return one table of snapshot directories, its rows marked with their cluster.

    Args:
        spark: Session; its executors must be able to read the directories.
        directories: ``{cluster: snapshot directory or its URI}``.
        name: Of the table.
        schema: Of the columns that are wanted; the others are not read.
        row_number: Name of a column with the row's place in its table, from 0: Spark keeps no
            order; ``None`` if there is none.
    Raises:
        InputError: No directory was named.
    """
    if not directories:
        raise InputError(
            "No snapshot is specified.", hint="Specify at least one snapshot directory."
        )
    wanted = from_arrow_schema(schema)
    place = [] if row_number is None else [sf.col("_metadata.row_index").alias(row_number)]
    parts = [
        spark.read.schema(wanted)
        .parquet(spark_uri(f"{directory}/{name}.parquet"))
        .select("*", sf.lit(cluster).alias(CLUSTER), *place)
        for cluster, directory in directories.items()
    ]
    return reduce(DataFrame.unionAll, parts)


def history_rows(spark: SparkSession, files: Sequence[str], schema: pa.Schema) -> DataFrame:
    """Return rows of history files, with the columns ``cluster`` and ``day`` of their paths.

    Args:
        spark: Session; its executors must be able to read the files.
        files: As :meth:`core.history.store.store.HistoryStore.files` names them, all of one
            kind. Their rows of minutes that are not committed do not count: :func:`committed`.
        schema: Of the columns that are wanted; those of the paths need not be in it.
    """
    own = [
        field for field in schema if field.name not in {part.name for part in _PARTITION_COLUMNS}
    ]
    whole = from_arrow_schema(pa.schema([*own, *_PARTITION_COLUMNS]))
    if not files:
        return spark.createDataFrame([], whole)
    root = spark_uri(files[0].partition(f"/{CLUSTER}=")[0])
    return spark.read.schema(whole).option("basePath", root).parquet(*map(spark_uri, files))


def arrow_rows(spark: SparkSession, table: pa.Table, partitions: int = 0) -> DataFrame:
    """Return a table of this process as a Spark table.

    Args:
        spark: Session.
        table: Small: it goes through the driver.
        partitions: How many; 0: Spark's own choice.
    """
    rows = spark.createDataFrame(table)
    return rows.repartition(partitions) if partitions else rows


def collected(rows: DataFrame, schema: pa.Schema, *, limit: int = MAX_ROWS) -> pa.Table:
    """Bring an answer into this process; in no particular order.

    Args:
        rows: Spark table with at least the columns of ``schema``.
        schema: What is wanted.
        limit: Rows; reading stops past them.
    Raises:
        ComputeError: There are more rows.
        SchemaError: A column does not fit.
    """
    found = rows.select(*schema.names).limit(limit + 1).toArrow()
    if found.num_rows > limit:
        raise ComputeError(
            f"The result has more than {limit:,} rows.",
            hint="Use fewer clusters or a shorter period, or let the job write files.",
        )
    return conform(found, schema, name="answer")


def spark_uri(place: str) -> str:
    """Return a path or URI the way Spark names it."""
    for scheme, hadoop in _HADOOP_SCHEMES.items():
        if place.startswith(scheme):
            return hadoop + place.removeprefix(scheme)
    # not as_uri(): Spark does not decode what follows the scheme, and "=" is in every path
    return place if "://" in place else f"file://{Path(place).absolute()}"
