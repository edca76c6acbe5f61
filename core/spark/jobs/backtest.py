"""A back-test on Spark: one task simulates some candidates on one window of one cluster.

A task reads its window out of the history by itself and keeps it for the next tasks of its worker,
so nothing but units go out and nothing but results come back. What a unit gives does not depend on
where it runs, how often it is tried, or what else runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from core.history.backtest.job import Backtest, Records, run_window, tasks_of
from core.history.backtest.model import Unit, window_key
from core.history.backtest.results import UnitResult
from core.progress import Progress
from core.spark.fleet import each_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_A_SLOT: Final = 3
"""So that cores which are done early find something else to do."""
_MAX_TASKS: Final = 400
_TABLES: Final = ("runs", "timeline", "moves")
_UNIT: Final = "unit of task"


def run_on_spark(spark: SparkSession, backtest: Backtest, progress: Progress) -> list[UnitResult]:
    """Run everything on Spark; the same results as in process, in the same order.

    Args:
        spark: Session; its executors must be able to read the history.
        backtest: What is to be run.
        progress: Receives the tasks done.
    Raises:
        JobStoppedError: A person stopped it.
        ComputeError: Spark failed.
    """
    wanted = min(slots_of(spark) * _TASKS_A_SLOT, _MAX_TASKS)
    tasks = tasks_of(backtest.units, wanted)
    named = {f"{number:06d}": units for number, units in enumerate(tasks)}
    answer = _Task(backtest.records, named)
    found = each_on_spark(spark, named, answer, progress, f"simulating {backtest.words}")
    return [result for name, tables in found for result in _results(named[name], tables)]


def slots_of(spark: SparkSession) -> int:
    """Return the number of concurrent tasks, if the session reports it."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(spark.sparkContext.defaultParallelism)


@dataclass(frozen=True)
class _Task:
    """Task of an executor."""

    records: Records
    units: Mapping[str, tuple[Unit, ...]]

    def __call__(self, name: str) -> Mapping[str, pa.Table]:
        results = list(run_window(self._load, self.records.simulate, self.units[name], _untold))
        return {
            table: pa.concat_tables([_numbered(one, table, at) for at, one in enumerate(results)])
            for table in _TABLES
        }

    def _load(self, unit: Unit) -> Any:
        key = (self.records.location.uri, unit.minute_s, *window_key(unit))
        return _loaded(_WindowRecord((*key, self.records.ends[unit.cluster]), self.records, unit))


@dataclass(frozen=True)
class _WindowRecord:
    """A window's record; equal ones are the same record, whichever unit needs it.

    Attributes:
        key: Where it is, whose and when.
        records: Reads it.
        unit: The unit that needs it.
    """

    key: tuple[object, ...]
    records: Records = field(compare=False)
    unit: Unit = field(compare=False)


@lru_cache(maxsize=1)
def _loaded(wanted: _WindowRecord) -> Any:
    """Keep the last window in the worker: most of its tasks simulate the same one."""
    return wanted.records.load(wanted.unit)


def _untold(_unit: Unit, _minute: int, _minutes: int) -> None:
    """Ignores progress: Spark reports tasks, and ends them."""


def _numbered(result: UnitResult, table: str, number: int) -> pa.Table:
    """Mark rows with the place of their unit in its task."""
    rows: pa.Table = getattr(result, table)
    return rows.append_column(_UNIT, pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows))


def _results(units: tuple[Unit, ...], tables: Mapping[str, pa.Table]) -> Iterable[UnitResult]:
    for number in range(len(units)):
        parts = {}
        for name in _TABLES:
            rows = tables[name]
            mine = rows.filter(pc.equal(rows[_UNIT], number))
            parts[name] = mine.drop_columns([_UNIT])
        yield UnitResult(**parts)
