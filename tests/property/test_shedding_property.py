"""What every shedding strategy keeps to, on generated clusters."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_fleets import worlds
from sampled import examples
from shedding_world import World

from core.pulsar.shedding import Decision, find_shedding_strategy, shed_rounds
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

MODULAR = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
ROUNDS = 3

every_strategy = pytest.mark.parametrize("strategy", MODULAR)


def _decide(
    strategy: str, world: World, snapshot: PulsarSnapshot, recent: frozenset[str]
) -> list[Decision]:
    effective = world.settings(snapshot)
    view = LoadView.of(snapshot, effective)
    chosen = find_shedding_strategy(strategy)
    state = chosen.initial_state()
    found = []
    for _ in range(ROUNDS):
        decision, state = chosen.decide(view, chosen.config(effective), state, recent)
        found.append(decision)
    return found


@given(world=worlds())
@settings(max_examples=examples(30), deadline=None)
def test_the_generated_clusters_are_sane(world: World) -> None:
    view = world.view()
    assert len(view.brokers) == len(world.brokers)
    assert view.bundles.size == sum(len(broker.bundles) for broker in world.brokers.values())
    assert (view.reporter >= 0).all()


@every_strategy
@given(world=worlds(), data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_only_free_bundles_of_ordinary_namespaces_leave_and_each_once(
    strategy: str, world: World, data: st.DataObject
) -> None:
    snapshot = world.snapshot()
    names = snapshot.bundles.column("bundle").to_pylist()
    recent = frozenset(data.draw(st.sets(st.sampled_from(names)) if names else st.just(set())))
    reporter = dict(zip(names, snapshot.bundles.column("reported_by").to_pylist(), strict=True))
    for decision in _decide(strategy, world, snapshot, recent):
        moved = [move.bundle for move in decision.moves]
        assert len(moved) == len(set(moved))
        assert not recent & set(moved)
        assert not any(":" in name for name in moved)
        assert all(move.broker == reporter[move.bundle] for move in decision.moves)
        assert all(move.destination != move.broker for move in decision.moves)
        assert (decision.label == "success") == bool(moved)
        assert decision.sentence
        shedding = {trace.broker for trace in decision.trace if trace.sheds and trace.broker}
        assert shedding == {move.broker for move in decision.moves}


@every_strategy
@given(world=worlds(), seed=st.integers(0, 1_000))
@settings(max_examples=examples(25), deadline=None)
def test_the_order_of_rows_changes_nothing(strategy: str, world: World, seed: int) -> None:
    snapshot = world.snapshot()
    rng = np.random.default_rng(seed)
    tables = {
        name: table.take(rng.permutation(table.num_rows))
        for name, table in snapshot.tables.items()
        if name in ("brokers", "bundles", "namespaces")
    }
    shuffled = PulsarSnapshot.build(snapshot.manifest, {**snapshot.tables, **tables})
    first = _decide(strategy, world, snapshot, frozenset())
    second = _decide(strategy, world, shuffled, frozenset())
    assert [d.moves for d in first] == [d.moves for d in second]
    assert [d.sentence for d in first] == [d.sentence for d in second]
    assert [d.moves for d in first] == [
        d.moves for d in _decide(strategy, world, snapshot, frozenset())
    ]


@every_strategy
@given(world=worlds())
@settings(max_examples=examples(40), deadline=None)
def test_through_the_load_manager_a_bundle_moves_once_and_its_chances_add_up(
    strategy: str, world: World
) -> None:
    effective = world.settings()
    rounds = shed_rounds(find_shedding_strategy(strategy), world.view(), effective)
    count: Counter[str] = Counter()
    for done in itertools.islice(rounds, 4):
        count.update(move.bundle for move in done.moves)
        picked = {move.bundle for move in done.decision.moves}
        assert {move.bundle for move in done.moves} | set(done.skipped) == picked
        assert not set(done.destinations) & set(done.skipped)
        for move in done.moves:
            chances = done.destinations[move.bundle]
            assert sum(chances.values()) == pytest.approx(1.0)
            assert chances.get(move.broker, 0.0) < 1.0
        assert all(done.skipped.values())
    assert all(times == 1 for times in count.values())


@pytest.mark.parametrize("strategy", ["ThresholdShedder", "OverloadShedder"])
@given(world=worlds())
@settings(max_examples=examples(40), deadline=None)
def test_doubling_all_traffic_and_its_minimum_changes_no_move(strategy: str, world: World) -> None:
    key = "loadBalancerBundleUnloadMinThroughputThreshold"
    minimum = world.conf[key]
    assert isinstance(minimum, float)
    doubled = replace(
        world.having(**{key: 2 * minimum}),
        brokers={
            name: replace(
                broker,
                bundles=[replace(b, throughput=2 * b.throughput) for b in broker.bundles],
            )
            for name, broker in world.brokers.items()
        },
    )
    first = _decide(strategy, world, world.snapshot(), frozenset())
    second = _decide(strategy, doubled, doubled.snapshot(), frozenset())
    assert [d.moves for d in first] == [d.moves for d in second]


@given(world=worlds())
@settings(max_examples=examples(40), deadline=None)
def test_threshold_shedder_takes_no_bundle_more_than_it_needs(world: World) -> None:
    snapshot = world.snapshot()
    view = world.view()
    for decision in _decide("ThresholdShedder", world, snapshot, frozenset()):
        for trace in decision.trace:
            amounts = [gate for gate in trace.gates if gate.unit == "bytes/s"]
            if trace.sheds and amounts:
                moved = [move.bundle for move in decision.moves if move.broker == trace.broker]
                rows = [view.bundle_row(name) for name in moved]
                but_one = view.bundle_short_throughput[rows[:-1]].sum()
                assert but_one <= amounts[0].measured or len(rows) == 1
