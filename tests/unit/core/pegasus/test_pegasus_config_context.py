"""The dropped list of a partition: by changes, by reports, and what recovery makes of it.

The cases of reports have the values of Pegasus' own test ``meta_data.collect_replica``.
"""

from __future__ import annotations

import pytest

from core.pegasus.balance.model import ConfigType, ProposalAction
from core.pegasus.config_context import collect_replica, construct_replica, record_change
from core.pegasus.guardian import GuardedNode, Guardian, GuardianOptions
from core.pegasus.partition import (
    DroppedReplica,
    PartitionConfig,
    PartitionMemory,
    ReplicaEntry,
    ReplicaStatus,
)

EMPTY = PartitionConfig(1, 0, 9, 3, None)
WHOLE = PartitionConfig(1, 0, 9, 3, "a:1", ("b:1", "c:1"))
NOW_MS = 1_800_000_000_000
ADD_D = ProposalAction(ConfigType.ADD_SECONDARY, "a:1", "d:1")


def report(ballot=0, committed=0, prepared=0, status=ReplicaStatus.INACTIVE, disk="ssd1"):
    return ReplicaEntry(1, 0, status, ballot, committed, prepared, disk)


def dropped(*rows):
    return tuple(DroppedReplica(*row) for row in rows)


def short(memory):
    return [one.node for one in memory.dropped]


class TestReports:
    """``collect_replica``: an empty partition keeps four dropped replicas."""

    @pytest.mark.parametrize("node", ["a:1", "b:1"])
    def test_a_member_is_of_use_and_its_disk_is_remembered(self, node):
        memory, is_useful = collect_replica(WHOLE, PartitionMemory(), node, report(10))
        assert is_useful
        assert memory.serving == {node: "ssd1"}
        assert memory.dropped == ()

    def test_one_that_is_known_keeps_its_time_and_gets_its_decrees(self):
        memory = PartitionMemory(dropped=dropped(("n0", 5)))
        memory, is_useful = collect_replica(EMPTY, memory, "n0", report(7, 8, 9))
        assert is_useful
        assert memory.dropped == dropped(("n0", 5, 7, 8, 9))

    @pytest.mark.parametrize(
        ("before", "told", "after"),
        [
            # all with a time, full: a report without one is the oldest
            ([("n0", 5), ("n1", 6), ("n2", 7), ("n3", 8)], (10, 0, 10), None),
            # all with a time, not full
            ([("n0", 5), ("n1", 6), ("n2", 7)], (10, 8, 10), ["n5", "n0", "n1", "n2"]),
            # mixed, full, the least
            ([("n0", 0, 2, 3, 5), ("n1", 0, 2, 4, 5), ("n2", 7), ("n3", 8)], (1, 3, 5), None),
            # mixed, not full, the least
            (
                [("n0", 0, 2, 3, 5), ("n1", 0, 2, 4, 5), ("n2", 7)],
                (1, 3, 5),
                ["n5", "n0", "n1", "n2"],
            ),
            # mixed, full, not the least: the least goes
            (
                [("n0", 0, 2, 2, 6), ("n1", 0, 2, 4, 6), ("n2", 7), ("n3", 8)],
                (2, 3, 6),
                ["n5", "n1", "n2", "n3"],
            ),
            # mixed, not full, not the least
            (
                [("n0", 0, 2, 2, 6), ("n1", 0, 2, 4, 6), ("n2", 7)],
                (3, 1, 6),
                ["n0", "n1", "n5", "n2"],
            ),
            # without times, full: least, in the middle, largest
            (
                [("n0", 0, 2, 2, 8), ("n1", 0, 2, 4, 8), ("n2", 0, 2, 6, 8), ("n3", 0, 4, 2, 8)],
                (1, 7, 10),
                None,
            ),
            (
                [("n0", 0, 2, 2, 8), ("n1", 0, 2, 4, 8), ("n2", 0, 2, 6, 8), ("n3", 0, 4, 2, 8)],
                (3, 6, 8),
                ["n1", "n2", "n5", "n3"],
            ),
            (
                [("n1", 0, 2, 4, 8), ("n2", 0, 2, 6, 8), ("n3", 0, 4, 2, 8), ("n4", 0, 4, 6, 8)],
                (4, 8, 8),
                ["n2", "n3", "n4", "n5"],
            ),
        ],
    )
    def test_the_list_stays_in_order_and_only_the_newest_fit(self, before, told, after):
        memory = PartitionMemory(dropped=dropped(*before), prefered_dropped=0)
        found, is_useful = collect_replica(EMPTY, memory, "n5", report(*told))
        assert is_useful is (after is not None)
        assert short(found) == (after or [row[0] for row in before])
        assert found.prefered_dropped is None

    def test_a_whole_partition_keeps_what_is_reserved_and_no_more(self):
        one, is_useful = collect_replica(WHOLE, PartitionMemory(), "d:1", report(5))
        assert is_useful
        two, is_useful = collect_replica(WHOLE, one, "e:1", report(6))
        assert is_useful
        assert short(two) == ["e:1"]
        none, is_useful = collect_replica(
            WHOLE, PartitionMemory(), "d:1", report(5), max_reserved=0
        )
        assert not is_useful
        assert none.dropped == ()

    def test_a_learner_is_of_use_whatever_the_list_holds(self):
        learning = report(5, status=ReplicaStatus.POTENTIAL_SECONDARY)
        memory, is_useful = collect_replica(
            WHOLE, PartitionMemory(), "d:1", learning, max_reserved=0
        )
        assert is_useful
        assert memory.dropped == ()

    def test_a_learner_that_fails_after_it_learned_is_abnormal_until_it_learns_again(self):
        config = PartitionConfig(1, 0, 9, 3, "a:1", ("b:1",))
        memory = PartitionMemory(pending=(ADD_D,))
        early, _ = collect_replica(config, memory, "d:1", report(5))
        assert not early.is_pending_abnormal  # it may not have begun yet
        learns = report(9, status=ReplicaStatus.POTENTIAL_SECONDARY)
        under_way, _ = collect_replica(config, early, "d:1", learns)
        failed, _ = collect_replica(config, under_way, "d:1", report(9, status=ReplicaStatus.ERROR))
        assert failed.is_pending_abnormal
        guardian = Guardian(
            [GuardedNode(name) for name in ("a:1", "b:1", "d:1")], GuardianOptions(), NOW_MS
        )
        assert guardian.next_cure(config, failed).drops_pending
        again, _ = collect_replica(config, failed, "d:1", learns)
        assert not again.is_pending_abnormal

    def test_a_child_of_a_split_that_is_not_registered_yet_is_not_collected(self):
        child = PartitionConfig(1, 0, -1, 3, None)
        assert collect_replica(child, PartitionMemory(), "a:1", report(5)) == (
            PartitionMemory(),
            False,
        )


