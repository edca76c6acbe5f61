"""Evening out the cluster as a whole: fewer steps than nodes could do without, room on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pegasus_builder import make_view

from core.errors import InputError
from core.pegasus.balance.model import BalanceOptions, PlanKind
from core.pegasus.balance.rounds import balance_until_done
from core.pegasus.even.cost import copy_cost
from core.pegasus.even.planner import EvenGoal, deviation, even_out, lower_bound
from core.pegasus.even.weights import (
    disk_weights,
    node_loads,
    primary_weights,
    rate_weights,
    replica_weights,
)
from core.pegasus.view import NO_NODE

VIEW = make_view(20, 32, 12, seed=4)
RNG = np.random.default_rng(4)
SIZES_MB = RNG.lognormal(7, 1, VIEW.partition_count)
RATES = RNG.lognormal(3, 1.5, VIEW.partition_count)
MEASURES = {
    "replicas": replica_weights(VIEW),
    "primaries": primary_weights(VIEW),
    "disk": disk_weights(VIEW, SIZES_MB),
    "reads": rate_weights(VIEW, "reads", "requests/s", RATES),
    "writes": rate_weights(VIEW, "writes", "requests/s", RATES, secondary_share=1.0),
    "mixed": rate_weights(VIEW, "mixed", "requests/s", RATES, secondary_share=0.3),
}


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_brought_within_the_goal_and_never_below_its_bound(name):
    weights = MEASURES[name]
    plan = even_out(VIEW, weights, EvenGoal(within=0.05, sizes_mb=SIZES_MB))
    assert plan.verdict == "reached"
    assert plan.deviation_after <= 0.05 < plan.deviation_before
    assert node_loads(plan.end, weights) == pytest.approx(plan.after)
    assert plan.after.sum() == pytest.approx(plan.before.sum())
    moved = np.abs(plan.after - plan.before).sum() / 2
    assert plan.bound.moved_weight <= moved + 1e-6
    assert plan.bound.step_count <= len(plan.steps)
    assert plan.bound.copy_mb is not None
    assert plan.bound.copy_mb <= plan.cost.copy_mb + 1e-6
    rows = [step.row for step in plan.steps]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("name", ["replicas", "primaries", "mixed"])
def test_a_node_that_does_not_answer_is_given_nothing(name):
    loads = node_loads(VIEW, MEASURES[name])
    emptiest = int(loads.argmin())
    goal = EvenGoal(sizes_mb=SIZES_MB)
    assert emptiest in {step.target for step in even_out(VIEW, MEASURES[name], goal).steps}
    without = replace(goal, suspected=[VIEW.nodes[emptiest]])
    plan = even_out(VIEW, MEASURES[name], without)
    assert plan.steps
    assert emptiest not in {step.target for step in plan.steps}


def test_what_only_primaries_carry_is_evened_out_without_a_copy():
    for name in ("primaries", "reads"):
        plan = even_out(VIEW, MEASURES[name], EvenGoal(sizes_mb=SIZES_MB))
        assert {step.kind for step in plan.steps} == {PlanKind.MOVE_PRIMARY}
        assert plan.cost.copy_mb == 0.0


def test_members_stay_different_and_as_many():
    end = even_out(VIEW, MEASURES["disk"], EvenGoal(sizes_mb=SIZES_MB)).end
    for row in end.members.tolist():
        assert NO_NODE not in row
        assert len(set(row)) == 3


def test_no_node_takes_more_than_it_has_room_for():
    room_mb = np.full(12, 3_000.0)
    goal = EvenGoal(within=0.01, sizes_mb=SIZES_MB, room_mb=room_mb)
    plan = even_out(VIEW, MEASURES["disk"], goal)
    assert plan.steps
    assert (plan.cost.received_mb <= room_mb).all()
    assert plan.verdict == "best_effort"


def test_without_sizes_nothing_is_copied_where_room_is_limited():
    goal = EvenGoal(room_mb=np.full(12, 1e9))
    assert not even_out(VIEW, MEASURES["replicas"], goal).steps
    assert even_out(VIEW, MEASURES["replicas"], EvenGoal(may_copy=False)).verdict == "best_effort"


def test_a_budget_stops_the_search_and_more_of_it_never_harms():
    reached = [
        even_out(VIEW, MEASURES["disk"], EvenGoal(sizes_mb=SIZES_MB, max_steps=limit))
        for limit in (0, 5, 12)
    ]
    assert [len(plan.steps) for plan in reached] == [0, 5, 12]
    squares = [float((plan.after**2).sum()) for plan in reached]
    assert squares == sorted(squares, reverse=True)


def test_partitions_of_unknown_weight_stay():
    rates = RATES.copy()
    rates[::2] = np.nan
    plan = even_out(VIEW, rate_weights(VIEW, "reads", "1/s", rates), EvenGoal())
    assert plan.unknown_count == VIEW.partition_count // 2
    assert all(step.row % 2 for step in plan.steps)


def test_nothing_known_is_unknown_and_an_even_cluster_needs_nothing():
    silent = rate_weights(VIEW, "reads", "1/s", np.full(VIEW.partition_count, np.nan))
    assert even_out(VIEW, silent, EvenGoal()).verdict == "unknown"
    even = even_out(VIEW, MEASURES["primaries"], EvenGoal(within=10.0))
    assert even.verdict == "nothing_to_do"


def test_a_table_that_must_stay_is_not_touched():
    is_balanceable = np.ones(20, dtype=np.bool_)
    is_balanceable[3] = False
    plan = even_out(replace(VIEW, is_balanceable=is_balanceable), MEASURES["primaries"], EvenGoal())
    assert all(VIEW.table_of_row[step.row] != 3 for step in plan.steps)


def test_the_meta_servers_own_balance_leaves_the_cluster_more_uneven_than_ours():
    theirs = balance_until_done(VIEW, BalanceOptions()).after
    ours = even_out(VIEW, MEASURES["primaries"], EvenGoal(within=0.02)).end
    weights = primary_weights(VIEW)
    assert deviation(node_loads(ours, weights)) < deviation(node_loads(theirs, weights))


def test_copying_takes_between_the_busiest_node_and_one_copy_after_the_other():
    plan = even_out(VIEW, MEASURES["disk"], EvenGoal(sizes_mb=SIZES_MB))
    shortest_s, longest_s = plan.cost.time(50.0, 1)
    assert 0 < shortest_s <= longest_s
    assert longest_s == pytest.approx(plan.cost.copy_mb / 50)
    on_three_disks = plan.cost.time(50.0, 3)
    assert on_three_disks.longest_s == longest_s
    assert plan.cost.largest_mb / 50 <= on_three_disks.shortest_s <= shortest_s
    unknown = copy_cost(VIEW, plan.steps, np.full(VIEW.partition_count, np.nan))
    assert unknown.unknown_count == unknown.copy_count == plan.cost.copy_count
    assert lower_bound(VIEW, MEASURES["disk"], 0.05, np.full(640, np.nan)).copy_mb is None


def test_a_node_that_lacks_counts_where_no_node_has_too_much():
    ones = np.ones(VIEW.partition_count)
    state = even_out(VIEW, MEASURES["primaries"], EvenGoal(within=0.05)).end
    loads = node_loads(state, MEASURES["primaries"])
    least = int(loads.argmin())
    leads = state.members[:, 0] == least
    light = primary_weights(state)
    weights = replace(light, primary=np.where(leads, 0.5, ones))
    carried = node_loads(state, weights)
    over, under = carried.max() / carried.mean() - 1, 1 - carried.min() / carried.mean()
    within = (over + under) / 2
    assert over < within < under
    assert lower_bound(state, weights, within, SIZES_MB).step_count >= 1


def test_a_secondary_heavier_than_its_primary_is_refused():
    with pytest.raises(InputError, match="heavier"):
        rate_weights(VIEW, "odd", "1/s", RATES, secondary_share=2.0)
    with pytest.raises(InputError, match="3 numbers"):
        disk_weights(VIEW, np.ones(3))


def test_steps_that_lower_the_max_deviation_no_further_are_left_out_and_said():
    room_mb = np.full(12, 3_000.0)
    goal = EvenGoal(within=0.001, sizes_mb=SIZES_MB, room_mb=room_mb)
    plan = even_out(VIEW, MEASURES["disk"], goal)
    whole = even_out(VIEW, MEASURES["disk"], replace(goal, keeps_all=True))
    rest = len(whole.steps) - len(plan.steps)
    assert rest > 1
    assert plan.steps == whole.steps[: len(plan.steps)]
    assert plan.deviation_after == pytest.approx(whole.deviation_after, abs=5e-4)
    assert plan.rest_gain == whole.rest_gain
    assert plan.rest_gain.startswith(f"The other {rest} (")
    assert "would lower the mean deviation from" in plan.rest_gain
    assert plan.deviation_after == pytest.approx(deviation(plan.after))
