"""What holds for the balancer on any cluster, and that the batched search is the plain one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pegasus_plain import Plain
from random_fleets import pegasus_clusters
from sampled import examples

from core.pegasus.balance.max_flow import Imbalance, capacities, widest_paths
from core.pegasus.balance.model import BalanceOptions, PlanKind
from core.pegasus.balance.rounds import BalanceRound, balance_rounds, balance_until_done
from core.pegasus.even.planner import EvenGoal, even_out
from core.pegasus.even.weights import node_loads, rate_weights
from core.pegasus.view import NO_NODE

CLUSTERS = 200


def spread(counts: Any) -> Any:
    """Most minus least per table."""
    return counts.max(axis=1) - counts.min(axis=1)


def check_round(done: BalanceRound) -> None:
    before, after = done.before, done.after
    rows = [plan.row for plan in done.plans]
    assert rows == sorted(set(rows)), "at most one plan a partition, in gpid order"
    for plan in done.plans:
        assert plan.source != plan.target
        held = before.members[plan.row].tolist()
        if plan.kind is PlanKind.COPY_SECONDARY:
            assert plan.source in held[1:]
            assert plan.target not in held
        else:
            assert held[0] == plan.source
            assert (plan.target in held) == (plan.kind is PlanKind.MOVE_PRIMARY)
    assert (after.members[:, 0] != NO_NODE).all(), "one primary"
    for row in after.members.tolist():
        there = [node for node in row if node != NO_NODE]
        assert len(set(there)) == len(there), "no duplicate members"
    held_before = (before.members != NO_NODE).sum(axis=1)
    assert ((after.members != NO_NODE).sum(axis=1) == held_before).all(), "replicas conserved"
    assert ((after.member_disks == NO_NODE) == (after.members == NO_NODE)).all()


@settings(
    max_examples=examples(CLUSTERS),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(pegasus_clusters())
def test_the_app_policy_ends_and_never_makes_a_table_worse(view):
    run = balance_until_done(view, BalanceOptions())
    assert run.is_converged
    for done in run.rounds:
        check_round(done)
        worse = spread(done.after.primary_counts) > spread(done.before.primary_counts)
        kinds = {plan.kind for plan in done.plans}
        assert not worse.any()
        if kinds == {PlanKind.COPY_SECONDARY}:
            assert (spread(done.after.replica_counts) <= spread(done.before.replica_counts)).all()
    assert (spread(run.after.primary_counts) <= 1).all()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pegasus_clusters(), st.booleans())
def test_the_cluster_policy_ends_or_is_noticed_to_go_in_circles(view, is_intended):
    options = BalanceOptions(policy="cluster", intended_skew=is_intended)
    run = balance_until_done(view, options)
    assert len(run.rounds) < 500
    for done in run.rounds:
        check_round(done)
        if any(plan.kind is PlanKind.MOVE_PRIMARY for plan in done.plans):
            assert len({int(view.table_of_row[plan.row]) for plan in done.plans}) == 1
        else:
            assert len(done.plans) <= options.balance_op_count_per_round


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pegasus_clusters())
def test_in_turn_every_round_concerns_one_table_and_ends_as_even(view):
    at_once = balance_until_done(view, BalanceOptions())
    in_turn = balance_until_done(view, BalanceOptions(balancer_in_turn=True))
    assert in_turn.is_converged
    for done in in_turn.rounds:
        check_round(done)
        assert len({int(view.table_of_row[plan.row]) for plan in done.plans}) == 1
    assert (spread(in_turn.after.primary_counts) <= 1).all()
    assert len(in_turn.rounds) >= len(at_once.rounds)


@settings(
    max_examples=examples(CLUSTERS), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(pegasus_clusters())
def test_searching_all_tables_at_once_finds_the_paths_of_the_plain_search(view):
    imbalance = Imbalance.of(view)
    tables = np.arange(view.table_count, dtype=np.int32)
    net = capacities(view, imbalance, tables)
    for table, path in enumerate(widest_paths(net)):
        flow, previous = Plain.search(net[table].tolist())
        assert flow[-1] == (0 if path is None else path.amount)
        if path is not None:
            hops = [0, *(node + 1 for node in path.nodes), len(previous) - 1]
            assert [previous[to] for to in hops[1:]] == hops[:-1]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pegasus_clusters(), st.tuples(*[st.booleans()] * 4), st.sampled_from([0, 1, 3, 10]))
def test_every_round_is_the_one_of_the_plain_description(view, switches, count):
    only_primary, only_move, in_turn, is_check = switches
    app = BalanceOptions("app", only_primary, only_move, in_turn, is_check, count)
    cluster = replace(app, policy="cluster", is_check=False)
    for options in (app, cluster, replace(cluster, intended_skew=is_check)):
        for done in itertools.islice(balance_rounds(view, options), 4):
            plain = Plain(done.before, only_primary, only_move, in_turn, options.is_check, count)
            wanted = (
                plain.app_policy()
                if options.policy == "app"
                else plain.cluster_policy(intended_skew=options.intended_skew)
            )
            told = {
                plan.row: (plan.kind.word, plan.source + 1, plan.target + 1) for plan in done.plans
            }
            assert told == wanted


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pegasus_clusters(),
    st.integers(0, 2**32 - 1),
    st.floats(0.0, 1.0),
    st.sampled_from([0.02, 0.1, 0.5]),
    st.booleans(),
)
def test_evening_out_never_harms_and_never_undercuts_its_bound(view, seed, share, within, is_tight):
    rng = np.random.default_rng(seed)
    rates, sizes_mb = rng.lognormal(2, 1, (2, view.partition_count))
    weights = rate_weights(view, "requests", "1/s", rates, secondary_share=share)
    room_mb = np.full(len(view.nodes), sizes_mb.mean() * 2) if is_tight else None
    plan = even_out(view, weights, EvenGoal(within, sizes_mb=sizes_mb, room_mb=room_mb))
    assert (plan.after**2).sum() <= (plan.before**2).sum() + 1e-6
    assert np.isclose(plan.after.sum(), plan.before.sum())
    assert np.allclose(node_loads(plan.end, weights), plan.after)
    check_round(BalanceRound(view, tuple(sorted(plan.steps, key=lambda one: one.row)), plan.end))
    if room_mb is not None:
        assert (plan.cost.received_mb <= room_mb + 1e-9).all()
    if plan.verdict == "reached":
        assert plan.deviation_after <= within
        assert plan.bound.step_count <= len(plan.steps)
        assert plan.bound.moved_weight <= np.abs(plan.after - plan.before).sum() / 2 + 1e-6
        assert plan.bound.copy_mb is not None
        assert plan.bound.copy_mb <= plan.cost.copy_mb + 1e-6
