"""Counterfactuals of the explanation, on generated clusters: what is told turns the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from sampled import examples
from shedding_world import MB, Broker, Bundle, World

from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings
from core.pulsar.shedding import SHEDDING_STRATEGY_NAMES, Decision, find_shedding_strategy
from core.pulsar.shedding.what_if import WhatIf, deciding_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

EXAMPLES = 12
NAMES = "abcde"
HOT = "a"

every_strategy = pytest.mark.parametrize(
    "strategy", sorted({*SHEDDING_STRATEGY_NAMES} - {"TransferShedder"})
)


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


def fitting(key: str, value: Any) -> object:
    """Return a value as ``--set`` takes it."""
    kind = SETTING_BY_KEY[key].kind
    if kind == "names":
        return list(value)
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


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

    def decided(self, key: str = "", value: object = 0.0) -> Decision:
        """Run the strategy with that setting, not through the explanation."""
        effective = self.settings_of({key: fitting(key, value)} if key else {})
        chosen = find_shedding_strategy(self.strategy)
        view = LoadView.of(self.snapshot, effective)
        return chosen.decide(view, chosen.config(effective), self.state, frozenset())[0]

    def sheds(self, key: str = "", value: object = 0.0) -> bool:
        """Whether the broker gives something away with that setting."""
        return self.broker in self.decided(key, value).bundles_by_broker()


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=examples(EXAMPLES), deadline=None)
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
            assert isinstance(point.present, int | float)
            assert isinstance(point.needed, int | float)
            step = 1 if point.present > point.needed else -1
            assert case.sheds(point.key, point.needed + step) is now, point


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_where_no_counterfactual_is_told_neither_end_of_a_setting_changes_anything(
    strategy: str, world: World, data: st.DataObject
) -> None:
    case = Case.drawn(data, world, strategy)
    now = case.sheds()
    told = {point.key for point in case.what_if().turning_points(case.broker)}
    for lever in deciding_settings(find_shedding_strategy(strategy)):
        if lever.key in told:
            continue
        if lever.extremes is None:
            assert case.sheds(lever.key, not case.settings_of({}).flag(lever.key)) is now
        else:
            assert (
                case.sheds(lever.key, lever.extremes.idle if now else lever.extremes.eager) is now
            ), lever.key


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_a_counterfactual_of_a_bundle_turns_what_is_decided_about_it(
    strategy: str, world: World, data: st.DataObject
) -> None:
    case = Case.drawn(data, world, strategy)
    names = sorted(name for held in world.named().values() for name, _ in held)
    assume(names)
    moved = [move.bundle for move in case.decided().moves]
    bundle = data.draw(st.sampled_from(moved or names) | st.sampled_from(names), label="bundle")
    points = list(case.what_if().bundle_turning_points(bundle))
    event(f"{len(points)} told")
    for point in points:
        moves = case.decided(point.key, point.needed).moves
        assert (bundle in {move.bundle for move in moves}) is point.sheds, point
        assert point.sheds is not (bundle in moved)


@pytest.mark.slow
@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=examples(3) * EXAMPLES, deadline=None)
def test_the_last_gate_of_a_bundle_says_what_the_strategy_does(
    strategy: str, world: World, data: st.DataObject
) -> None:
    case = Case.drawn(data, world, strategy)
    decision = case.decided()
    picked = {move.bundle for move in decision.moves}
    named = world.named()
    for broker in decision.bundles_by_broker():
        for name, _ in named[broker.removesuffix(":8080")]:
            gate = decision.pick(name)
            assert gate is not None, name
            assert gate.is_open is (name in picked), gate
            assert (gate.distance <= 0) or not gate.is_open, gate
            assert (gate.distance >= 0) or gate.is_open, gate
            assert gate.sentence
