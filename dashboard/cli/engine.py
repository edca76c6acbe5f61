"""Engine of a command, its progress, and the files of its whole tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from core.errors import InputError, UnknownNameError
from core.files import make_private, whole_file
from dashboard import services
from dashboard.cli.output import UsageFaultError, note
from dashboard.services import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES: Final = ("local", "spark")


def is_spark(engine: str) -> bool:
    """Return whether an engine is Spark.

    Raises:
        UsageFaultError: There is no such engine.
    """
    if engine not in ENGINES:
        error = UnknownNameError.of("engine", engine, ENGINES)
        raise UsageFaultError(error.message, hint=error.hint)
    return engine == "spark"


def spark_session(config: services.Config) -> SparkSession:
    """Start Spark; this takes seconds."""
    note("Starting Spark ...")
    return spark.session(config)


def write_tables(out: Path | None, tables: Mapping[str, pa.Table]) -> None:
    """Write whole tables as ``<name>.parquet``.

    Raises:
        InputError: They cannot be written.
    """
    if out is None:
        return
    try:
        make_private(out)
        for name, one in tables.items():
            with whole_file(out / f"{name}.parquet") as file:
                pq.write_table(one, file, compression="zstd")
    except OSError as exc:
        raise InputError(
            f"{out} cannot be written: {exc.strerror}.", hint="Specify another folder."
        ) from exc
    note(f"Complete tables: {out}.")


def write_table(out: Path, rows: pa.Table) -> None:
    """Write a table as Parquet, or as CSV without its lists.

    Raises:
        InputError: It cannot be written.
    """
    from pyarrow import csv  # noqa: PLC0415  # commands start fast

    try:
        with whole_file(out) as file:
            if out.suffix == ".csv":
                plain = [one.name for one in rows.schema if not pa.types.is_list(one.type)]
                csv.write_csv(rows.select(plain), file)
            else:
                pq.write_table(rows, file, compression="zstd")
    except OSError as exc:
        raise InputError(
            f"{out} cannot be written: {exc.strerror}.", hint="Specify another file."
        ) from exc
