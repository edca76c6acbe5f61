"""Counterfactuals of TransferShedder on generated clusters: what is told turns the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extensible_world import extensible_snapshot
from hypothesis import event, given, settings
from hypothesis import strategies as st
from sampled import examples

from core.pulsar.settings import SETTING_BY_KEY, EffectiveSettings, effective_settings
from core.pulsar.shedding import Decision
from core.pulsar.shedding.transfer_shedder import TransferShedder
from core.pulsar.shedding.what_if import WhatIf
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

SHEDDER = TransferShedder()
HITS = "loadBalancerSheddingConditionHitCountThreshold"


@st.composite
def worlds(draw: st.DrawFn) -> tuple[PulsarSnapshot, dict[str, object]]:
    """Two to five brokers, and settings under which something may happen in the first round."""
    sizes = st.lists(st.sampled_from((0.0, 0.5, 1.0, 3.0, 8.0)), max_size=5).map(sorted)
    usage = st.sampled_from((0.02, 0.1, 0.4, 0.6, 0.88, 0.95))
    names = [f"{number}:80" for number in range(1, draw(st.integers(2, 5)) + 1)]
    loads = {name: (draw(usage), draw(sizes)) for name in names}
    groups = draw(st.sampled_from(((), ("t/1", "t/2"))))
    conf: dict[str, object] = {
        HITS: draw(st.sampled_from((0, 3))),
        "loadBalancerBrokerLoadTargetStd": draw(st.sampled_from((0.25, 0.05))),
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": draw(st.sampled_from((1, 3))),
    }
    return extensible_snapshot(loads, groups=groups), conf


def decided(
    world: tuple[PulsarSnapshot, dict[str, object]], rounds: int = 1, **more: object
) -> Decision:
    """Run the strategy itself, and return the last of some rounds."""
    snapshot, conf = world
    found = effective_settings(snapshot, overrides={**conf, **more})
    view = LoadView.of(snapshot, found)
    state = SHEDDER.initial_state()
    for _ in range(rounds):
        decision, state = SHEDDER.decide(view, SHEDDER.config(found), state, frozenset())
    return decision


def fitting(key: str, value: Any) -> object:
    """Return a value as ``--set`` takes it."""
    kind = SETTING_BY_KEY[key].kind
    if kind == "names":
        return list(value)
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


@given(world=worlds(), data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_counterfactual_turns_the_verdict_on_a_broker_or_a_bundle(
    world: tuple[PulsarSnapshot, dict[str, object]], data: st.DataObject
) -> None:
    snapshot, conf = world

    def settings_of(more: Mapping[str, object]) -> EffectiveSettings:
        return effective_settings(snapshot, overrides={**conf, **more})

    what_if = WhatIf(SHEDDER, LoadView.of(snapshot, settings_of({})), settings_of)
    moves = decided(world).moves
    broker = data.draw(st.sampled_from(snapshot.brokers["broker"].to_pylist()), label="broker")
    points = list(what_if.turning_points(broker))
    bundles = snapshot.bundles["bundle"].to_pylist()
    if bundles:
        bundle = data.draw(st.sampled_from(bundles), label="bundle")
        points += what_if.bundle_turning_points(bundle)
    event(f"{len(points)} told")
    for point in points:
        more = {point.key: fitting(point.key, point.needed)}
        then = decided(world, point.rounds, **more).moves

        def concerns(found: Any, *, of: Any = point) -> bool:
            return any(of.broker == move.broker or of.bundle == move.bundle for move in found)

        assert concerns(then) is point.sheds, point
        assert concerns(moves) is not point.sheds, point


@given(world=worlds())
@settings(max_examples=examples(60), deadline=None)
def test_the_last_gate_of_a_bundle_says_what_the_strategy_does(
    world: tuple[PulsarSnapshot, dict[str, object]],
) -> None:
    snapshot, _ = world
    decision = decided(world, **{HITS: 0})
    picked = {move.bundle for move in decision.moves}
    for row in snapshot.bundles.to_pylist():
        gate = decision.pick(row["bundle"])
        assert (gate is not None and gate.is_open) is (row["bundle"] in picked), gate
        assert gate is None or gate.sentence