class TestChanges:
    """``partition_guardian::reconfig``."""

    def test_who_leaves_is_dropped_last_with_its_time_and_serves_no_more(self):
        after = PartitionConfig(1, 0, 10, 3, "a:1", ("b:1",))
        memory = PartitionMemory(dropped=dropped(("d:1", 0, 5, 5, 5)), serving={"c:1": "ssd1"})
        found = record_change(after, memory, ConfigType.DOWNGRADE_TO_INACTIVE, "c:1", now_ms=NOW_MS)
        assert found.dropped == dropped(("d:1", 0, 5, 5, 5), ("c:1", NOW_MS))
        assert found.serving == {}

    def test_who_joins_is_dropped_no_more_and_the_rest_is_cut_to_the_reserve(self):
        memory = PartitionMemory(dropped=dropped(("d:1", 0, 5), ("e:1", 1), ("c:1", 2)))
        found = record_change(WHOLE, memory, ConfigType.UPGRADE_TO_SECONDARY, "c:1", now_ms=NOW_MS)
        assert short(found) == ["e:1"]
        found = record_change(
            WHOLE, memory, ConfigType.UPGRADE_TO_SECONDARY, "c:1", now_ms=NOW_MS, max_reserved=0
        )
        assert found.dropped == ()

    def test_a_primary_that_becomes_a_secondary_is_not_dropped(self):
        after = PartitionConfig(1, 0, 10, 3, None, ("b:1", "c:1", "a:1"))
        memory = PartitionMemory(dropped=dropped(("d:1", 1)), prefered_dropped=0)
        found = record_change(
            after, memory, ConfigType.DOWNGRADE_TO_SECONDARY, "a:1", now_ms=NOW_MS
        )
        assert found == memory

    def test_any_change_takes_the_first_pending_action_away(self):
        move = (
            ProposalAction(ConfigType.DOWNGRADE_TO_SECONDARY, "a:1", "a:1"),
            ProposalAction(ConfigType.UPGRADE_TO_PRIMARY, "b:1", "b:1"),
        )
        after = PartitionConfig(1, 0, 10, 3, "a:1", ("b:1",))
        memory = PartitionMemory(pending=move, is_pending_abnormal=True)
        found = record_change(after, memory, ConfigType.DOWNGRADE_TO_INACTIVE, "c:1", now_ms=NOW_MS)
        assert found.pending == move[1:]
        assert not found.is_pending_abnormal


