"""What holds for the balancer on any cluster, and that the batched search is the plain one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.pegasus.balance.max_flow import Imbalance, capacities, widest_paths
from core.pegasus.balance.model import BalanceOptions, PlanKind
from core.pegasus.balance.rounds import BalanceRound, balance_until_done
from core.pegasus.view import NOBODY, ClusterView

CLUSTERS = 200


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """Whole clusters: uneven tables of different sizes and replica counts, some nodes empty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = draw(st.integers(3, 9))
    disk_count = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(1, 24), min_size=1, max_size=5))
    empty = draw(st.integers(0, nodes - 3))
    wanted = draw(st.integers(1, 3))
    members = np.full((sum(sizes), wanted), NOBODY, dtype=np.int32)
    weights = rng.random(nodes - empty) ** draw(st.sampled_from([0, 2, 6])) + 1e-6
    for row in range(len(members)):
        members[row] = rng.choice(
            nodes - empty, size=wanted, replace=False, p=weights / weights.sum()
        )
    order = rng.permutation(nodes).astype(np.int32)
    members = order[members]
    return ClusterView(
        nodes=tuple(f"10.0.0.{node + 1}:34801" for node in range(nodes)),
        disks=tuple(f"d{disk}" for disk in range(disk_count)),
        app_ids=np.arange(1, len(sizes) + 1, dtype=np.int32),
        app_names=tuple(f"t{table}" for table in range(len(sizes))),
        max_replica_counts=np.full(len(sizes), wanted, dtype=np.int32),
        is_balanceable=np.ones(len(sizes), dtype=np.bool_),
        first_rows=np.cumsum([0, *sizes]).astype(np.int32),
        members=members,
        member_disks=rng.integers(0, disk_count, members.shape).astype(np.int32),
        node_disks=(tuple(range(disk_count)),) * nodes,
    )


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
    assert (after.members[:, 0] != NOBODY).all(), "one primary"
    for row in after.members.tolist():
        there = [node for node in row if node != NOBODY]
        assert len(set(there)) == len(there), "no duplicate members"
    held_before = (before.members != NOBODY).sum(axis=1)
    assert ((after.members != NOBODY).sum(axis=1) == held_before).all(), "replicas conserved"
    assert ((after.member_disks == NOBODY) == (after.members == NOBODY)).all()


@settings(
    max_examples=CLUSTERS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(clusters())
def test_the_app_policy_ends_and_never_makes_a_table_worse(view):
    rounds = balance_until_done(view, BalanceOptions())
    assert len(rounds) < 500
    for done in rounds:
        check_round(done)
        worse = spread(done.after.primary_counts) > spread(done.before.primary_counts)
        kinds = {plan.kind for plan in done.plans}
        assert not worse.any()
        if kinds == {PlanKind.COPY_SECONDARY}:
            assert (spread(done.after.replica_counts) <= spread(done.before.replica_counts)).all()
    end = rounds[-1].after if rounds else view
    assert (spread(end.primary_counts) <= 1).all()
    assert not balance_until_done(end, BalanceOptions())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.booleans())
def test_the_cluster_policy_ends_with_the_totals_even(view, is_intended):
    options = BalanceOptions(policy="cluster", intended_skew=is_intended)
    rounds = balance_until_done(view, options)
    assert len(rounds) < 500
    for done in rounds:
        check_round(done)
        if any(plan.kind is PlanKind.MOVE_PRIMARY for plan in done.plans):
            assert len({int(view.table_of_row[plan.row]) for plan in done.plans}) == 1
        else:
            assert len(done.plans) <= options.balance_op_count_per_round


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_one_table_a_round_reaches_what_all_at_once_reach(view):
    at_once = balance_until_done(view, BalanceOptions(only_move_primary=True))
    in_turn = balance_until_done(
        view, BalanceOptions(only_move_primary=True, balancer_in_turn=True)
    )
    for rounds in (at_once, in_turn):
        for done in rounds:
            check_round(done)
    for done in in_turn:
        assert len({int(view.table_of_row[plan.row]) for plan in done.plans}) == 1


def plain_search(net: list[list[int]]) -> tuple[list[int], int] | None:
    """The search as it is written down for one table, with nothing done at once."""
    size = len(net)
    width, previous, is_open = [0] * size, [-1] * size, [True] * size
    width[0] = 2**31 - 1
    while is_open[-1]:
        best = max((width[at] for at in range(size) if is_open[at]), default=0)
        if best <= 0:
            return None
        at = next(one for one in range(size) if is_open[one] and width[one] == best)
        is_open[at] = False
        for to in range(size):
            reach = min(width[at], net[at][to])
            if is_open[to] and reach > width[to]:
                width[to], previous[to] = reach, at
    nodes, at = [], previous[-1]
    while at > 0:
        nodes.append(at - 1)
        at = previous[at]
    return nodes[::-1], width[-1]


@settings(max_examples=CLUSTERS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_searching_all_tables_at_once_finds_the_paths_of_the_plain_search(view):
    imbalance = Imbalance.of(view)
    tables = np.arange(view.table_count, dtype=np.int32)
    net = capacities(view, imbalance, tables)
    for table, path in enumerate(widest_paths(net)):
        wanted = plain_search(net[table].tolist())
        found = None if path is None else (list(path.nodes), path.amount)
        assert found == wanted
