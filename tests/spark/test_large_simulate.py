"""One large cluster, its bundles spread over tasks, goes through the rounds of a process."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from fleet_builder import make_snapshot
from large_fleets import edited, extensible, unread, with_gaps, with_ties, with_trouble

from core.errors import InputError, UnknownNameError
from core.facts import NOTHING_ASSUMED
from core.operations.operation import Tables
from core.operations.simulate.seeds import simulate_seeds
from core.progress import NoProgress
from core.pulsar.averages import AVERAGES
from core.pulsar.facts import PulsarFacts
from core.pulsar.requests import SimulateSeedsRequest
from core.schemas.pulsar import RATES
from core.simulation import Run, Simulation, WhatIf, managers, simulate
from core.snapshot import PulsarSnapshot, store
from core.snapshot.store import save_snapshot
from core.spark.pulsar.large import bundle_state
from core.spark.pulsar.large import simulate as large_simulate
from core.spark.pulsar.large.cluster import LargeCluster
from core.spark.pulsar.large.simulate import large_simulation, spread_seeds

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
    "no reports": unread,
}


TRICKY = ("gaps and ties",)


def fleet(kind: str, *, brokers: int = 12, bundles: int = 900) -> PulsarSnapshot:
    return FLEETS[kind](make_snapshot(brokers=brokers, bundles=bundles, seed=4))


def large(spark, snapshot: PulsarSnapshot, directory) -> LargeCluster:
    save_snapshot(snapshot, directory / "snapshot")
    return LargeCluster.of(spark, directory / "snapshot", NoProgress())


def same_rounds(spark, directory, snapshot: PulsarSnapshot, run: Run, **more: object) -> Simulation:
    assumed = EAGER | (PAIRED if run.shedding == "AvgShedder" else {}) | more
    here = simulate(snapshot, run, overrides=assumed)
    there = large_simulation(large(spark, snapshot, directory), run, overrides=assumed)
    assert there == here
    for name in ("brokers", "broker_loads", "top_bundles"):
        assert there.final.tables[name] == here.final.tables[name]
    is_reported = snapshot.bundles["reported_by"].null_count < snapshot.bundles.num_rows
    is_reported |= snapshot.manifest.load_manager == "extensible"
    assert not is_reported or any(done.moves for done in there.rounds if done.number)
    return there


def same_tables(spark, directory, snapshot: PulsarSnapshot, more: dict[str, object]) -> Tables:
    request = SimulateSeedsRequest(
        shedding="ThresholdShedder", rounds=2, seeds=(1, 2), settings=EAGER, **more
    )
    save_snapshot(snapshot, directory / "snapshot")
    path = str(directory / "snapshot")
    there = spread_seeds(spark, path, NOTHING_ASSUMED, request, NoProgress()).tables
    assert there == simulate_seeds(PulsarFacts(snapshot), request, NoProgress()).tables
    return there


def run_of(strategy: str, changes: WhatIf | None = None) -> Run:
    return Run(shedding=strategy, rounds=3, seed=3, what_if=changes or WhatIf())


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        pytest.param(kind, name, marks=[] if kind in TRICKY else [pytest.mark.slow])
        for kind in FLEETS
        for name in STRATEGIES
    ],
)
def test_the_rounds_are_those_of_a_process(tasks_here, tmp_path, kind, strategy):
    same_rounds(None, tmp_path, fleet(kind), run_of(strategy))


@pytest.mark.slow
def test_unloads_of_several_minutes_are_those_of_a_process(tasks_here, tmp_path, monkeypatch):
    """Between them brokers have reported their load."""
    monkeypatch.setattr(managers, "UNLOADS_PER_MINUTE", 40.0)
    there = same_rounds(None, tmp_path, fleet("gaps and ties"), run_of("OverloadShedder"))
    assert len(there.rounds[0].moves) > 80


def with_idle_quotas(snapshot: PulsarSnapshot) -> PulsarSnapshot:
    """Two thirds of the bundles have a quota and no statistics."""
    count = snapshot.bundles.num_rows
    idle = np.arange(count) % 3 > 0
    for name in (*RATES, *AVERAGES):
        values = pa.array(snapshot.bundles[name].to_numpy(), mask=idle)
        snapshot = edited(snapshot, "bundles", name, values)
    body = json.dumps({"msgRateIn": 5e4, "msgRateOut": 5e4, "bandwidthIn": 9e6})
    quotas = [
        {"kind": "resource_quota", "name": name, "body": body}
        for name in snapshot.bundles.filter(pa.array(idle))["bundle"].to_pylist()
    ]
    more = pa.Table.from_pylist(quotas, schema=snapshot.policies.schema)
    policies = pa.concat_tables([snapshot.policies, more])
    return PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, "policies": policies})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ThresholdShedder", "OverloadShedder"])
def test_quotas_of_bundles_without_statistics_change_nothing(tasks_here, tmp_path, strategy):
    same_rounds(None, tmp_path, with_idle_quotas(fleet("gaps and ties")), run_of(strategy))


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [STRATEGIES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in STRATEGIES[1:])],
)
def test_the_rounds_on_spark_are_those_of_a_process(spark, tmp_path, monkeypatch, strategy):
    monkeypatch.setattr(bundle_state, "_ROWS_A_GROUP", 1_500)
    snapshot = fleet("gaps and ties", brokers=50, bundles=5_000)
    same_rounds(spark, tmp_path, snapshot, run_of(strategy))


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


@pytest.mark.parametrize("manager", ["extensible", "mixed", "modular"])
@pytest.mark.parametrize("transfers", [True, False])
@pytest.mark.slow
def test_transfers_are_those_of_a_process(tasks_here, tmp_path, manager, transfers):
    snapshot = published()
    manifest = replace(snapshot.manifest, load_manager=manager)
    snapshot = PulsarSnapshot.build(manifest, snapshot.tables)
    run = run_of("TransferShedder")
    same_rounds(None, tmp_path, snapshot, run, loadBalancerTransferEnabled=transfers)


@pytest.mark.slow
@pytest.mark.slow
def test_transfers_on_spark_are_those_of_a_process(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle_state, "_ROWS_A_GROUP", 1_500)
    same_rounds(spark, tmp_path, published(brokers=50, bundles=5_000), run_of("TransferShedder"))


@pytest.mark.slow
def test_result_tables_are_those_of_a_process(spark, tmp_path):
    snapshot = fleet("gaps and ties")
    same_tables(spark, tmp_path, snapshot, {})


BROKERS = tuple(sorted(f"10.1.0.{number + 1}:8080" for number in range(12)))
BETWEEN, FIRST = "10.1.0.55:8080", "10.0.0.1:8080"
"""Brokers that join there, so that the rows of others are new ones."""

WITH_QUOTA, SILENT, LEADER = 7, BROKERS[5], BROKERS[0]
WHAT_IFS = {
    "join": WhatIf(added=[BETWEEN, FIRST]),
    "fail": WhatIf(failed=[BROKERS[1], SILENT]),
    "remove": WhatIf(removed=[LEADER]),
    "domain": WhatIf(failed_domains=["zone-b"]),
    "join and fail": WhatIf(added=[BETWEEN], failed=[BROKERS[2]], removed=[BROKERS[3]]),
    "nobody takes some": WhatIf(failed=BROKERS[:8]),  # all that one isolation policy names
}


def troubled() -> PulsarSnapshot:
    """Gaps, ties, bundles that moved since the report, and bundles without owner."""
    snapshot = fleet("gaps and ties")
    spaces = snapshot.bundles["namespace"]  # rounds go by the namespace in a bundle's name
    return edited(with_trouble(snapshot), "bundles", "namespace", spaces)


@pytest.mark.parametrize(
    "strategy",
    ["ThresholdShedder", pytest.param("UniformLoadShedder", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", WHAT_IFS)
def test_a_what_if_is_that_of_a_process(tasks_here, tmp_path, name, strategy):
    run = run_of(strategy, WHAT_IFS[name])
    first = same_rounds(None, tmp_path, troubled(), run).rounds[0]
    assert first.number == 0
    assert bool(first.moves) == (name != "join")
    nobody = any(move.destination is None for move in first.moves)
    assert nobody == (name == "nobody takes some")


def test_a_broker_with_a_bundle_of_its_own_quota_fails_as_in_a_process(tasks_here, tmp_path):
    snapshot = fleet("gaps and ties")
    bundle, owner = (snapshot.bundles[name][WITH_QUOTA].as_py() for name in ("bundle", "owner"))
    run = run_of("ThresholdShedder", WhatIf(failed=[owner]))
    first = same_rounds(None, tmp_path, snapshot, run).rounds[0]
    assert bundle in {move.bundle for move in first.moves}


def test_what_only_a_lost_broker_may_have_goes_with_it(tasks_here, tmp_path, monkeypatch):
    snapshot = fleet("as it is")
    count = snapshot.bundles.num_rows
    monkeypatch.setattr(store, "_ROW_GROUP", count - 1)  # so that a part has nothing else
    owner = snapshot.bundles["owner"][count - 1].as_py()
    assert snapshot.bundles["is_broker_bound"][count - 1].as_py()
    others = np.array(snapshot.bundles["reported_by"].to_pylist(), object)
    others[-1] = BROKERS[2]  # by a report that is not true any more
    snapshot = edited(snapshot, "bundles", "reported_by", pa.array(others))
    for name in ("long_msg_rate_in", "short_msg_throughput_in"):
        values = snapshot.bundles[name].to_numpy().copy()
        values[-1] = values.sum()
        snapshot = edited(snapshot, "bundles", name, pa.array(values))
    same_rounds(None, tmp_path, snapshot, run_of("ThresholdShedder", WhatIf(failed=[owner])))


@pytest.mark.parametrize("name", ["join", "join and fail"])
@pytest.mark.slow
def test_a_what_if_where_no_report_names_a_bundle_is_that_of_a_process(tasks_here, tmp_path, name):
    run = run_of("ThresholdShedder", WHAT_IFS[name])
    same_rounds(None, tmp_path, fleet("no reports"), run)


@pytest.mark.parametrize("name", ["join", "join and fail", "domain"])
@pytest.mark.slow
def test_a_what_if_of_transfers_is_that_of_a_process(tasks_here, tmp_path, name):
    same_rounds(None, tmp_path, published(), run_of("TransferShedder", WHAT_IFS[name]))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ThresholdShedder", "TransferShedder"])
def test_a_what_if_on_spark_is_that_of_a_process(spark, tmp_path, monkeypatch, strategy):
    monkeypatch.setattr(bundle_state, "_ROWS_A_GROUP", 1_500)
    size = {"brokers": 50, "bundles": 5_000}
    is_published = strategy == "TransferShedder"
    snapshot = published(**size) if is_published else fleet("gaps and ties", **size)
    # after the failures of this fleet no published bundle may go, and no round moves one
    changes = WHAT_IFS["join" if is_published else "join and fail"]
    same_rounds(spark, tmp_path, snapshot, run_of(strategy, changes))


def test_a_question_with_a_what_if_is_answered_as_in_a_process(tasks_here, tmp_path):
    snapshot, changes = fleet("gaps and ties"), WHAT_IFS["join and fail"]
    more = {"added": tuple(changes.added), "failed": tuple(changes.failed)}
    there = same_tables(None, tmp_path, snapshot, more)
    assert there["rounds"]["round"].to_pylist() == [0, 1, 2, 0, 1, 2]


def test_more_than_fits_here_is_refused_with_a_remedy(tasks_here, tmp_path, monkeypatch):
    monkeypatch.setattr(large_simulate, "MAX_PLACED", 30)
    cluster = large(None, make_snapshot(brokers=4, bundles=200, seed=4), tmp_path)
    run = Run(shedding="ThresholdShedder", what_if=WhatIf(failed=["10.1.0.1:8080"]))
    with pytest.raises(InputError, match=r"1 broker of fleet makes \d+ bundles unassigned") as told:
        large_simulation(cluster, run)
    assert "--engine local" in str(told.value.hint)


def test_a_broker_that_is_not_there_is_told_as_in_a_process(tasks_here, tmp_path):
    cluster = large(None, make_snapshot(brokers=4, bundles=40, seed=4), tmp_path)
    run = Run(shedding="ThresholdShedder", what_if=WhatIf(failed=["10.1.0.9:8080"]))
    with pytest.raises(UnknownNameError, match=r"10\.1\.0\.9:8080"):
        large_simulation(cluster, run)


def test_transfers_of_a_cluster_that_publishes_nothing_are_refused(tmp_path):
    cluster = large(None, make_snapshot(brokers=4, bundles=40, seed=4), tmp_path)
    with pytest.raises(
        InputError, match="TransferShedder uses data that brokers of the extensible"
    ):
        large_simulation(cluster, Run(shedding="TransferShedder"))
