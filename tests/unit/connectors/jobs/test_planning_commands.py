"""Drill, topics, trends and flaps on the command line and as jobs: what they print and write."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleet_builder import NOON, make_history, make_snapshot
from msgspec import structs
from pegasus_snapshots import generated

from connectors.config.model import TrimtabConfig
from connectors.jobs.catalogue import checked, kinds
from connectors.jobs.model import JobAnswer, JobContext
from core.errors import ComputeError, InputError
from core.history.store.store import HistoryLocation, HistoryStore
from core.history.store.writer import Recorder
from core.operations.drill import OPERATION as DRILL
from core.operations.drill.request import DrillRequest
from core.planning.what_if.compare import PAIRS, compare, totals_of, what_if_sentence
from core.planning.what_if.request import WhatIfRequest
from core.progress import JobStoppedError, NoProgress
from core.snapshot.pegasus import load_pegasus_snapshot
from core.snapshot.store import SnapshotStore, load_snapshot, save_snapshot
from core.spark.engine import Engine, tables_of
from core.spark.fleet import InDirectory
from dashboard import services
from dashboard.cli.main import run

KIND = kinds()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Snapshot directories, a state directory with a history, and a file of topics."""
    root: Path = tmp_path_factory.mktemp("site")
    save_snapshot(make_snapshot(brokers=4, bundles=24), root / "fleet")
    save_snapshot(generated(2, 8, 4), root / "peg")
    snapshot_store = SnapshotStore(root / "state" / "snapshots")
    for seed in (1, 2):
        snapshot_store.put(make_snapshot(brokers=3, bundles=12, seed=seed, cluster=f"c{seed}"))
    snapshot_store.put(generated(2, 8, 4))
    recorder = Recorder(HistoryStore(HistoryLocation(str(root / "state" / "history"))), "c1")
    start = NOON - timedelta(hours=12)
    for snapshot in make_history(10, cluster="c1", now=start, brokers=3, bundles=12):
        recorder.record(snapshot)
    names = [f"persistent://acme/orders/t-{at // 5}-partition-{at % 5}" for at in range(100)]
    pq.write_table(pa.table({"topic": names}), root / "topics.parquet")
    return root


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = run([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


def body_of(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    code, out, err = said(capsys, *words, "--json")
    assert code == 0, err
    body: dict[str, object] = json.loads(out)
    return body


def test_a_drill_prints_failures_worst_first_and_writes_whole_tables(site, capsys, tmp_path):
    out = tmp_path / "out"
    body = body_of(capsys, "drill", site / "fleet", "--hot", 0.4, "--out", out)
    assert set(body) == {
        *("answer", "hot_threshold", "seed", "failures", "hot", "groups", "skipped", "elapsed_ms"),
    }
    assert len(body["failures"]) == 4 + 3
    assert pq.read_table(out / "failures.parquet").to_pylist() == body["failures"]
    code, text, _ = said(capsys, "drill", site / "fleet", "--no-domains", "--only", "10.1.0.1:8080")
    assert code == 0
    assert "10.1.0.1:8080" in text
    assert "usage of 85%" in text


def test_a_drill_of_a_pegasus_snapshot_loses_its_nodes(site, capsys):
    body = body_of(capsys, "drill", site / "peg")
    assert len(body["nodes"]) == 4
    code, text, _ = said(capsys, "drill", site / "peg", "--wide")
    assert (code, "one replica" in text) == (0, True)


def test_names_engines_and_files_that_are_not_there_are_refused(site, capsys):
    assert said(capsys, "drill", site / "fleet", "--only", "zone-x")[0] == 1
    assert said(capsys, "drill", site / "fleet", "--engine", "sparc")[0] == 2
    assert said(capsys, "topics", site / "no.csv", "--snapshot", site / "fleet")[0] == 1
    words = ["history", "trends", "--history", site / "state" / "history"]
    assert said(capsys, *words, "--by", "week")[0] == 2
    assert said(capsys, *words, "--subject", "topics")[0] == 2
    assert said(capsys, *words, "c9")[0] == 1


def test_a_cluster_is_drilled_by_its_name(capsys, site, tmp_path, monkeypatch) -> None:
    config = tmp_path / "trimtab.toml"
    config.write_text(
        f'state_dir = "{tmp_path}"\n'
        '[[clusters]]\nname = "live"\nzookeeper = "127.0.0.1:1"\n'
        '[[clusters]]\nname = "stored"\nkind = "pegasus"\nmeta_servers = ["127.0.0.1:1"]\n'
    )
    taken = {"live": load_snapshot(site / "fleet"), "stored": load_pegasus_snapshot(site / "peg")}
    monkeypatch.setattr(services, "snapshot_of", lambda _, cluster: taken[cluster.name])
    for name, folder in (("live", "fleet"), ("stored", "peg")):
        alone = body_of(capsys, "drill", name, "--config", config)
        assert alone["answer"] == body_of(capsys, "drill", site / folder)["answer"]
    code, _, told = said(capsys, "drill", "elsewhere", "--config", config)
    assert code == 1
    assert "elsewhere is not a snapshot directory and not a cluster" in told


def test_topics_are_told_by_bundle_and_broker(site, capsys):
    words = ("topics", site / "topics.parquet", "--snapshot", site / "fleet", "--top", 3)
    body = body_of(capsys, *words)
    assert (body["topics"], body["unmatched"], body["invalid"]) == (100, 0, 0)
    assert len(body["bundles"]) <= 3
    code, text, _ = said(capsys, *words)
    assert code == 0
    assert "Crowded: " in text


def test_trends_and_flaps_of_a_recorded_history(site, capsys):
    past = ("--history", site / "state" / "history")
    body = body_of(capsys, "history", "trends", "c1", *past, "--by", "day")
    assert {row["cluster"] for row in body["trends"]} == {"c1"}
    assert body["gaps"]
    code, text, _ = said(capsys, "history", "trends", *past, "--subject", "bundles")
    assert (code, "hot" in text) == (0, True)
    found = body_of(capsys, "history", "flaps", *past)
    assert set(found) == {"answer", "flaps", "movers", "rounds"}
    assert said(capsys, "history", "flaps", *past)[0] == 0


# -- jobs -----------------------------------------------------------------------------------------


def job(site: Path, out: Path, name: str, **asked: object) -> JobAnswer:
    out.mkdir(parents=True)
    clusters = [
        *({"name": one, "zookeeper": "127.0.0.1:1"} for one in ("c1", "c2")),
        {"name": "peg", "kind": "pegasus", "meta_servers": ["127.0.0.1:1"]},
    ]
    config = TrimtabConfig.model_validate({"state_dir": site / "state", "clusters": clusters})

    def no_spark() -> None:
        raise AssertionError("Spark was not asked for.")

    context = JobContext(
        config=config,
        out=out,
        progress=NoProgress(),
        spark=no_spark,
        history=lambda: HistoryStore(HistoryLocation(str(site / "state" / "history"))),
    )
    return KIND[name].run(context, checked(KIND[name], asked))


ASKED = {
    "trends": {"period": "day"},
    "flaps": {},
    "what_if": {
        "clusters": ["c1"],
        "shedding": ["OverloadShedder"],
        "placement": ["LeastLongTermMessageRate"],
        "rounds": 2,
    },
    "drill": {"hot_threshold": 0.3, "clusters": ["c1"]},
    "diagnose": {"seconds": 1.0, "clusters": ["c1", "peg"]},
}


@pytest.mark.parametrize("name", ASKED)
def test_a_job_writes_the_tables_that_it_names(site, tmp_path, name):
    answer = job(site, tmp_path / "out", name, **ASKED[name])
    written = {path.stem for path in (tmp_path / "out").iterdir()}
    assert set(answer.tables) <= written
    assert answer.sentence
    json.dumps(answer.facts)


def test_clusters_in_processes_of_their_own_give_the_answers_of_one_after_the_other(site):
    snapshot_store = SnapshotStore(site / "state" / "snapshots")
    kept = {name: snapshot_store.latest(name, datetime.now(UTC)) for name in ("c1", "c2", "peg")}
    sources = {name: InDirectory(str(one.path)) for name, one in kept.items() if one is not None}
    request = DrillRequest(hot_threshold=0.3)
    here, there = (
        tables_of(DRILL, Engine(workers=count).map(DRILL, sources, request, NoProgress()))
        for count in (1, 2)
    )
    assert {name: table.to_pylist() for name, table in there.items()} == {
        name: table.to_pylist() for name, table in here.items()
    }
    assert there["nodes"].num_rows == 4


def test_a_person_ends_the_processes(site):
    class Stopped:
        def step(self, done: int, total: int, words: str) -> None:
            raise JobStoppedError("Stopped.")

    path = str(site / "fleet")
    sources = {"a": InDirectory(path), "b": InDirectory(path)}
    with pytest.raises(JobStoppedError):
        Engine(workers=2).map(DRILL, sources, DrillRequest(), Stopped())


class Dies:
    """A cluster at which whoever is to read it ends at once."""

    def __reduce__(self):
        return os._exit, (3,)


def test_a_process_that_dies_is_told_and_not_waited_for(site):
    sources = {"a": InDirectory(str(site / "fleet")), "b": Dies()}
    with pytest.raises(ComputeError, match="One of the 2 worker processes") as told:
        Engine(workers=2).map(DRILL, sources, DrillRequest(), NoProgress())
    assert "fewer workers" in told.value.hint


def test_topics_as_a_job_are_told_by_cluster(site, tmp_path):
    answer = job(
        site, tmp_path / "out", "topics", clusters=["c1"], file=str(site / "topics.parquet")
    )
    assert pq.read_table(tmp_path / "out" / "bundles.parquet")["cluster"].to_pylist()[0] == "c1"
    assert answer.sentence.startswith("c1: 100 topics")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("trends", {"period": "week"}),
        ("trends", {"start": "2026-11-21T12:00:00Z", "end": "2026-11-20T12:00:00Z"}),
        ("trends", {"start": "2026-11-21T12:00:00"}),
        ("flaps", {"side_minutes": 0}),
        ("what_if", {"shedding": ["ThresholdShedda"]}),
        ("what_if", {"settings": {"loadBalancerEnabld": True}}),
        ("topics", {"file": "here.csv"}),
        ("drill", {"hotline": 0.5}),
    ],
)
def test_what_cannot_be_asked_is_told_in_words(name, asked):
    with pytest.raises(InputError):
        checked(KIND[name], asked)


def test_the_pair_that_meets_the_target_with_fewest_clients_comes_first():
    request = WhatIfRequest(
        shedding=("OverloadShedder", "UniformLoadShedder"),
        placement=("LeastLongTermMessageRate",),
        rounds=3,
        target=9.0,
    )
    pairs = compare(make_snapshot(brokers=3, bundles=12), request)
    assert pairs.schema == PAIRS
    assert pairs["rank"].to_pylist() == [1, 2, 3]
    first = pairs.to_pylist()[0]
    assert (first["shedding"], first["clients"]) == ("(nothing)", 0)
    marked = pairs.add_column(0, "cluster", pa.array(["a"] * 3))
    totals = totals_of(marked)
    assert "no change" in what_if_sentence(marked, totals)
    strict = compare(make_snapshot(brokers=3, bundles=12), structs.replace(request, target=1e-9))
    after = [row["deviation_after"] for row in strict.to_pylist()]
    assert after == sorted(after)
    with pytest.raises(InputError, match="can run"):
        compare(make_snapshot(brokers=3, bundles=12), WhatIfRequest(shedding=("TransferShedder",)))
