"""The node order learned from rounds: on the recorded runs, and on clusters with a drawn order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pegasus_builder import make_view
from test_pegasus_live_rounds import RUNS, read, view

from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.node_order import NodeOrder, changes_between, learned, likely_plans
from core.pegasus.balance.rounds import apply_plans, balance_round
from core.pegasus.view import ClusterView

OPTIONS = BalanceOptions()


def recorded_plans(run: str) -> list[list[tuple[str, str, str, str]]]:
    return [
        sorted((plan["pid"], plan["type"], plan["frm"], plan["to"]) for plan in one["plan"])
        for one in read(f"{run}.rounds")
        if one["kind"] == "balance" and one["plan"]
    ]


def plans_of(state: ClusterView, order: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
    seen = state.renumbered(order)
    return sorted(
        (seen.gpid_text(one.row), one.kind.word, seen.nodes[one.source], seen.nodes[one.target])
        for one in balance_round(seen, OPTIONS)
    )


def states_of(run: str) -> list[ClusterView]:
    """The state before every recorded round, and after the last: by an order that explains all."""
    start, _, ports = RUNS[run]
    state = view(read(start), ports)
    found = [state]
    for _ in recorded_plans(run):
        state = apply_plans(state, tuple(balance_round(state, OPTIONS)))
        found.append(state)
    return found


@pytest.mark.parametrize(("run", "left"), [("s1", [8, 8, 8, 8]), ("s2", [10, 5])])
def test_every_recorded_round_leaves_exactly_the_orders_that_explain_it(run, left):
    states, recorded = states_of(run), recorded_plans(run)
    order = NodeOrder.unknown(states[0].nodes)
    counts = []
    for before, after in itertools.pairwise(states):
        found = learned(order, before, after, OPTIONS)
        assert found is not None
        order = found
        counts.append(len(order.orders(200)))
    assert counts == left
    assert order.rounds == len(recorded)
    for one in order.orders(200):
        assert [plans_of(before, one) for before in states[:-1]] == recorded


def test_no_order_that_explains_the_recorded_rounds_is_lost():
    states, recorded = states_of("s1"), recorded_plans("s1")
    order = NodeOrder.unknown(states[0].nodes)
    for before, after in itertools.pairwise(states):
        order = learned(order, before, after, OPTIONS) or pytest.fail("not explained")
    fitting = {
        one
        for one in itertools.permutations(order.nodes)
        if [plans_of(before, one) for before in states[:-1]] == recorded
    }
    assert set(order.orders(200)) == fitting


def test_rounds_between_two_looks_are_explained_together():
    states = states_of("s2")
    found = learned(NodeOrder.unknown(states[0].nodes), states[0], states[-1], OPTIONS)
    assert found is not None
    assert found.rounds == 2
    assert len(found.orders(200)) == 5


def test_a_round_under_way_is_not_explained():
    before, after, *_ = states_of("s2")
    half = after.members.copy()
    half[len(half) // 2 :] = before.members[len(half) // 2 :]
    assert changes_between(before, before.with_members(half, before.member_disks))
    part = before.with_members(half, before.member_disks)
    assert learned(NodeOrder.unknown(before.nodes), before, part, OPTIONS) is None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("nodes", [4, 8, 20])
def test_the_drawn_order_of_a_cluster_is_never_ruled_out(nodes, seed):
    """Rounds of many tables narrow the order down, and never past the true one."""
    named = make_view(6, 24, nodes, disks=1 + seed % 3, seed=seed)
    rng = np.random.default_rng(seed)
    true = [named.nodes[place] for place in rng.permutation(nodes)]
    state = named.renumbered(true)
    order = NodeOrder.unknown(named.nodes)
    for _ in range(4):
        plans = tuple(balance_round(state, OPTIONS))
        after = apply_plans(state, plans)
        if not plans:
            break
        found = learned(order, state, after, OPTIONS)
        assert found is not None
        order, state = found, after
    assert order.rounds
    places = [order.nodes.index(name) for name in true]
    rank = np.argsort(places)
    assert any(
        all(rank[first] < rank[second] for first, second in np.argwhere(one))
        for one in order.partial
    )


def test_twenty_nodes_are_learned_without_trying_orders():
    named = make_view(40, 24, 20, seed=3)
    true = [named.nodes[place] for place in np.random.default_rng(5).permutation(20)]
    state = named.renumbered(true)
    order = NodeOrder.unknown(named.nodes)
    for _ in range(6):
        after = apply_plans(state, tuple(balance_round(state, OPTIONS)))
        order = learned(order, state, after, OPTIONS) or pytest.fail("not explained")
        state = after
    known = max(int(one.sum()) for one in order.partial)
    assert known > 20 * 19 / 2 * 0.5  # of 190 pairs


def test_a_node_that_comes_or_goes_leaves_the_others_where_they_are():
    base = NodeOrder.of_orders([("c:1", "a:1", "b:1")], is_complete=True, rounds=2, unexplained=0)
    assert base.of_nodes(["c:1", "a:1"]).orders(9) == [("c:1", "a:1")]
    wider = base.of_nodes(["a:1", "b:1", "c:1", "d:1"]).orders(9)
    assert len(wider) == 4
    assert all(one.index("c:1") < one.index("a:1") < one.index("b:1") for one in wider)
    many = [f"n{number:02}:1" for number in range(13)]
    known = NodeOrder.of_orders([tuple(many)], is_complete=True, rounds=1, unexplained=0)
    assert not known.of_nodes([*many, "z:1"]).partial[0].any()  # the map moves to more buckets


def test_changes_are_certain_where_all_orders_agree():
    state, *_ = states_of("s2")
    unknown = NodeOrder.unknown(state.nodes)
    plans = likely_plans(state, OPTIONS, unknown.orders(120))
    assert any(one.share < 1 for one in plans)
    sure = {(one.gpid, one.kind.word, one.source, one.target) for one in plans if one.share == 1}
    assert sure < set(recorded_plans("s2")[0])
    some = unknown.sample(24)
    assert len(some) == len(set(some)) == 24
    assert len({one[0] for one in some}) > 1
