"""Counterfactuals of the explanation, on generated clusters: what is told turns the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from shedding_world import MB, Broker, Bundle, World

from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import find_shedding_strategy
from core.pulsar.shedding.what_if import LEVERS, WhatIf
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

EXAMPLES = 12
NAMES = "abcde"
HOT = "a"

every_strategy = pytest.mark.parametrize("strategy", sorted(LEVERS))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two to five brokers, the first one busier as a rule; bundles of very unlike size."""
    throughput = st.sampled_from((0.0, MB, 40 * MB, 300 * MB)) | st.floats(0, 1e9)
    rate = st.sampled_from((0.0, 500.0, 2_000.0)) | st.floats(0, 1e6)
    bundle = st.builds(Bundle, throughput, rate)
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    low, high = st.sampled_from((0.0, 20.0, 49.5, 50.0)), st.sampled_from((70.0, 85.0, 99.0))
    anything = st.floats(0, 100)
    brokers = {
        name: Broker(
            draw((high if name == HOT else low) | anything),
            draw(st.lists(bundle, min_size=4 if name == HOT else 0, max_size=7)),
        )
        for name in names
    }
    conf = {
        "loadBalancerBrokerThresholdShedderPercentage": draw(st.sampled_from((10, 3))),
        "loadBalancerBundleUnloadMinThroughputThreshold": draw(st.sampled_from((10.0, 0.5))),
        "minUnloadMessage": draw(st.sampled_from((1000, 10))),
        "minUnloadMessageThroughput": draw(st.sampled_from((1_048_576, 1000))),
        "maxUnloadPercentage": draw(st.sampled_from((0.2, 0.5))),
    }
    return World(brokers, conf)


@dataclass(frozen=True)
class Case:
    """One broker of a cluster, after some rounds of a strategy."""

    world: World
    strategy: str
    broker: str
    snapshot: PulsarSnapshot
    state: Any

    @classmethod
    def drawn(cls, data: st.DataObject, world: World, strategy: str) -> Case:
        """Let some rounds pass, and choose the busiest broker or any."""
        chosen = find_shedding_strategy(strategy)
        snapshot = world.snapshot()
        effective = world.settings(snapshot)
        view = LoadView.of(snapshot, effective)
        state = chosen.initial_state()
        for _ in range(data.draw(st.sampled_from((0, 1, 2, 7)), label="rounds before")):
            _, state = chosen.decide(view, chosen.config(effective), state, frozenset())
        name = data.draw(st.just(HOT) | st.sampled_from(sorted(world.brokers)), label="broker")
        return cls(world, strategy, f"{name}:8080", snapshot, state)

    def settings_of(self, assumed: Mapping[str, object]) -> EffectiveSettings:
        """Return the settings of the cluster with some assumed."""
        return self.world.having(**assumed).settings(self.snapshot)

    def what_if(self) -> WhatIf:
        """Return the explanation that is asked."""
        chosen = find_shedding_strategy(self.strategy)
        view = LoadView.of(self.snapshot, self.settings_of({}))
        return WhatIf(chosen, view, self.settings_of, state=self.state)

    def sheds(self, key: str = "", value: float = 0.0) -> bool:
        """Run the strategy with that setting, not through the explanation."""
        fitting = int(value) if key and SETTING_BY_KEY[key].kind == "int" else value
        effective = self.settings_of({key: fitting} if key else {})
        chosen = find_shedding_strategy(self.strategy)
        view = LoadView.of(self.snapshot, effective)
        decision, _ = chosen.decide(view, chosen.config(effective), self.state, frozenset())
        return self.broker in decision.bundles_by_broker()


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_counterfactual_turns_the_decision_when_it_is_tried_and_not_one_step_before(
    strategy: str, world: World, data: st.DataObject
) -> None:
    case = Case.drawn(data, world, strategy)
    now = case.sheds()
    points = list(case.what_if().turning_points(case.broker))
    event(f"{len(points)} told")
    assert len({point.key for point in points}) == len(points)
    for point in points:
        assert point.sheds is not now
        assert case.sheds(point.key, point.needed) is point.sheds, point
        if SETTING_BY_KEY[point.key].kind == "int":
            step = 1 if point.present > point.needed else -1
            assert case.sheds(point.key, point.needed + step) is now, point


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_where_no_counterfactual_is_told_neither_end_of_a_setting_changes_anything(
    strategy: str, world: World, data: st.DataObject
) -> None:
    case = Case.drawn(data, world, strategy)
    now = case.sheds()
    told = {point.key for point in case.what_if().turning_points(case.broker)}
    for lever in LEVERS[strategy]:
        if lever.key not in told:
            assert case.sheds(lever.key, lever.idle if now else lever.eager) is now, lever.key
