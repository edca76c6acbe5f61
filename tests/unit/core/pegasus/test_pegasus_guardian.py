"""Levels, health and the guardian: each rule of the meta server in one case."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import UnknownNameError
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.ddd import DddNode, recommend_primary
from core.pegasus.guardian import (
    CureStatus,
    GuardedNode,
    Guardian,
    GuardianOptions,
    adds_to_send,
)
from core.pegasus.health import (
    HealthState,
    ListedHealth,
    Membership,
    guardian_healthy,
    health_states,
    min_2pc_count,
    state_counts,
)
from core.pegasus.levels import (
    ALLOWANCES,
    FunctionLevel,
    clears_proposals,
    effective_level,
    level_of,
    parse_level,
)
from core.pegasus.partition import DroppedReplica, PartitionConfig, PartitionMemory
from core.pegasus.verdict import OperationCounts, judge_balance

NOW_MS = 1_800_000_000_000
NODES = tuple(GuardedNode(name) for name in ("a:1", "b:1", "c:1", "d:1"))


def part(primary="a:1", secondaries=("b:1", "c:1"), drops=(), committed=0, wanted=3):
    return PartitionConfig(2, 0, 5, wanted, primary, secondaries, drops, committed)


def act(kind, target, node):
    return ProposalAction(kind, target, node)


def cure(config, memory=None, nodes=NODES, **options):
    guardian = Guardian(nodes, GuardianOptions(**options), NOW_MS)
    return guardian.next_cure(config, memory or PartitionMemory())


def with_nodes(**changes):
    return tuple(GuardedNode(node.name, **changes.get(node.name[0], {})) for node in NODES)


# -- levels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["freezed", "fl_freezed", "FREEZED", " freezed "])
def test_a_level_is_read_in_every_way_the_tools_write_it(text):
    assert parse_level(text) is FunctionLevel.FREEZED


def test_a_level_outside_the_five_is_refused():
    with pytest.raises(UnknownNameError, match="freezed"):
        parse_level("frozen")
    with pytest.raises(UnknownNameError):
        level_of(123)
    assert level_of(500) is FunctionLevel.LIVELY


@pytest.mark.parametrize(
    ("alive", "dead", "share", "level"),
    [
        (2, 0, 65, FunctionLevel.FREEZED),
        (3, 0, 65, FunctionLevel.LIVELY),
        (6, 4, 65, FunctionLevel.FREEZED),
        (6, 4, 50, FunctionLevel.LIVELY),
        (13, 7, 65, FunctionLevel.LIVELY),
    ],
)
def test_too_few_living_nodes_freeze_whatever_is_stored(alive, dead, share, level):
    seen = effective_level(
        FunctionLevel.LIVELY, alive_count=alive, dead_count=dead, live_percentage=share
    )
    assert seen is level


def test_a_stored_level_below_freezed_stays_when_nodes_are_few():
    assert effective_level(FunctionLevel.BLIND, alive_count=0, dead_count=9) is FunctionLevel.BLIND


def test_each_level_allows_no_less_than_the_one_below():
    kinds = [
        "records_dead_primaries",
        "accepts_updates",
        "cures",
        "counts_balance",
        "balances",
        "deletes_replicas",
    ]
    totals = [sum(getattr(ALLOWANCES[level], kind) for kind in kinds) for level in FunctionLevel]
    assert totals == sorted(totals) == [0, 0, 1, 4, 6]
    assert [clears_proposals(level) for level in FunctionLevel] == [True] * 4 + [False]


# -- health -----------------------------------------------------------------------------------


def membership(*rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Membership(
        columns[0].astype(bool),
        columns[1].astype(np.int32),
        columns[2].astype(np.int32),
        np.zeros(len(rows), dtype=np.int32),
    )


CASES = [
    # has primary, secondaries, wanted, state, fully healthy, write unhealthy, read unhealthy
    (0, 0, 3, HealthState.DEAD, 0, 1, 1),
    (0, 2, 3, HealthState.UNREADABLE, 0, 1, 1),
    (1, 0, 3, HealthState.UNWRITABLE, 0, 1, 0),
    (1, 1, 3, HealthState.WRITABLE_ILL, 0, 0, 0),
    (1, 2, 3, HealthState.HEALTHY, 1, 0, 0),
    (1, 3, 3, HealthState.HEALTHY, 1, 0, 0),
    # one wanted replica: listed fully healthy, while writes need two by the default minimum
    (1, 0, 1, HealthState.UNWRITABLE, 1, 0, 0),
]


@pytest.mark.parametrize("case", CASES)
def test_the_five_states_and_the_listed_counting(case):
    one = membership(case[:3])
    assert health_states(one).tolist() == [case[3]]
    listed = ListedHealth.of(one, 1)
    counted = (listed.fully_healthy[0], listed.write_unhealthy[0], listed.read_unhealthy[0])
    assert counted == case[4:]
    assert listed.unhealthy[0] == 1 - case[4]


def test_with_a_minimum_of_three_the_states_and_the_listing_disagree():
    two_of_five = membership((1, 1, 5))
    assert health_states(two_of_five, 0).tolist() == [HealthState.UNWRITABLE]
    assert ListedHealth.of(two_of_five, 1).write_unhealthy[0] == 0


def test_states_are_counted_per_table():
    states = np.array([4, 4, 0], dtype=np.int8)
    counts = state_counts(states, np.array([0, 1, 1], dtype=np.int32), 2)
    assert counts.tolist() == [[0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0]]


@pytest.mark.parametrize(("wanted", "needed"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
def test_without_a_configured_minimum_writes_need_more_than_half(wanted, needed):
    assert min_2pc_count(wanted, 0) == needed


def test_the_guardian_wants_exactly_the_wanted_replicas_and_nothing_pending():
    rows = membership((1, 2, 3), (1, 3, 3), (1, 2, 3), (0, 3, 3))
    pending = np.array([False, False, True, False])
    assert guardian_healthy(rows, pending).tolist() == [True, False, False, False]


# -- balanced or not --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "level", "unhealthy", "is_cluster", "state"),
    [
        (0, FunctionLevel.LIVELY, 0, None, "balanced"),
        (0, FunctionLevel.STEADY, 0, False, "balanced"),
        (0, FunctionLevel.STEADY, 0, True, "unknown"),
        (0, FunctionLevel.STEADY, 0, None, "unknown"),
        (14, FunctionLevel.STEADY, 0, None, "not_balanced"),
        (-1, FunctionLevel.LIVELY, 0, False, "unknown"),
        (0, FunctionLevel.FREEZED, 0, False, "unknown"),
        (0, FunctionLevel.LIVELY, 3, False, "unknown"),
        (0, FunctionLevel.LIVELY, None, False, "unknown"),
    ],
)
def test_what_is_not_known_is_never_called_balanced(total, level, unhealthy, is_cluster, state):
    counts = OperationCounts(total, 0, 0, 0)
    verdict = judge_balance(
        counts, level=level, unhealthy_count=unhealthy, is_cluster_policy=is_cluster
    )
    assert verdict.state == state
    assert verdict.sentence


# -- the guardian -----------------------------------------------------------------------------


def test_a_whole_partition_needs_nothing():
    assert cure(part()).status is CureStatus.HEALTHY


def test_without_a_primary_the_living_secondary_with_fewest_primaries_is_promoted():
    nodes = with_nodes(b={"table_primaries": {2: 3}}, c={"table_primaries": {2: 1}})
    told = cure(part(primary=None), nodes=nodes)
    assert told.action == act(ConfigType.UPGRADE_TO_PRIMARY, "c:1", "c:1")
    dead = with_nodes(b={"is_alive": False}, c={"is_alive": False})
    assert cure(part(primary=None), nodes=dead).status is CureStatus.DEAD


def test_a_new_partition_goes_to_the_node_with_fewest_primaries_of_its_table():
    nodes = with_nodes(a={"table_primaries": {2: 1}}, b={"primary_count": 4})
    told = cure(part(primary=None, secondaries=()), nodes=nodes)
    assert told.action == act(ConfigType.ASSIGN_PRIMARY, "c:1", "c:1")
    assert told.status is CureStatus.ILL


@pytest.mark.parametrize(
    ("held", "options", "memory", "nodes", "wanted"),
    [
        # too few for a write: at once, although the one that left may still come back
        (("b:1",), {"min_2pc_count": 3}, (DroppedReplica("c:1", NOW_MS),), NODES[:2], None),
        (("b:1",), {}, (), NODES, "c:1"),
        (("b:1",), {}, (DroppedReplica("c:1", NOW_MS - 1),), NODES, "c:1"),
        (("b:1",), {}, (DroppedReplica("c:1", 0), DroppedReplica("d:1", 0)), NODES, "d:1"),
        (
            ("b:1",),
            {"black_list": frozenset({"d:1"})},
            (DroppedReplica("d:1", NOW_MS),),
            NODES,
            "c:1",
        ),
        # the black list gives way when nobody else is left
        (
            ("b:1",),
            {"black_list": frozenset({"c:1", "d:1"})},
            (DroppedReplica("d:1", NOW_MS),),
            NODES,
            "d:1",
        ),
    ],
)
def test_who_gets_the_missing_secondary(held, options, memory, nodes, wanted):
    told = cure(part(secondaries=held), PartitionMemory(dropped=memory), nodes, **options)
    assert told.status is CureStatus.ILL
    assert (told.action.node if told.action else None) == wanted


def test_the_guardian_waits_for_the_one_that_left_until_its_delay_is_over():
    gone = with_nodes(c={"is_alive": False})
    memory = PartitionMemory(dropped=(DroppedReplica("c:1", NOW_MS - 1_000),))
    told = cure(part(secondaries=("b:1",)), memory, gone)
    assert told.action is None
    assert "599 s left" in told.reason
    late = cure(part(secondaries=("b:1",)), memory, gone, assign_delay_ms=500)
    assert late.action == act(ConfigType.ADD_SECONDARY, "a:1", "d:1")


def test_one_too_many_is_taken_from_the_node_that_holds_most():
    nodes = with_nodes(b={"partition_count": 5}, c={"partition_count": 9}, d={"partition_count": 9})
    told = cure(part(secondaries=("b:1", "c:1", "d:1")), nodes=nodes)
    assert told.action == act(ConfigType.REMOVE, "a:1", "c:1")


@pytest.mark.parametrize(
    ("action", "is_valid"),
    [
        (act(ConfigType.DOWNGRADE_TO_SECONDARY, "a:1", "a:1"), True),
        (act(ConfigType.DOWNGRADE_TO_SECONDARY, "b:1", "b:1"), False),
        (act(ConfigType.ADD_SECONDARY_FOR_LB, "a:1", "d:1"), True),
        (act(ConfigType.ADD_SECONDARY_FOR_LB, "a:1", "b:1"), False),
        (act(ConfigType.REMOVE, "a:1", "c:1"), True),
        (act(ConfigType.REMOVE, "b:1", "c:1"), False),
        (act(ConfigType.UPGRADE_TO_PRIMARY, "b:1", "b:1"), False),
        (act(ConfigType.UPGRADE_TO_SECONDARY, "a:1", "b:1"), False),
        (act(ConfigType.ADD_SECONDARY, "a:1", "z:1"), False),
    ],
)
def test_a_pending_action_is_sent_while_it_can_be_done_and_dropped_when_not(action, is_valid):
    told = cure(part(), PartitionMemory(pending=(action,)))
    assert told.is_from_pending is is_valid
    assert told.drops_pending is not is_valid
    assert told.action == (action if is_valid else None)


def test_what_a_failed_learner_was_to_do_is_dropped():
    pending = (act(ConfigType.ADD_SECONDARY, "a:1", "d:1"),)
    assert cure(part(), PartitionMemory(pending, is_pending_abnormal=True)).drops_pending


# -- every replica lost -----------------------------------------------------------------------

LOST = part(primary=None, secondaries=(), drops=("a:1", "b:1"), committed=10)


@pytest.mark.parametrize(
    ("second", "latest", "chosen", "words"),
    [
        ((5, 12, 12), (5, 12, 12), "b:1", "newest"),
        ((6, 12, 12), (5, 12, 12), "a:1", "newest"),
        ((5, 13, 14), (5, 12, 14), "a:1", "newest"),
        ((6, 11, 14), (5, 12, 14), None, "inconsistent"),
        ((5, 9, 9), (5, 9, 9), None, "data is missing"),
    ],
)
def test_of_the_last_two_the_newest_data_wins_or_nobody(second, latest, chosen, words):
    memory = PartitionMemory(
        dropped=(DroppedReplica("a:1", 0, *second), DroppedReplica("b:1", 0, *latest))
    )
    told = cure(LOST, memory)
    assert told.status is CureStatus.DEAD
    assert (told.action.node if told.action else None) == chosen
    assert words in told.reason


def test_a_lost_partition_waits_for_both_of_its_last_holders():
    memory = PartitionMemory(dropped=(DroppedReplica("b:1", 0, 5, 12, 12),))
    gone = cure(LOST, memory, with_nodes(a={"is_alive": False}))
    assert "a:1 is not back" in gone.reason
    silent = cure(LOST, memory, with_nodes(a={"has_collected_replicas": False}))
    assert "a:1 is back" in silent.reason
    neither = cure(LOST, PartitionMemory())
    assert "last two" in neither.reason


def test_a_single_former_holder_is_taken_without_a_look():
    alone = part(primary=None, secondaries=(), drops=("z:1",))
    assert cure(alone).action == act(ConfigType.ASSIGN_PRIMARY, "z:1", "z:1")


def ddd_node(name, ballot, committed, *, is_alive=True, is_collected=True):
    return DddNode(name, 0, is_alive, is_collected, ballot, committed, committed)


@pytest.mark.parametrize(
    ("nodes", "chosen"),
    [
        ((ddd_node("a:1", 5, 12), ddd_node("b:1", 5, 12)), "b:1"),
        ((ddd_node("a:1", 5, 13), ddd_node("b:1", 6, 12)), "a:1"),
        ((ddd_node("a:1", 6, 12), ddd_node("b:1", 5, 12)), "a:1"),
        ((ddd_node("a:1", 5, 12), ddd_node("b:1", 5, 12, is_alive=False)), "a:1"),
        ((ddd_node("a:1", 5, 9), ddd_node("b:1", 5, 12, is_collected=False)), None),
        ((ddd_node("a:1", 5, 9), ddd_node("b:1", 5, 8)), None),
        ((), None),
    ],
)
def test_the_diagnosis_recommends_the_most_committed_of_the_last_two(nodes, chosen):
    assert recommend_primary(LOST, nodes).node == chosen


def test_with_one_known_drop_nothing_is_recommended():
    alone = part(primary=None, secondaries=(), drops=("a:1",))
    assert recommend_primary(alone, (ddd_node("a:1", 5, 12),)).node is None


def test_flow_control_sends_the_most_urgent_additions_first():
    lone, ill = part(secondaries=()), part(secondaries=("b:1",))
    wanted = [
        (ill, act(ConfigType.ADD_SECONDARY, "a:1", "c:1")),
        (lone, act(ConfigType.ADD_SECONDARY, "a:1", "c:1")),
        (ill, act(ConfigType.ADD_SECONDARY, "a:1", "d:1")),
    ]
    assert adds_to_send(wanted, most_per_node=1) == [1, 2]
    assert adds_to_send(wanted, most_per_node=None) == [1, 0, 2]
    assert adds_to_send(wanted, most_per_node=0) == []
