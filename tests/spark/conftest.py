"""One Spark session for the folder: starting it takes longer than all of its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from parts_here import tasks_here
from pyspark.sql import SparkSession

from connectors.sandbox.java import find_java
from core.spark.session import SparkOptions, end_session, session

__all__ = ["spark", "tasks_here"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    yield session(SparkOptions(master="local[2]", java_home=find_java().home))
    end_session()
