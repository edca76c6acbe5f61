"""Many clusters on Spark get the answers that each gets in process."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from pegasus_snapshots import generated

from core.diagnosis.request import DiagnoseRequest
from core.findings.request import HealthRequest
from core.operations import balance, diagnose, health
from core.operations.place import namespaces
from core.operations.shed import strategies
from core.operations.simulate import seeds
from core.pegasus.balance.request import BalanceRequest
from core.progress import NoProgress
from core.pulsar.requests import PlaceRequest, ShedRequest, SimulateSeedsRequest
from core.snapshot.store import save_snapshot
from core.spark.engine import Engine, tables_of
from core.spark.fleet import PROBLEMS, InDirectory

OPERATIONS = {
    "health": (health.OPERATION, HealthRequest()),
    "shed": (strategies.OPERATION, ShedRequest(rounds=2)),
    "place": (namespaces.OPERATION, PlaceRequest()),
    "balance": (balance.OPERATION, BalanceRequest(rounds=3)),
    "simulate": (seeds.OPERATION, SimulateSeedsRequest(rounds=4, seeds=(1, 2))),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, InDirectory]:
    """Four Pulsar clusters, one of Pegasus, and one whose snapshot is not there."""
    root = tmp_path_factory.mktemp("fleet")
    found = {"gone": InDirectory(str(root / "gone"))}
    for seed in range(4):
        directory = root / f"pulsar-{seed}"
        snapshot = make_snapshot(brokers=5 + seed, bundles=60, seed=seed, cluster=f"pulsar-{seed}")
        save_snapshot(snapshot, directory)
        found[f"pulsar-{seed}"] = InDirectory(str(directory))
    save_snapshot(generated(4, 16, 5), root / "pegasus")
    return found | {"pegasus": InDirectory(str(root / "pegasus"))}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_cluster_gets_the_tables_of_a_process(spark, sources, name):
    operation, request = OPERATIONS[name]
    here = tables_of(operation, Engine().map(operation, sources, request, NoProgress()))
    there = tables_of(operation, Engine(spark).map(operation, sources, request, NoProgress()))
    assert there == here
    assert all(here[table].num_rows for table in operation.schemas)


@pytest.mark.slow
def test_a_whole_search_names_the_same_causes(spark, sources):
    asked = diagnose.OPERATION, sources, DiagnoseRequest(seconds=120.0), NoProgress()
    here = tables_of(diagnose.OPERATION, Engine().map(*asked))
    there = tables_of(diagnose.OPERATION, Engine(spark).map(*asked))
    assert there["causes"] == here["causes"]
    assert here["causes"].num_rows
    assert here["diagnoses"]["untried"].to_pylist() == [0] * (len(sources) - 1)


def test_a_cluster_that_cannot_be_read_does_not_cost_the_others_their_answer(spark, sources):
    answers = Engine(spark).map(health.OPERATION, sources, HealthRequest(), NoProgress())
    found = tables_of(health.OPERATION, answers)
    assert found[PROBLEMS]["cluster"].to_pylist() == ["gone"]
    assert "does not exist" in found[PROBLEMS]["sentence"][0].as_py()
    assert found["health"].num_rows == len(sources) - 1
