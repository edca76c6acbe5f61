"""What spreads one large cluster over tasks, kind of question by kind of question."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow.compute as pc
import pytest
from fleet_builder import make_snapshot
from large_fleets import extensible, unread, with_gaps, with_ties
from pegasus_snapshots import generated

from connectors.jobs.kinds import fleet
from connectors.jobs.model import ScopedRequest
from core.errors import InputError
from core.facts import NOTHING_ASSUMED, Assumed
from core.operations import balance, what_if
from core.operations.drill import OPERATION as DRILL
from core.operations.drill.request import DrillRequest
from core.operations.operation import plain
from core.pegasus.balance.request import BalanceRequest
from core.planning.what_if.request import WhatIfRequest
from core.progress import JobStoppedError, NoProgress
from core.pulsar.facts import PulsarFacts
from core.snapshot.store import save_snapshot
from core.spark import size
from core.spark.engine import Engine, is_spread, tables_of
from core.spark.fleet import InDirectory
from core.spark.pegasus import large as large_pegasus
from core.spark.pulsar.large import drill
from core.spark.pulsar.large.simulate import spread_pairs
from core.units import pluralize

NO_SPARK = object()
"""Stands for a session that no task is sent to."""

EAGER = {
    "loadBalancerBrokerThresholdShedderPercentage": 3.0,
    "loadBalancerBrokerOverloadedThresholdPercentage": 12.0,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.1,
}


def same_tables(operation, directory, request):
    """Return the tables of a large cluster, which are those of a process."""
    asked = operation, {"a": InDirectory(str(directory))}, request, NoProgress()
    found = tables_of(operation, Engine(NO_SPARK).map(*asked))
    assert found == tables_of(operation, Engine().map(*asked))
    return found


def test_a_what_if_plays_every_pair_as_a_process_does(tasks_here, tmp_path):
    snapshot = with_ties(make_snapshot(brokers=5, bundles=120, seed=4))
    save_snapshot(snapshot, tmp_path)
    pairs = ("OverloadShedder",)
    request = WhatIfRequest(
        shedding=pairs, placement=("LeastLongTermMessageRate",), rounds=2, settings=EAGER
    )
    there = spread_pairs(None, str(tmp_path), NOTHING_ASSUMED, request, NoProgress()).tables
    assert there == what_if.compare_pairs(PulsarFacts(snapshot), request, NoProgress()).tables
    assert there["pairs"].num_rows == 2
    assert sum(there["pairs"]["moves"].to_pylist())


def test_a_what_if_of_the_extensible_manager_is_that_of_a_process(
    tasks_here, tmp_path, monkeypatch
):
    save_snapshot(extensible(make_snapshot(brokers=4, bundles=40, seed=4)), tmp_path)
    monkeypatch.setattr(size, "MAX_BUNDLES", 10)
    found = same_tables(what_if.OPERATION, tmp_path, WhatIfRequest())
    assert sum(found["pairs"]["moves"].to_pylist())


class Rounds:
    """Stands for Spark: counts who asks."""

    calls = 0

    def __init__(self, _spark, progress):
        self.progress = progress

    def rounds(self, view, options):
        Rounds.calls += 1
        self.progress.step(0, 1, "balancing tables")
        return large_pegasus.rounds_until_converged(view, options)


@pytest.mark.parametrize(("policy", "spread"), [("app", 1), ("cluster", 0)])
def test_a_large_pegasus_cluster_is_dealt_out_by_table_where_the_policy_allows(
    tmp_path, monkeypatch, policy, spread
):
    monkeypatch.setattr(size, "MAX_PARTITIONS", 10)
    monkeypatch.setattr(large_pegasus, "SparkRounds", Rounds)
    monkeypatch.setattr(Rounds, "calls", 0)
    save_snapshot(generated(3, 16, 5), tmp_path)
    same_tables(balance.OPERATION, tmp_path, BalanceRequest(policy=policy, rounds=3))
    assert Rounds.calls == spread


def test_who_stops_a_large_cluster_stops_all(tmp_path, monkeypatch):
    class Stopped:
        def step(self, done, total, words):
            raise JobStoppedError("Stopped.")

    monkeypatch.setattr(size, "MAX_PARTITIONS", 10)
    monkeypatch.setattr(large_pegasus, "SparkRounds", Rounds)
    save_snapshot(generated(3, 16, 5), tmp_path)
    with pytest.raises(JobStoppedError):
        Engine(NO_SPARK).map(
            balance.OPERATION,
            {"peg": InDirectory(str(tmp_path))},
            BalanceRequest(policy="app"),
            Stopped(),
        )


@pytest.mark.parametrize("kind", [with_gaps, unread, extensible])
def test_a_drill_in_waves_is_the_drill_of_a_process(tasks_here, tmp_path, monkeypatch, kind):
    snapshot = kind(make_snapshot(brokers=6, bundles=90, seed=4))
    save_snapshot(snapshot, tmp_path)
    monkeypatch.setattr(drill, "MAX_PLACED", 45)
    request = DrillRequest(hot_threshold=0.3)
    there = drill.spread_drill(None, str(tmp_path), NOTHING_ASSUMED, request, NoProgress())
    here = DRILL.answer(PulsarFacts(snapshot), request, NoProgress())
    assert plain(there) == plain(here)
    assert there.failures.num_rows >= 6
    assert sum(there.failures["bundles"].to_pylist())


def test_what_is_assumed_holds_for_a_large_cluster(tasks_here, tmp_path):
    snapshot = make_snapshot(brokers=6, bundles=90, seed=4)
    save_snapshot(snapshot, tmp_path)
    key = "loadBalancerLoadPlacementStrategy"
    assumed = Assumed({key: "RoundRobinBrokerSelector"}, "2.10")
    there = drill.spread_drill(None, str(tmp_path), assumed, DrillRequest(), NoProgress())
    here = DRILL.answer(PulsarFacts(snapshot, assumed), DrillRequest(), NoProgress())
    assert plain(there) == plain(here)
    assert plain(here) != plain(DRILL.answer(PulsarFacts(snapshot), DrillRequest(), NoProgress()))


def test_failures_that_are_too_large_are_named_beside_the_others(tasks_here, tmp_path, monkeypatch):
    snapshot = make_snapshot(brokers=6, bundles=90, seed=4)
    save_snapshot(snapshot, tmp_path / "fleet")
    whole = DRILL.answer(PulsarFacts(snapshot), DrillRequest(), NoProgress())
    sizes = {row["failure"]: row["bundles"] for row in whole.failures.to_pylist()}
    limit = sorted(sizes.values())[len(sizes) // 2]
    monkeypatch.setattr(drill, "MAX_PLACED", limit)
    monkeypatch.setattr(size, "MAX_BUNDLES", 10)
    sources = {"a": InDirectory(str(tmp_path / "fleet"))}
    assert is_spread(DRILL, sources["a"])
    answers = Engine(NO_SPARK).map(DRILL, sources, DrillRequest(), NoProgress())
    found = tables_of(DRILL, answers)
    fitting = pc.less_equal(whole.failures["bundles"], limit)
    assert found["failures"].drop_columns("cluster") == whole.failures.filter(fitting)
    too_large = [name for name, own in sizes.items() if own > limit]
    sentences = found["problems"]["sentence"].to_pylist()
    assert len(sentences) == len(too_large) > 0
    assert all(any(f" {name} of " in one for one in sentences) for name in too_large)
    excluded = f" {pluralize(len(too_large), 'failure')} excluded: "
    assert f"{excluded}too large" in answers["a"].answer
    answer = _job_on(sources, tmp_path, monkeypatch)
    assert excluded in answer.sentence
    assert "without a result" not in answer.sentence
    assert "failures without a result" in answer.tables["problems"]
    monkeypatch.setattr(drill, "MAX_PLACED", min(sizes.values()) - 1)
    refused = Engine(NO_SPARK).map(DRILL, sources, DrillRequest(), NoProgress())["a"]
    assert isinstance(refused, InputError)
    assert "After a failure the leader" in refused.message


def _job_on(sources, folder, monkeypatch):
    """Run the job of a drill on Spark, where only clusters of these sources are asked."""
    monkeypatch.setattr(fleet, "sources_of", lambda *_: sources)
    out = folder / "out"
    out.mkdir()
    context = SimpleNamespace(spark=lambda: NO_SPARK, progress=NoProgress(), out=out)
    scope = fleet.PoolScope(engine="spark")
    return fleet.kind_of(DRILL).run(context, ScopedRequest(scope, DrillRequest()))
