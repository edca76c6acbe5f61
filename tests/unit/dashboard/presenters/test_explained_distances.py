"""What is told of every broker: a gate of its own, how far it is, and what would turn it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from extensible_world import extensible_snapshot
from shedding_world import MB, Broker, Bundle, World, even

from core.pulsar.explain import Explanation
from core.pulsar.setting_values import typed_value
from core.pulsar.settings import SETTING_BY_KEY, effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot
from core.snapshot.store import CachedSnapshot, save_snapshot
from dashboard.presenters.pulsar import explain as presenter
from dashboard.queries.pulsar import explanations

IMPL = "org.apache.pulsar.broker.loadbalance.impl."
STRATEGY = "loadBalancerLoadSheddingStrategy"
HITS = "loadBalancerSheddingConditionHitCountThreshold"
TARGET = "loadBalancerBrokerLoadTargetStd"
LEVELS = {"a": 70, "b": 52, "c": 50, "d": 49, "e": 30}
FIVE = {
    "1:80": (0.02, [1, 2]),
    "2:80": (0.04, [1, 3]),
    "3:80": (0.06, [2, 4]),
    "4:80": (0.80, [2, 6]),
    "5:80": (0.90, [2, 7]),
}
CALM = {
    "1:80": (0.35, [1.0, 2.0, 3.0]),
    "2:80": (0.45, [1.0, 2.0, 4.0]),
    "3:80": (0.55, [1.0, 2.0, 5.0]),
}


def explained(snapshot, **overrides):
    settings = effective_settings(snapshot, overrides=overrides)
    return Explanation(
        view=LoadView.of(snapshot, settings),
        settings=settings,
        settings_of=lambda more: effective_settings(snapshot, overrides={**overrides, **more}),
    )


def transfer(loads, **overrides):
    return explained(extensible_snapshot(loads), **overrides)


def modular(strategy, levels=LEVELS, bundles=10, **overrides):
    brokers = {
        name: Broker(cpu, even(bundles, cpu * 4 * MB, cpu * 100.0)) for name, cpu in levels.items()
    }
    conf = {STRATEGY: f"{IMPL}{strategy}", **overrides}
    return explained(World(brokers).snapshot(), **conf)


# -- the count of rounds ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "said", "distance"),
    [
        (3, "consecutive rounds 1 round, 4 needed", 3),
        (0, "consecutive rounds 1 round, 1 needed", 0),
    ],
)
def test_hit_gate_of_the_extensible_manager_counts_the_round_that_acts(threshold, said, distance):
    whole = transfer(FIVE, **{HITS: threshold}).of_cluster[0]
    gate = whole.gates[-1]
    assert gate.sentence == said
    assert gate.distance == distance
    assert gate.distance == gate.threshold - gate.measured
    assert gate.is_open is (distance <= 0)


def test_even_cluster_is_told_the_nearest_condition_and_not_the_count_of_rounds():
    reason = transfer(CALM).of_broker("3:80")
    assert "consecutive" not in reason.otherwise
    assert reason.otherwise == (
        "The load must become more uneven: spread of usage (std) 8.2% is 16.8 points below 25%."
    )


# -- a gate for every broker -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["UniformLoadShedder", "AvgShedder", "ThresholdShedder"])
def test_every_broker_that_stays_has_a_shut_gate_with_its_distance(strategy):
    found = modular(strategy, minUnloadMessage=0, loadBalancerAvgShedderHitCountHighThreshold=1)
    for broker in found.view.brokers:
        reason = found.of_broker(broker)
        if reason.sheds:
            assert all(gate.is_open for gate in reason.gates if not gate.is_alternative)
            continue
        assert not reason.gates[-1].is_open, broker
        assert reason.gates[-1].distance >= 0
        assert "among the brokers" not in reason.otherwise


def test_brokers_beside_the_busiest_are_told_how_far_they_are_from_it():
    found = modular("UniformLoadShedder", minUnloadMessage=0)
    gate = found.of_broker("b:8080").gates[-1]
    rates = found.view.broker_msg_rate
    assert gate.name == "highest message rate of all"
    assert (gate.measured, gate.threshold) == (rates[1], rates[0])
    assert gate.distance == pytest.approx(rates[0] - rates[1])


def test_brokers_that_receive_are_told_from_whom_and_how_far_they_are_from_giving():
    found = modular("AvgShedder")
    reason = found.of_broker("e:8080")
    assert "5 of 5" in reason.sentence
    assert "no pair" in found.of_broker("c:8080").sentence
    gate = reason.gates[-1]
    assert gate.distance == pytest.approx(22.0, abs=0.5)


def test_brokers_outside_the_pairs_are_told_their_place():
    found = transfer(FIVE, **{HITS: 0, "loadBalancerMaxNumberOfBrokerSheddingPerCycle": 1})
    gate = found.of_broker("3:80").gates[-1]
    assert (gate.measured, gate.threshold, gate.distance) == (3.0, 1.0, 2.0)
    assert not gate.is_open
    assert "only the busiest" in gate.sentence
    assert "1 broker" in gate.sentence
    assert "of the busiest" in found.of_broker("3:80").otherwise
    assert "receives from 5:80" in found.of_broker("1:80").sentence
    gives = found.of_broker("5:80")
    assert gives.sheds
    assert [gate.is_open for gate in gives.gates if not gate.is_alternative] == [True] * 4


def test_busy_broker_that_can_give_nothing_has_a_shut_gate():
    alone = {**FIVE, "5:80": (0.90, [9.0])}
    reason = transfer(alone, **{HITS: 0}).of_broker("5:80")
    assert not reason.sheds
    gate = reason.gates[-1]
    assert (gate.measured, gate.threshold, gate.unit) == (1.0, 2.0, "bundles")
    large = {**FIVE, "1:80": (0.02, []), "5:80": (0.90, [9.0, 9.0])}
    gate = transfer(large, **{HITS: 0}).of_broker("5:80").gates[-1]
    assert (gate.is_open, gate.unit) == (False, "bytes/s")
    assert gate.distance > 0


# -- counterfactuals behind a count of rounds ------------------------------------------------------


def tried(found, snapshot, point, overrides):
    value = typed_value(SETTING_BY_KEY[point.key], point.needed)
    again = explained(snapshot, **{**overrides, point.key: value})
    strategy, state = again.strategy, again.strategy.initial_state()
    config = strategy.config(again.settings)
    for _ in range(point.rounds):
        decision, state = strategy.decide(again.view, config, state, frozenset())
    return decision


def test_balanced_extensible_cluster_is_told_what_would_make_it_shed_and_after_how_many_rounds():
    found = transfer(CALM)
    points = {point.key: point for point in found.turning_points("3:80")}
    point = points[TARGET]
    assert point.sheds
    assert point.rounds == 4
    assert point.sentence.endswith("(now 0.25), after 4 such rounds")
    decision = tried(found, extensible_snapshot(CALM), point, {})
    assert "3:80" in decision.bundles_by_broker()


def test_balanced_pairs_are_told_the_gap_at_which_they_would_be_levelled():
    near = {"a": 50, "b": 45, "c": 42, "d": 40}
    found = modular("AvgShedder", near, 50, minUnloadMessage=0)
    points = {point.key: point for point in found.turning_points("a:8080")}
    point = points["loadBalancerAvgShedderLowThreshold"]
    assert (point.sheds, point.needed, point.rounds) == (True, 10, 8)
    assert "8 such rounds" in point.sentence


def test_the_wide_gap_is_one_of_the_settings_that_are_tried():
    found = modular(
        "AvgShedder",
        minUnloadMessage=0,
        loadBalancerAvgShedderHitCountHighThreshold=1,
        loadBalancerAvgShedderHighThreshold=45,
    )
    points = {point.key: point for point in found.turning_points("a:8080")}
    point = points["loadBalancerAvgShedderHighThreshold"]
    assert (point.sheds, point.rounds) == (True, 1)
    assert point.needed in (39, 40), "the gap is 40 points, but for its last binary digit"


def only_together() -> PulsarSnapshot:
    """A cluster whose broker a sheds with two other settings, and with no single one."""
    return World(
        {
            "a": Broker(47, [Bundle(3 * MB, 3e5), Bundle(2 * MB, 2e5)]),
            "b": Broker(45, [Bundle(40 * MB, 4e3), Bundle(2 * MB, 200)]),
            "c": Broker(45, [Bundle(40 * MB, 4e3), Bundle(2 * MB, 200)]),
        }
    ).snapshot()


def test_the_pages_simulate_two_settings_to_convergence(tmp_path):
    snapshot = only_together()
    save_snapshot(snapshot, tmp_path / "s")
    stored = CachedSnapshot(snapshot.manifest.taken_at, snapshot.snapshot_id, tmp_path / "s")
    words = explanations.otherwise((stored, frozenset(), "a:8080"))
    assert "Two settings change this: " in words
    assert "Simulated: deviation" in words or "Not recommended" in words


def test_two_settings_are_told_where_no_single_one_turns_the_verdict():
    found = explained(only_together())
    points = list(found.turning_points("a:8080"))
    assert points == []
    told = found.otherwise("a:8080", points)
    assert "Two settings change" in told
    assert "loadBalancerBrokerThresholdShedderPercentage at " in told
    assert "loadBalancerBundleUnloadMinThroughputThreshold at " in told
    assert found.otherwise("a:8080", [object()]) == found.of_broker("a:8080").otherwise


def test_broker_without_a_load_report_is_told_that_its_report_is_missing():
    snapshot = World(
        {"a": Broker(70, even(4, 40 * MB)), "b": Broker(30, even(4, 4 * MB))}
    ).snapshot()
    rows = snapshot.brokers.to_pylist()
    facts = set(rows[1]) - {"broker", "is_leader", "version", "load_manager"}
    rows[1] |= dict.fromkeys(facts)
    brokers = pa.Table.from_pylist(rows, schema=snapshot.brokers.schema)
    again = type(snapshot).build(snapshot.manifest, {**snapshot.tables, "brokers": brokers})
    reason = explained(again).of_broker("b:8080")
    assert not reason.sheds
    assert "load report" in reason.otherwise


def test_of_two_gaps_the_one_that_is_nearer_to_its_bound_is_told():
    even_rates = modular("UniformLoadShedder", {"a": 50, "b": 49, "c": 48})
    told = even_rates.of_broker("b:8080").otherwise
    assert "highest message rate" in told
    off = {"loadBalancerMsgRateDifferenceShedderThreshold": 0.0}
    told = modular("UniformLoadShedder", {"a": 50, "c": 48}, **off).of_broker("c:8080").otherwise
    assert "highest throughput" in told


def test_no_broker_is_said_to_shed_while_the_average_usage_is_nothing():
    idle = World(
        {"a": Broker(0.0, [Bundle(0.0), Bundle(0.0), Bundle(300 * MB)])},
        {"loadBalancerBrokerThresholdShedderPercentage": 0},
    )
    (decision,) = idle.decide("ThresholdShedder")
    assert decision.moves == ()
    assert not any(trace.sheds for trace in decision.trace)
    assert not decision.trace[0].gates[-1].is_open


# -- words -----------------------------------------------------------------------------------------


def test_bundle_of_the_extensible_manager_is_ranked_by_what_its_broker_published():
    found = transfer(FIVE, **{HITS: 0})
    hot = found.of_bundle("t/5/0x00000001_0x00000002")
    assert "1 of 2" in (hot.sentence)
    gone = found.of_bundle("t/5/0x00000000_0x00000001")
    assert "2 of 2" in gone.conditions[-2].sentence


def test_alternatives_are_marked_as_such_in_the_table():
    rows = presenter.broker_trail(transfer(FIVE).of_broker("5:80"))
    assert rows["state"].tolist()[:4].count("✕ not met, one is sufficient") >= 1
    assert rows["state"].tolist()[-1] == "✕ not met"
    two = presenter.broker_trail(modular("UniformLoadShedder").of_broker("a:8080"))
    assert all(state.endswith("one is sufficient") for state in two["state"].tolist()[:2])
