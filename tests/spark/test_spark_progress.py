"""A job on Spark tells how far it is, stops when asked, and says why it failed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from core.errors import ComputeError, SnapshotError
from core.progress import JobStoppedError
from core.spark.lift import lift
from core.spark.progress import followed

LONGER_THAN_ANY_TEST_S = 120.0
NUMBERS = pa.schema([pa.field("id", pa.int64())])


@dataclass
class Told:
    """Progress that remembers, and stops once tasks are seen when it is impatient."""

    is_impatient: bool = False
    steps: list[tuple[int, int, str]] = field(default_factory=list)

    def step(self, done: int, total: int, words: str) -> None:
        self.steps.append((done, total, words))
        if self.is_impatient and total:
            raise JobStoppedError("Stopped by a person.")


def test_all_tasks_are_done_at_the_end(spark):
    told = Told()
    with followed(spark, told, "counting"):
        assert spark.range(0, 100, numPartitions=3).count() == 100
    done, total, words = told.steps[-1]
    assert done == total
    assert words == "counting"


def test_a_stopped_job_is_cancelled_and_the_session_goes_on(spark):
    def linger(group: pa.Table) -> pa.Table:
        threading.Event().wait(LONGER_THAN_ANY_TEST_S)
        return group

    rows = lift(spark.range(4), ["id"], linger, NUMBERS)
    with pytest.raises(JobStoppedError), followed(spark, Told(is_impatient=True), "waiting"):
        rows.toArrow()
    with followed(spark, Told(), "counting"):
        assert spark.range(5).count() == 5


def test_what_a_task_says_of_its_failure_is_told(spark):
    def fail(_group: pa.Table) -> pa.Table:
        raise SnapshotError("No snapshot in nowhere.")

    rows = lift(spark.range(1), ["id"], fail, NUMBERS)
    with (
        pytest.raises(ComputeError, match="while reading: No snapshot in nowhere"),
        followed(spark, Told(), "reading"),
    ):
        rows.toArrow()


def test_the_group_of_an_outer_job_is_kept(spark):
    with followed(spark, Told(), "outer"):
        outer = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
        with followed(spark, Told(), "inner"):
            inner = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == outer != inner
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
