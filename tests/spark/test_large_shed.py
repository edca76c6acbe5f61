"""One large cluster, spread over tasks, gets the plan that a process with all of it makes."""

from __future__ import annotations

import itertools

import pytest
from fleet_builder import make_snapshot
from large_fleets import extensible, unread, with_gaps, with_ties

from core.operations.shed.strategies import shed_bundles, shed_tables
from core.progress import NoProgress
from core.pulsar.facts import PulsarFacts
from core.pulsar.requests import ShedRequest
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import (
    SHEDDING_STRATEGIES,
    find_shedding_strategy,
    shed_rounds,
)
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.shed import PartitionedCluster, large_rounds

ROUNDS = 3
EAGER = {
    "loadBalancerSheddingEnabled": True,
    "loadBalancerBrokerThresholdShedderPercentage": 3.0,
    "loadBalancerBrokerOverloadedThresholdPercentage": 12.0,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.1,
    "loadBalancerMsgRateDifferenceShedderThreshold": 5.0,
    "loadBalancerAvgShedderLowThreshold": 2.0,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "maxUnloadPercentage": 0.9,
}


def as_it_is(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    return snapshot


FLEETS = {
    "gaps and ties": (lambda one: with_gaps(with_ties(one)), 40, 4_000),
    "as it is": (as_it_is, 200, 20_000),
    "ties": (with_ties, 200, 20_000),
    "gaps": (with_gaps, 200, 20_000),
    "no reports": (unread, 200, 20_000),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name != "gaps and ties")) for name in FLEETS
    ],
)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    change, brokers, bundles = FLEETS[request.param]
    snapshot = change(make_snapshot(brokers=brokers, bundles=bundles, seed=4))
    directory = tmp_path_factory.mktemp("large") / "snapshot"
    save_snapshot(snapshot, directory)
    return snapshot, directory


@pytest.fixture(scope="module")
def cluster(spark, whole) -> LargeCluster:
    return LargeCluster.of(spark, whole[1], NoProgress())


def told(rounds) -> list[object]:
    return [
        (done.decision, done.moves, done.destinations, done.skipped, done.decision.trace)
        for done in rounds
    ]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", SHEDDING_STRATEGIES, ids=lambda one: one.name)
def test_the_plan_is_the_one_of_a_process(cluster, whole, strategy):
    snapshot, _ = whole
    settings = effective_settings(snapshot, overrides=EAGER)
    recent = frozenset(snapshot.bundles["bundle"][:40].to_pylist())
    view = LoadView.of(snapshot, settings)
    here = shed_rounds(strategy, view, settings, recently_unloaded=recent)
    there = large_rounds(
        cluster, strategy, cluster.settings(EAGER), ROUNDS, recently_unloaded=recent
    )
    assert told(there) == told(itertools.islice(here, ROUNDS))
    is_reported = snapshot.bundles["reported_by"].null_count < snapshot.bundles.num_rows
    sheds = is_reported and strategy.name != "TransferShedder"
    assert any(done.moves for done in there) == sheds


TRANSFER = {
    "loadBalancerSheddingEnabled": True,
    "loadBalancerBrokerLoadTargetStd": 0.02,
    "loadBalancerSheddingConditionHitCountThreshold": 0,
    "loadBalancerTransferEnabled": True,
    "loadBalancerMaxNumberOfBundlesInBundleLoadReport": 10,
}


@pytest.mark.parametrize(
    ("brokers", "bundles"),
    [(40, 4_000), pytest.param(200, 20_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("is_transferred", [True, False])
def test_the_extensible_managers_plan_is_the_one_of_a_process(
    spark, tmp_path, brokers, bundles, is_transferred
):
    snapshot = extensible(make_snapshot(brokers=brokers, bundles=bundles, seed=4))
    save_snapshot(snapshot, tmp_path / "snapshot")
    cluster = LargeCluster.of(spark, tmp_path / "snapshot", NoProgress())
    assumed = TRANSFER | {"loadBalancerTransferEnabled": is_transferred}
    strategy = find_shedding_strategy("TransferShedder")
    settings = effective_settings(snapshot, overrides=assumed)
    here = shed_rounds(strategy, LoadView.of(snapshot, settings), settings)
    there = large_rounds(cluster, strategy, cluster.settings(assumed), ROUNDS)
    assert told(there) == told(itertools.islice(here, ROUNDS))
    assert there[0].moves


def test_result_tables_are_those_of_a_process(cluster, whole):
    question = ShedRequest(strategy=None, rounds=2, settings=EAGER)
    there = shed_tables(PartitionedCluster(cluster), question)
    here = shed_bundles(PulsarFacts(whole[0]), question, NoProgress())
    assert there.tables == here.tables
    is_reported = whole[0].bundles["reported_by"].null_count < whole[0].bundles.num_rows
    assert bool(there.tables["moves"].num_rows) == is_reported
