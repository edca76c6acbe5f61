"""A back-test on Spark is the back-test in process, wherever Spark runs and whatever dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from backtest_clusters import PEGASUS, PULSAR, history_in
from spark_cluster import HOST, Standalone, connect_server, standalone, wait_until

from core.history.backtest.job import TABLES, Backtest, Outcome, run_here
from core.history.backtest.parsing import grid_of
from core.history.store.store import HistoryLocation, HistoryStore
from core.progress import JobStoppedError, NoProgress
from core.spark.jobs.backtest import run_on_spark

PEGASUS_GRID = {
    "policies": ["app", "cluster"],
    "switches": {"level": ["lively"]},
    "seeds": [1, 2],
    "window_minutes": 6,
}
PULSAR_GRID = {
    "clusters": [PULSAR],
    "shedding": ["ThresholdShedder", "none"],
    "placement": ["LeastResourceUsageWithWeight"],
    "settings": {
        "loadBalancerBrokerThresholdShedderPercentage": [3],
        "loadBalancerBundleUnloadMinThroughputThreshold": [0.01],
    },
    "seeds": [1, 2],
}
GRIDS = {PEGASUS: PEGASUS_GRID, PULSAR: PULSAR_GRID}
_PATIENCE_S = 600


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backtest")
    history_in(folder)
    return folder


def work_of(place: Path, grid: Mapping[str, Any]) -> Backtest:
    store = HistoryStore(HistoryLocation(str(place / "history")))
    return Backtest.prepared(store, grid_of(grid))


def tables_of(work: Backtest, results: Any) -> dict[str, Any]:
    return dict(Outcome.of(work.grid, results, work.records).tables)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [PEGASUS, PULSAR])
def test_spark_gives_the_same_tables(spark, place, cluster):
    work = work_of(place, GRIDS[cluster])
    here = tables_of(work, run_here(work, NoProgress()))
    there = tables_of(work, run_on_spark(spark, work, NoProgress()))
    assert here["moves"].num_rows
    for name in TABLES:
        assert there[name].equals(here[name]), name


class Stopping:
    """A person who stops it at once."""

    def step(self, done: int, total: int, words: str) -> None:
        raise JobStoppedError("Stopped.")


@pytest.mark.slow
def test_a_person_stops_it_on_spark(spark, place):
    with pytest.raises(JobStoppedError):
        run_on_spark(spark, work_of(place, PEGASUS_GRID), Stopping())


# -- Spark elsewhere: minutes, so not in every run -------------------------------------------------


class Command:
    """``trimtab backtest`` in a process of its own: a process has one session."""

    def __init__(self, place: Path, folder: Path, grid: Mapping[str, Any], *more: str) -> None:
        self.out = folder / "out"
        file = folder / "grid.json"
        file.write_text(json.dumps(grid))
        config = folder / "trimtab.toml"
        conf = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": "512m",
        }
        lines = ["[spark.conf]", *(f'"{key}" = "{value}"' for key, value in conf.items())]
        config.write_text("" if "sc://" in " ".join(more) else "\n".join(lines))
        words = ["backtest", "--history", str(place / "history"), "--grid", str(file)]
        words += ["--out", str(self.out), "--config", str(config), *more]
        start = "import sys; from dashboard.cli.main import main; main()"
        self.log = folder / "command.log"
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-c", start, *words],
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "SPARK_LOCAL_IP": HOST},
            )

    def tables(self) -> dict[str, Any]:
        """Wait for its end and return what it wrote."""
        try:
            code = self.process.wait(timeout=_PATIENCE_S)
        finally:
            self.process.kill()
        assert code == 0, self.log.read_text("utf-8", "replace")[-3000:]
        return {name: pq.read_table(self.out / f"{name}.parquet") for name in TABLES}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as found:
        yield found


def same_as_here(place: Path, grid: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    work = work_of(place, grid)
    here = tables_of(work, run_here(work, NoProgress()))
    for name in TABLES:
        assert there[name].equals(here[name].cast(there[name].schema)), name


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [PEGASUS, PULSAR])
def test_a_standalone_master_with_two_workers_gives_the_same(place, cluster, tmp_path, name):
    more = ("--engine", "spark", "--master", cluster.url)
    command = Command(place, tmp_path, GRIDS[name], *more)
    same_as_here(place, GRIDS[name], command.tables())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_connect_gives_the_same(place, tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
    with connect_server(tmp_path) as url:
        command = Command(place, tmp_path, PEGASUS_GRID, "--engine", "spark", "--master", url)
        same_as_here(place, PEGASUS_GRID, command.tables())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_killed_in_the_middle_changes_nothing(place, tmp_path):
    with standalone(tmp_path) as found:
        grid = {**PEGASUS_GRID, "seeds": [1, 2, 3, 4, 5]}
        more = ("--engine", "spark", "--master", found.url)
        command = Command(place, tmp_path, grid, *more)
        victim = wait_until(lambda: busy_worker(found, tmp_path), "a task on a worker", 240)
        found.workers[victim].kill()
        assert command.process.poll() is None
        there = command.tables()
        assert found.workers[victim].process.poll() is not None
        found.master.wait_for(r"Removing worker")
    same_as_here(place, grid, there)


def busy_worker(found: Standalone, folder: Path) -> int | None:
    """Return a worker that has finished a task and runs another one."""
    for number in range(len(found.workers)):
        for log in (folder / f"worker{number}").glob("app-*/*/stderr"):
            text = log.read_text("utf-8", "replace")
            begun, finished = text.count("Running task"), text.count("Finished task")
            if finished and begun > finished:
                return number
    return None
