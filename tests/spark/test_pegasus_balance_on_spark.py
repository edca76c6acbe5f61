"""Rounds of the app policy on Spark are the rounds in process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pegasus_builder import make_view

from core.errors import InputError, PlanConflictError
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.rounds import balance_round, rounds_until_converged
from core.spark.pegasus.balance import SparkRounds
from core.spark.session import SparkOptions, session

SWITCHES = [
    BalanceOptions(),
    BalanceOptions(is_check=True),
    BalanceOptions(is_check=True, only_primary_balancer=True),
    BalanceOptions(balancer_in_turn=True),
    BalanceOptions(only_move_primary=True),
    BalanceOptions(ignored_app_ids=frozenset({1, 7, 40})),
]


@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_a_round_is_the_same(spark, options):
    view = make_view(70, 16, 9, seed=3)
    view = replace(view, is_balanceable=np.arange(70) % 11 != 4)
    plans = SparkRounds(spark).decide(view, options)
    assert plans == balance_round(view, options)
    assert plans


def test_every_round_to_the_balance_is_the_same(spark):
    view = make_view(12, 8, 5, seed=5)
    there = [done.plans for done in SparkRounds(spark).rounds(view, BalanceOptions())]
    here = [done.plans for done in rounds_until_converged(view, BalanceOptions())]
    assert there == here
    assert any(plan.kind.word == "copy_secondary" for plans in here for plan in plans)


def test_an_unknown_disk_gives_the_same_plans_as_in_process(spark):
    view = make_view(3, 4, 4)
    disks = view.member_disks.copy()
    disks[0, 0] = -1
    blind = replace(view, member_disks=disks)
    assert SparkRounds(spark).decide(blind, BalanceOptions()) == balance_round(
        blind, BalanceOptions()
    )


def test_the_cluster_policy_is_refused(spark):
    with pytest.raises(InputError, match="whole cluster"):
        SparkRounds(spark).decide(make_view(3, 4, 4), BalanceOptions(policy="cluster"))


def test_a_process_has_one_session(spark):
    with pytest.raises(PlanConflictError, match="already"):
        session(SparkOptions(master="local[1]"))
