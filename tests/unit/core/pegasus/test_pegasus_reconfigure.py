"""What became of proposals that were really sent, and guardians that bring partitions back."""

from __future__ import annotations

import json

import pytest
from places import FIXTURES

from core.errors import InputError
from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.guardian import CureStatus, GuardedNode, Guardian, GuardianOptions
from core.pegasus.partition import DroppedReplica, PartitionConfig, PartitionMemory
from core.pegasus.reconfigure import apply_action, projected_configs, reconcile

RECORDED = FIXTURES / "pegasus" / "thft" / "propose"
SENT = {
    name: one
    for file in ("log_hp", "log_nonmember", "log_freezed")
    for name, one in json.loads((RECORDED / f"{file}.json").read_text()).items()
    if one["actions"]
}


def config(seen, index=0):
    ballot, primary, secondaries, drops = seen
    return PartitionConfig(4, index, ballot, 3, primary, tuple(secondaries), tuple(drops))


def actions(one):
    return [ProposalAction(ConfigType[kind], target, node) for target, node, kind in one["actions"]]


@pytest.mark.parametrize("name", [name for name, one in SENT.items() if one["changes"]])
def test_every_state_that_was_seen_is_on_the_way_or_told_as_otherwise(name):
    one = SENT[name]
    before = config(one["before"])
    configs = projected_configs(before, actions(one))
    seen = [config(state) for _, state in one["changes"]]
    if name == "rel_move_nonmember":
        told = reconcile(before, actions(one), seen[-1])
        assert told.state == "otherwise"
        assert "primary 127.0.0.1:34802" in told.sentence
        return
    assert all(state in configs for state in seen)
    assert reconcile(before, actions(one), seen[-1]).state == "done"
    for state in seen[:-1]:
        assert reconcile(before, actions(one), state).state == "under_way"


@pytest.mark.parametrize("name", [name for name, one in SENT.items() if not one["changes"]])
def test_what_was_accepted_and_never_happened_is_told(name):
    before = config(SENT[name]["before"])
    assert SENT[name]["reply"]["err"] == "ERR_OK"
    assert reconcile(before, actions(SENT[name]), before).state == "not_begun"


def test_a_change_that_came_in_between_does_not_hide_that_it_is_done():
    one = SENT["rel_move_hp"]
    before = config(one["before"])
    ballot, *rest = one["changes"][-1][1]
    told = reconcile(before, actions(one), config([ballot + 2, *rest]))
    assert told.state == "done"
    assert "2 more changes" in told.sentence


def test_a_change_of_no_role_cannot_be_followed():
    with pytest.raises(InputError, match="DROP_PARTITION"):
        apply_action(
            config([1, "a:1", [], []]), ProposalAction(ConfigType.DROP_PARTITION, "a:1", "a:1")
        )


NAMES = tuple(f"n{number}:1" for number in range(5))


@pytest.mark.parametrize(
    ("primary", "secondaries", "drops", "steps"),
    [
        (None, ("n1:1", "n2:1"), ("n0:1",), 2),
        ("n0:1", (), ("n1:1", "n2:1"), 2),
        ("n0:1", ("n1:1", "n2:1", "n3:1"), (), 1),
        (None, (), (), 3),
        (None, (), ("n4:1",), 3),
    ],
)
def test_the_guardian_brings_a_partition_back_one_change_a_tick(primary, secondaries, drops, steps):
    state = PartitionConfig(1, 0, 7, 3, primary, secondaries, drops)
    memory = PartitionMemory(dropped=tuple(DroppedReplica(node) for node in drops))
    guardian = Guardian([GuardedNode(name) for name in NAMES], GuardianOptions(), 10**12)
    taken = 0
    while (cure := guardian.next_cure(state, memory)).status is not CureStatus.HEALTHY:
        assert cure.action is not None
        assert cure.reason
        state = apply_action(state, cure.action)
        memory = PartitionMemory(
            dropped=tuple(one for one in memory.dropped if one.node not in state.members)
        )
        taken += 1
        assert taken < 10
    assert taken == steps
    assert state.ballot == 7 + steps
    assert len(set(state.members)) == 3
