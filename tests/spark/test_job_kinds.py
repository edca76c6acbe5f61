"""Jobs on the newest snapshots of the configured clusters, in process and on Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fleet_builder import NOON, make_snapshot
from pegasus_snapshots import generated

from connectors.config.model import TrimtabConfig
from connectors.jobs.catalogue import checked, kinds
from connectors.jobs.model import JobAnswer, JobContext
from core.errors import IncompleteSnapshotError, InputError, UnknownNameError
from core.history.store.store import HistoryLocation, HistoryStore
from core.progress import NoProgress
from core.snapshot.store import SnapshotStore

KIND = kinds()
ASKED = {
    "health": {},
    "shed": {"rounds": 2},
    "place": {"settings": {"loadBalancerOverrideBrokerNicSpeedGbps": 10.0}},
    "simulate": {"rounds": 3},
    "balance": {"rounds": 2},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TrimtabConfig:
    """Two Pulsar clusters, one of Pegasus, and one that was never read."""
    state = tmp_path_factory.mktemp("state")
    snapshot_store = SnapshotStore(state / "snapshots")
    for seed in (1, 2):
        snapshot_store.put(
            make_snapshot(brokers=4, bundles=40, seed=seed, cluster=f"fleet{seed}", now=NOON)
        )
    snapshot_store.put(generated(3, 16, 5))
    pulsar = [{"name": f"fleet{number}", "zookeeper": "127.0.0.1:1"} for number in (1, 2, 3)]
    pegasus = {"name": "peg", "kind": "pegasus", "meta_servers": ["127.0.0.1:1"]}
    return TrimtabConfig.model_validate({"state_dir": state, "clusters": [*pulsar, pegasus]})


def run(config: TrimtabConfig, out: Path, spark: object, name: str, **values: object) -> JobAnswer:
    out.mkdir(parents=True)
    context = JobContext(
        config=config,
        out=out,
        progress=NoProgress(),
        spark=lambda: spark,
        history=lambda: HistoryStore(HistoryLocation(str(config.state_dir / "history"))),
    )
    kind = KIND[name]
    return kind.run(context, checked(kind, values))


@pytest.mark.parametrize("name", ASKED)
def test_both_engines_write_the_same_tables(spark, config, tmp_path, name):
    here = run(config, tmp_path / "local", None, name, **ASKED[name])
    there = run(config, tmp_path / "spark", spark, name, engine="spark", **ASKED[name])
    assert here == there
    assert here.facts["failed"] == 0
    for table in here.tables:
        written = pq.read_table(tmp_path / "local" / f"{table}.parquet")
        assert written.num_rows
        assert pq.read_table(tmp_path / "spark" / f"{table}.parquet") == written


def test_a_cluster_of_the_other_kind_is_told_as_a_problem(config, tmp_path):
    answer = run(config, tmp_path / "out", None, "shed", clusters=["fleet1", "peg"])
    assert "1 cluster without a result" in answer.sentence
    assert "problems" in answer.tables


def test_a_minute_that_was_never_recorded_is_told_for_each_cluster(config, tmp_path):
    answer = run(config, tmp_path / "out", None, "health", at="2026-11-21T12:00:00Z")
    assert answer.facts == {"clusters": 0, "failed": 4}


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("shed", {"strategy": "TresholdShedder"}, "ThresholdShedder"),
        ("place", {"settings": {"loadBalancerEnabld": True}}, "loadBalancerEnabled"),
        ("health", {"target": "vivos"}, "vivo"),
        ("health", {"at": "2026-11-21T12:00:00"}, "UTC"),
        ("simulate", {"roundz": 3}, "roundz"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_near_names(name, values, words):
    with pytest.raises(InputError, match=words):
        checked(KIND[name], values)


def test_clusters_that_are_not_configured_are_refused(config, tmp_path):
    with pytest.raises(UnknownNameError, match="fleet9"):
        run(config, tmp_path / "out", None, "health", clusters=["fleet9"])


def test_clusters_without_any_snapshot_are_refused(config, tmp_path):
    with pytest.raises(IncompleteSnapshotError, match="snapshot"):
        run(config, tmp_path / "out", None, "health", clusters=["fleet3"])
