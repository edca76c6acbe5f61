"""Kernels lifted onto Spark: a group of rows in, a table out, always in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

Kernel = Callable[[pa.Table], pa.Table]
"""Takes all rows of one group, gives any number of rows of a declared schema."""


def lift(rows: DataFrame, keys: Sequence[str], kernel: Kernel, schema: pa.Schema) -> DataFrame:
    """Return a kernel's result for each group of rows.

    Args:
        rows: What the kernel needs, and the keys.
        keys: Columns that make a group; one task holds all of it.
        kernel: Runs in a Python worker of an executor; whatever it closes over goes there.
        schema: Of its answer.
    """

    def run(group: pa.Table) -> pa.Table:  # Spark counts a callable object's self as an argument
        return kernel(group)

    return rows.groupBy(*keys).applyInArrow(run, from_arrow_schema(schema))
