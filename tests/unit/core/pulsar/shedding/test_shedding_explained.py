"""The trace of a decision: every no has its numbers, and the distance is what turns it."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest
from shedding_world import MB, Broker, World, even

import core.pulsar.shedding as package
from core.errors import UnknownNameError
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import (
    SHEDDING_STRATEGIES,
    SHEDDING_STRATEGY_NAMES,
    BrokerTrace,
    Decision,
    Gate,
    find_shedding_strategy,
)
from core.pulsar.shedding.gates import at_least, below
from core.pulsar.shedding.selection import java_int

MODULAR = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
LEVELS = {"a": 70, "b": 52, "c": 50, "d": 49, "e": 30}


def _world(**conf: object) -> World:
    return World(
        {name: Broker(cpu, even(10, cpu * 4 * MB, cpu * 100.0)) for name, cpu in LEVELS.items()},
        conf,
    )


def _by_broker(decision: Decision) -> dict[str | None, BrokerTrace]:
    return {trace.broker: trace for trace in decision.trace}


def _shut(trace: BrokerTrace) -> Gate:
    return next(gate for gate in trace.gates if not gate.is_open)


def test_every_strategy_module_is_registered_under_its_upstream_name() -> None:
    modules = {name for _, name, _ in pkgutil.iter_modules(package.__path__)}
    classes = {
        value.name
        for name in modules
        if name.endswith("_shedder")
        for value in vars(importlib.import_module(f"{package.__name__}.{name}")).values()
        if isinstance(getattr(value, "name", None), str) and hasattr(value, "decide")
    }
    assert classes == set(SHEDDING_STRATEGY_NAMES)
    assert len(set(SHEDDING_STRATEGY_NAMES)) == len(SHEDDING_STRATEGIES)


def test_a_strategy_is_found_by_its_short_and_by_its_full_class_name() -> None:
    full = "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
    assert find_shedding_strategy(full) is find_shedding_strategy("UniformLoadShedder")
    with pytest.raises(UnknownNameError, match="Did you mean ThresholdShedder"):
        find_shedding_strategy("ThresholdSheder")


def test_defaults_follow_the_release() -> None:
    def configured(line: str) -> dict[str, object]:
        settings = EffectiveSettings.defaults(line)
        return {name: find_shedding_strategy(name).config(settings) for name in MODULAR}

    old, now, next_one = (configured(line) for line in ("4.0", "4.2", "5.0"))
    slacks = [each["UniformLoadShedder"].rate_slack for each in (old, now, next_one)]
    assert slacks == [1000.0, 0.0, 0.0]
    assert [each["AvgShedder"].share_ratio for each in (old, now, next_one)] == [0.2, 0.2, 0.5]
    key = "loadBalancerLoadSheddingStrategy"
    effective = [EffectiveSettings.defaults(line).text(key) for line in ("4.0", "4.2", "5.0")]
    assert [name.rpartition(".")[2] for name in effective] == [
        "ThresholdShedder",
        "ThresholdShedder",
        "AvgShedder",
    ]


@pytest.mark.parametrize("strategy", MODULAR)
def test_the_trace_sheds_exactly_where_the_moves_are(strategy: str) -> None:
    for decision in _world().decide(strategy, rounds=9):
        shedding = {trace.broker for trace in decision.trace if trace.sheds and trace.broker}
        assert shedding == {move.broker for move in decision.moves}
        for trace in decision.trace:
            assert trace.sentence
            assert trace.broker is None or all(gate.is_open for gate in trace.gates[:-1])
            for gate in trace.gates:
                assert gate.sentence
                assert (gate.distance <= 0) or not gate.is_open


@pytest.mark.parametrize("strategy", MODULAR)
def test_a_decision_without_moves_says_why_with_numbers(strategy: str) -> None:
    calm = World({name: Broker(40, even(4, 40 * MB, 4000)) for name in "abc"})
    (decision,) = calm.decide(strategy)
    assert decision.label == "skip"
    assert decision.reason == "balanced"
    assert any(letter.isdigit() for letter in decision.sentence)


@pytest.mark.parametrize("broker", ["b:8080", "c:8080", "d:8080", "e:8080"])
def test_threshold_shedder_turns_when_the_threshold_falls_by_the_distance(broker: str) -> None:
    view, settings = _world().view(), _world().settings()
    strategy = find_shedding_strategy("ThresholdShedder")
    config = replace(strategy.config(settings), min_bytes_per_s=0.0)

    def decided(threshold: float) -> BrokerTrace:
        decision, _ = strategy.decide(
            view,
            replace(config, threshold_ratio=threshold),
            strategy.initial_state(),
            frozenset(),
        )
        return _by_broker(decision)[broker]

    gate = _shut(decided(config.threshold_ratio))
    assert gate.name == "usage"
    turned = config.threshold_ratio - gate.distance
    assert decided(turned - 1e-9).gates[0].is_open
    assert not decided(turned + 1e-9).gates[0].is_open


def test_overload_shedder_turns_when_the_limit_falls_by_the_distance() -> None:
    strategy = find_shedding_strategy("OverloadShedder")
    config = strategy.config(_world().settings())
    view = _world().view()

    def decided(limit: float) -> Decision:
        changed = replace(config, limit_ratio=limit)
        return strategy.decide(view, changed, strategy.initial_state(), frozenset())[0]

    gate = _shut(_by_broker(decided(config.limit_ratio))["a:8080"])
    assert not decided(config.limit_ratio - gate.distance + 1e-9).moves
    assert decided(config.limit_ratio - gate.distance - 1e-9).moves


def test_uniform_shedder_turns_when_its_threshold_falls_by_the_distance() -> None:
    world = _world(
        loadBalancerMsgRateDifferenceShedderThreshold=300.0,
        minUnloadMessage=0,
        maxUnloadPercentage=1.0,
    )
    (decision,) = world.decide("UniformLoadShedder")
    rate = decision.trace[0].gates[0]
    assert not decision.moves
    assert not rate.is_open
    turned = 300.0 - rate.distance
    key = "loadBalancerMsgRateDifferenceShedderThreshold"
    assert not world.having(**{key: turned + 1e-6}).decide("UniformLoadShedder")[0].moves
    assert world.having(**{key: turned - 1e-6}).decide("UniformLoadShedder")[0].moves


def test_avg_shedder_acts_after_as_many_rounds_as_the_distance_says() -> None:
    decisions = _world(minUnloadMessage=0).decide("AvgShedder", rounds=12)
    gate = _shut(_by_broker(decisions[0])["a:8080"])
    assert gate.unit == "rounds"
    acted = next(number for number, decision in enumerate(decisions) if decision.moves)
    assert acted == gate.distance


def test_a_threshold_that_is_switched_off_never_opens() -> None:
    world = _world(
        loadBalancerMsgRateDifferenceShedderThreshold=0.0,
        loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold=-1.0,
    )
    (decision,) = world.decide("UniformLoadShedder")
    assert not decision.moves
    assert not any(gate.is_open for gate in decision.trace[0].gates)
    assert "inf" not in decision.sentence


def test_a_cluster_without_any_load_report_is_said_to_be_unknown() -> None:
    snapshot = _world().snapshot()
    kept = ["broker", "is_leader", "version", "load_manager"]
    tables = {**snapshot.tables, "brokers": snapshot.brokers.select(kept)}
    bare = type(snapshot).build(snapshot.manifest, tables)
    settings = _world().settings(bare)
    view = type(_world().view()).of(bare, settings)
    for name in MODULAR:
        strategy = find_shedding_strategy(name)
        decision, _ = strategy.decide(
            view, strategy.config(settings), strategy.initial_state(), frozenset()
        )
        assert decision.reason == "no_load_data", (name, decision.sentence)
        assert "5 brokers without a known load report" in decision.notes[0]


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (1.0, "amount 1 B/s is far below 10.5 MB/s"),
        (0.0, "amount 0 B/s is far below 10.5 MB/s"),
        (10e6, "amount 10 MB/s is 486 kB/s below 10.5 MB/s"),
        (20_971_520.0, "amount 21 MB/s is 10.5 MB/s above 10.5 MB/s"),
    ],
)
def test_a_distance_as_large_as_its_bound_is_not_told_twice(measured: float, said: str) -> None:
    assert at_least("amount", measured, 10 * 1_048_576.0, "bytes/s").sentence == said
    if measured < 10 * 1_048_576.0:
        assert below("amount", measured, 10 * 1_048_576.0, "bytes/s").sentence == said


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2.9, 2), (-2.9, -2), (5e9, 2**31 - 1), (-5e9, -(2**31)), (float("nan"), 0)],
)
def test_java_cuts_numbers_towards_zero_and_keeps_them_in_32_bits(
    value: float, expected: int
) -> None:
    assert java_int(value) == expected
