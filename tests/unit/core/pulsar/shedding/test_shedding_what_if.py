"""Turning points: the value that is told really turns the decision when it is tried."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from shedding_world import MB, Broker, World, even

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES, find_shedding_strategy
from core.pulsar.shedding.what_if import TurningPoint, WhatIf

LEVELS = {"a": 70, "b": 52, "c": 50, "d": 49, "e": 30}


def _world(**conf: object) -> World:
    brokers = {
        name: Broker(cpu, even(20, cpu * 4 * MB, cpu * 100.0)) for name, cpu in LEVELS.items()
    }
    return World(brokers, conf)


def _asked(world: World, strategy: str) -> WhatIf:
    snapshot = world.snapshot()

    def settings_of(assumed: Mapping[str, object]) -> EffectiveSettings:
        return world.having(**assumed).settings(snapshot)

    return WhatIf(find_shedding_strategy(strategy), world.view(), settings_of)


def _points(world: World, strategy: str, broker: str) -> dict[str, TurningPoint]:
    return {point.key: point for point in _asked(world, strategy).turning_points(broker)}


@pytest.mark.parametrize("strategy", sorted(SHEDDING_STRATEGY_NAMES))
@pytest.mark.parametrize("broker", ["a:8080", "b:8080", "e:8080"])
def test_every_turning_point_turns_the_decision_when_it_is_tried(
    strategy: str, broker: str
) -> None:
    world = _world(minUnloadMessage=100)
    asked = _asked(world, strategy)
    now = asked.sheds(broker)
    for point in asked.turning_points(broker):
        turned = world.having(**{point.key: _fitting(point)})
        decision = turned.decide(strategy, rounds=point.rounds)[-1]
        assert (broker in decision.bundles_by_broker()) is point.sheds is not now, point
        assert broker in point.sentence


def _fitting(point: TurningPoint) -> float:
    return int(point.needed) if float(point.needed).is_integer() else point.needed


def test_a_broker_that_stays_is_told_the_threshold_at_which_it_would_shed() -> None:
    # the average is 50.2: 52 is over it by 1.8 points
    points = _points(_world(), "ThresholdShedder", "b:8080")
    point = points["loadBalancerBrokerThresholdShedderPercentage"]
    assert (point.present, point.needed, point.sheds) == (10, 1, True)
    assert "loadBalancerBrokerThresholdShedderPercentage at 1" in (point.sentence)


def test_a_broker_that_sheds_is_told_the_threshold_at_which_it_would_stay() -> None:
    points = _points(_world(), "ThresholdShedder", "a:8080")
    point = points["loadBalancerBrokerThresholdShedderPercentage"]
    assert (point.needed, point.sheds) == (20, False)


def test_a_broker_below_the_average_has_no_turning_point() -> None:
    assert _points(_world(), "ThresholdShedder", "e:8080") == {}


def test_a_fraction_is_told_in_a_few_digits() -> None:
    points = _points(_world(minUnloadMessage=0), "UniformLoadShedder", "a:8080")
    needed = points["loadBalancerMsgRateDifferenceShedderThreshold"].needed
    assert needed == pytest.approx((70 - 30) / 30 * 100, rel=1e-3)
    assert len(f"{needed:g}") <= 6