class TestSearch:
    """``on_missing_secondary`` over a list that changes and reports have filled."""

    def guardian(self, *alive):
        nodes = [
            # who held it before holds most: only the dropped list names it
            GuardedNode(name, is_alive=name in alive, partition_count=9 * (name == "c:1"))
            for name in ("a:1", "b:1", "c:1", "d:1")
        ]
        return Guardian(nodes, GuardianOptions(assign_delay_ms=1), NOW_MS)

    def test_an_index_out_of_range_begins_at_the_end_again(self):
        """After the last candidate was tried the index is -1; upstream resets it to the end."""
        config = PartitionConfig(1, 0, 9, 3, "a:1", ("b:1",))
        memory = PartitionMemory(dropped=dropped(("c:1", 5)), prefered_dropped=-1)
        told = self.guardian("a:1", "b:1", "c:1", "d:1").next_cure(config, memory)
        assert told.action.node == "c:1"
        assert told.prefered_dropped == -1

    def test_the_next_older_one_is_tried_when_the_newest_does_not_come_back(self):
        config = PartitionConfig(1, 0, 9, 3, "a:1", ("b:1",))
        memory = PartitionMemory(dropped=dropped(("d:1", 0, 5, 5, 5), ("c:1", 7)))
        told = self.guardian("a:1", "b:1", "d:1").next_cure(config, memory)
        assert (told.action.node, told.prefered_dropped) == ("d:1", -1)

    def test_a_new_leader_waits_for_nobody_that_only_a_report_names(self):
        """Reports have no time, so what the former leader waited for is replaced at once."""
        config = PartitionConfig(1, 0, 9, 3, "a:1", ("b:1",), ("c:1",))
        memory, _ = collect_replica(config, PartitionMemory(), "d:1", report(5, 5, 5))
        told = Guardian(
            [GuardedNode(name) for name in ("a:1", "b:1", "c:1", "d:1")],
            GuardianOptions(),
            NOW_MS,
        ).next_cure(config, memory)
        assert told.action == ProposalAction(ConfigType.ADD_SECONDARY, "a:1", "d:1")


class TestRecovery:
    """``construct_replica``."""

    def test_without_a_report_nothing_is_built(self):
        assert construct_replica(EMPTY, PartitionMemory(), 3) is None

    @pytest.mark.parametrize(
        ("nodes", "wanted", "drops"),
        [
            (["n0"], 3, ()),
            (["n0", "n1"], 3, ("n0",)),
            (["n0", "n1", "n2", "n3"], 3, ("n1", "n2")),
            (["n0", "n1", "n2"], 1, ()),
        ],
    )
    def test_the_newest_leads_and_the_ones_before_it_are_the_last_drops(self, nodes, wanted, drops):
        rows = [(node, 0, at + 1, at, at) for at, node in enumerate(nodes)]
        memory = PartitionMemory(dropped=dropped(*rows))
        built, left = construct_replica(EMPTY, memory, wanted)
        assert (built.primary, built.ballot) == (nodes[-1], len(nodes))
        assert (built.secondaries, built.last_drops) == ((), drops)
        assert built.max_replica_count == wanted
        assert short(left) == nodes[:-1]

    def test_reports_of_a_whole_fleet_rebuild_a_partition(self):
        memory = PartitionMemory()
        for node, ballot, committed in (("n0", 4, 90), ("n1", 5, 100), ("n2", 5, 99)):
            memory, is_useful = collect_replica(
                EMPTY, memory, node, report(ballot, committed, committed)
            )
            assert is_useful
        built, _ = construct_replica(EMPTY, memory, 3)
        assert (built.primary, built.last_drops) == ("n1", ("n0", "n2"))
