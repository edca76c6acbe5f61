"""One large cluster, its bundles spread over tasks, goes through the rounds of a process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from large_fleets import edited, extensible, unread, with_gaps, with_ties

from core.errors import InputError
from core.progress import Untold
from core.schemas.pulsar import RATES
from core.simulation import Run, WhatIf, simulate
from core.snapshot import PulsarSnapshot
from core.snapshot.store import save_snapshot
from core.spark.jobs.simulate import SimulateQuestion
from core.spark.large import kept
from core.spark.large.cluster import LargeCluster
from core.spark.large.fleet import large_answer
from core.spark.large.simulate import large_simulation

EAGER = {
    "loadBalancerBrokerThresholdShedderPercentage": 3.0,
    "loadBalancerBrokerOverloadedThresholdPercentage": 12.0,
    "loadBalancerBundleUnloadMinThroughputThreshold": 0.1,
    "loadBalancerMsgRateDifferenceShedderThreshold": 5.0,
    "loadBalancerAvgShedderLowThreshold": 2.0,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "maxUnloadPercentage": 0.9,
    "loadBalancerBrokerLoadTargetStd": 0.01,
    "loadBalancerSheddingConditionHitCountThreshold": 0,
    "loadBalancerMaxNumberOfBrokerSheddingPerCycle": 4,
    "loadBalancerMaxNumberOfBundlesInBundleLoadReport": 6,
    "loadBalanceSheddingDelayInSeconds": 30,
}
PAIRED = {"loadBalancerLoadPlacementStrategy": "AvgShedder"}
STRATEGIES = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
FLEETS = {
    "gaps and ties": lambda one: with_gaps(with_ties(one)),
    "as it is": lambda one: one,
    "owners only": unread,
}


TRICKY = ("gaps and ties",)


def fleet(kind: str, *, brokers: int = 12, bundles: int = 900) -> PulsarSnapshot:
    return FLEETS[kind](make_snapshot(brokers=brokers, bundles=bundles, seed=4))


def large(spark, snapshot: PulsarSnapshot, directory) -> LargeCluster:
    save_snapshot(snapshot, directory / "snapshot")
    return LargeCluster.of(spark, directory / "snapshot", Untold())


def same_rounds(spark, directory, snapshot: PulsarSnapshot, strategy: str, **more: object) -> None:
    assumed = EAGER | (PAIRED if strategy == "AvgShedder" else {}) | more
    run = Run(shedding=strategy, rounds=3, seed=3)
    here = simulate(snapshot, run, overrides=assumed)
    there = large_simulation(large(spark, snapshot, directory), run, overrides=assumed)
    assert there == here
    assert there.move_count


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        pytest.param(kind, name, marks=[] if kind in TRICKY else [pytest.mark.slow])
        for kind in FLEETS
        for name in STRATEGIES
    ],
)
def test_the_rounds_are_those_of_a_process(tasks_here, tmp_path, kind, strategy):
    same_rounds(None, tmp_path, fleet(kind), strategy)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_rounds_on_spark_are_those_of_a_process(spark, tmp_path, monkeypatch, strategy):
    monkeypatch.setattr(kept, "_ROWS_A_GROUP", 1_500)
    snapshot = fleet("gaps and ties", brokers=50, bundles=5_000)
    same_rounds(spark, tmp_path, snapshot, strategy)


def published(*, brokers: int = 12, bundles: int = 900) -> PulsarSnapshot:
    """The hottest bundles of all brokers alike, some of them moved since their report."""
    snapshot = make_snapshot(brokers=brokers, bundles=bundles, seed=4)
    for rate in RATES:
        values = snapshot.bundles[rate].to_numpy()
        steps = pa.array(np.ceil(values / values.max() * 9) * 200_000.0)
        snapshot = edited(snapshot, "bundles", rate, steps)
    owner = np.array(snapshot.bundles["owner"].to_pylist(), object)
    moved = np.where(np.arange(owner.size) % 8 == 0, np.roll(owner, 1), owner)
    return extensible(edited(snapshot, "bundles", "owner", pa.array(moved)))


@pytest.mark.parametrize("transfers", [True, False])
def test_transfers_are_those_of_a_process(tasks_here, tmp_path, transfers):
    same_rounds(
        None, tmp_path, published(), "TransferShedder", loadBalancerTransferEnabled=transfers
    )


@pytest.mark.slow
def test_transfers_on_spark_are_those_of_a_process(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_ROWS_A_GROUP", 1_500)
    same_rounds(spark, tmp_path, published(brokers=50, bundles=5_000), "TransferShedder")


@pytest.mark.slow
def test_result_tables_are_those_of_a_process(spark, tmp_path):
    snapshot = fleet("gaps and ties")
    question = SimulateQuestion("ThresholdShedder", rounds=2, seeds=(1, 2), overrides=EAGER)
    there = large_answer(large(spark, snapshot, tmp_path), question)
    assert there == question.answer(snapshot)


def test_what_cannot_be_spread_is_said_and_not_put_into_one_task(tmp_path):
    snapshot = make_snapshot(brokers=4, bundles=40, seed=4)
    broker = snapshot.brokers["broker"][0].as_py()
    cluster = large(None, snapshot, tmp_path)
    run = Run(shedding="ThresholdShedder", what_if=WhatIf(failed=[broker]))
    with pytest.raises(
        InputError, match="Brokers that join or go are not simulated spread over tasks"
    ):
        large_simulation(cluster, run)
    with pytest.raises(InputError, match="TransferShedder goes by what brokers of the extensible"):
        large_simulation(cluster, Run(shedding="TransferShedder"))
