"""What comes next for the partitions of a snapshot, and whom a diagnosis recommends."""

from __future__ import annotations

from pegasus_snapshots import NODES, part_row, snapshot_of, table_row, whole

from core.pegasus.balance.model import ConfigType
from core.pegasus.ddd import DddNode, ddd_text, parse_ddd_text
from core.pegasus.guardian import CureStatus
from core.pegasus.outlook import outlooks
from core.pegasus.snapshot import PegasusFacts


def look(part, **more):
    content = whole([part], tables=[table_row(1, "orders", 1)], **more)
    return outlooks(PegasusFacts(snapshot_of(content)), [0])[0]


def former(node, *, alive=True, collected=True, ballot=9, committed=100, prepared=100):
    return DddNode(node, 1_700_000_000_000, alive, collected, ballot, committed, prepared)


def test_whole_partition_needs_nothing():
    one = look(part_row(1, 0, NODES[0], [NODES[1], NODES[2]]))
    assert one.cure.status is CureStatus.HEALTHY
    assert one.cure.action is None


def test_secondary_that_left_and_is_back_gets_its_replica_again():
    one = look(part_row(1, 0, NODES[0], [NODES[1]], last_drops=[NODES[3]]))
    assert one.cure.action.type is ConfigType.ADD_SECONDARY
    assert one.cure.action.node == NODES[3]
    assert one.is_sure


def test_nothing_is_added_while_flow_control_lets_no_addition_through():
    held = {
        "add_secondary_enable_flow_control": "true",
        "add_secondary_max_count_for_one_node": "0",
    }
    part = part_row(1, 0, NODES[0], [NODES[1]], last_drops=[NODES[3]])
    one = look(part, settings=held)
    assert one.cure.action is None
    assert "add_secondary_max_count_for_one_node is 0" in one.cure.reason
    off = look(part, settings=held | {"add_secondary_enable_flow_control": "false"})
    assert off.cure.action.node == NODES[3]
    promoted = look(part_row(1, 0, None, [NODES[3], NODES[1]]), settings=held)
    assert promoted.cure.action.type is ConfigType.UPGRADE_TO_PRIMARY


def test_secondary_that_left_and_is_down_is_waited_for_and_then_replaced():
    one = look(part_row(1, 0, NODES[0], [NODES[1]], last_drops=[NODES[3]]), dead=[NODES[3]])
    assert not one.is_sure
    assert one.cure.action.node == NODES[2]
    assert one.cure.reason.startswith(f"Waits for {NODES[3]}, up to 10 min after it left; then: ")


def test_too_few_replicas_for_writes_are_no_case_for_waiting():
    one = look(part_row(1, 0, NODES[0], last_drops=[NODES[3]]), dead=[NODES[3]])
    assert one.is_sure
    assert one.cure.action.type is ConfigType.ADD_SECONDARY
    assert one.cure.reason.startswith("Writes need 2 replicas; it has 1")


def test_partition_without_primary_promotes_a_living_secondary():
    one = look(part_row(1, 0, None, [NODES[3], NODES[1]]), dead=[NODES[3]])
    assert one.cure.action.type is ConfigType.UPGRADE_TO_PRIMARY
    assert one.cure.action.node == NODES[1]


def test_one_replica_too_many_is_removed():
    one = look(part_row(1, 0, NODES[0], list(NODES[1:])))
    assert one.cure.action.type is ConfigType.REMOVE


def test_nothing_is_sent_while_the_level_in_force_is_freezed():
    one = look(
        part_row(1, 0, None, [NODES[1]]),
        settings={"level.stored": "500", "level.effective": "freezed"},
    )
    assert one.cure.action is None
    assert one.cure.reason.endswith("Not executed at level freezed.")


def test_lost_partition_is_recommended_the_member_that_committed_most():
    dropped = [former(NODES[0], committed=90), former(NODES[1], committed=120, prepared=125)]
    one = look(
        part_row(
            1,
            0,
            None,
            last_drops=[NODES[0], NODES[1]],
            last_committed_decree=100,
            ddd_reason="",
            ddd_dropped=ddd_text(dropped),
        )
    )
    assert one.choice.node == NODES[1]
    assert one.reported_reason == ""
    assert one.dropped == tuple(dropped)
    assert one.cure.status is CureStatus.DEAD
    assert one.cure.action.node == NODES[1]


def test_lost_partition_whose_members_are_not_back_has_nobody():
    dropped = [former(node, alive=False, collected=False) for node in NODES[:2]]
    one = look(
        part_row(1, 0, None, last_drops=list(NODES[:2]), ddd_dropped=ddd_text(dropped)),
        dead=NODES[:2],
    )
    assert one.choice.node is None
    assert one.cure.action is None
    assert "is not back" in one.cure.reason


def test_lost_partition_without_a_diagnosis_says_that_it_has_none():
    one = look(part_row(1, 0, None, last_drops=list(NODES[:2])))
    assert one.choice is None
    assert not one.is_sure
    assert "was not diagnosed" in one.cure.reason


def test_lost_partition_with_a_single_former_member_takes_it_unseen():
    one = look(part_row(1, 0, None, last_drops=[NODES[2]]))
    assert one.cure.action.type is ConfigType.ASSIGN_PRIMARY
    assert one.cure.action.node == NODES[2]


def test_black_listed_node_gets_no_new_secondary():
    one = look(
        part_row(1, 0, NODES[0]), settings={"assign_secondary_black_list": ",".join(NODES[1:3])}
    )
    assert one.cure.action.node == NODES[3]


def test_former_members_survive_being_written():
    dropped = (former(NODES[0]), former(NODES[1], alive=False, ballot=-1))
    assert parse_ddd_text(ddd_text(dropped)) == dropped
    assert parse_ddd_text(None) == ()


def test_nothing_asked_is_nothing_answered():
    assert outlooks(PegasusFacts(snapshot_of(whole())), []) == []
