"""The composition root's part for Spark; see :mod:`dashboard.services`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dashboard.services import Config


HIDES: Final = "hides"
"""Attribute of the command line's finder that hides a package from slow imports: which one."""


def session(config: Config) -> SparkSession:
    """Return the process's Spark session; making it takes seconds.

    Raises:
        ConfigError: It does not start, or no Java was found.
    """
    show_pandas()
    from connectors.sandbox.java import find_java  # noqa: PLC0415  # commands must start fast
    from core.spark import session as spark  # noqa: PLC0415  # the same

    java = None if config.spark.master.startswith("sc://") else find_java().home
    return spark.session(spark.SparkOptions(config.spark.master, java, config.spark.conf))


def show_pandas() -> None:
    """Let pandas be found: commands start without it, and Spark wants it to be there."""
    sys.meta_path[:] = [one for one in sys.meta_path if getattr(one, HIDES, "") != "pandas"]
