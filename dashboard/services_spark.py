"""The composition root's part for Spark; see :mod:`dashboard.services`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dashboard.services import Config


def session(config: Config) -> SparkSession:
    """Return the process's Spark session; making it takes seconds.

    Raises:
        ConfigError: It does not start, or no Java was found.
    """
    from connectors.sandbox.java import find_java  # noqa: PLC0415  # commands must start fast
    from core.spark import session as spark  # noqa: PLC0415  # the same

    java = None if config.spark.master.startswith("sc://") else find_java().home
    return spark.session(spark.SparkOptions(config.spark.master, java, config.spark.conf))
