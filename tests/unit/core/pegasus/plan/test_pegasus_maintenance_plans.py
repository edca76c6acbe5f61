"""Maintenance of Pegasus clusters as plans: what is done, awaited, put back, and refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole
from pegasus_stage import BLACK_LIST, Stage

from core.errors import InputError, UnknownNameError
from core.pegasus.plan.maintenance import (
    drain_plan,
    migrate_plan,
    offline_plan,
    rebalance_plan,
    rolling_update_plan,
)
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.steps.batch import ProposeMany
from core.pegasus.steps.close import CloseReplicas
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.setting import SetServerSetting
from core.pegasus.steps.wait import AwaitState
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.snapshot.pegasus import PegasusSnapshot
from core.systems import STEPS

TERMS = PlanOptions(now=datetime(2026, 11, 21, tzinfo=UTC), reason="a test")
LIVELY = {"level.stored": "500", "level.effective": "lively"}
WIDE = generated(4, 16, 6)
WIDE_NODES = tuple(row["node"] for row in WIDE.tables["nodes"].to_pylist())
NODES_OF_SIX = tuple(f"db{at}:34801" for at in range(1, 7))
Maker = Callable[[PegasusSnapshot], Plan]
OPERATIONS: dict[str, Maker] = {
    "migrate": lambda snapshot: migrate_plan(snapshot, NODES[0], TERMS),
    "drain": lambda snapshot: drain_plan(snapshot, [NODES[0]], TERMS),
    "offline": lambda snapshot: offline_plan(snapshot, [NODES[0]], TERMS),
    "rolling update": lambda snapshot: rolling_update_plan(snapshot, [NODES[0]], TERMS),
    "rebalance": lambda snapshot: rebalance_plan(snapshot, TERMS, only_move_primary=True),
}


def codes(plan: Plan, severity: str) -> set[str]:
    return {item.code for item in plan.diagnostics if item.severity == severity}


def outline(plan: Plan) -> list[str]:
    """Every step in a word or two."""
    words = []
    for step in plan.steps:
        match step:
            case SetMetaLevel():
                words.append(f"level {step.level}")
            case SetServerSetting():
                words.append(f"{step.key.rpartition('.')[2]}={step.value}")
            case ProposeMany():
                words.append(f"{step.verb} {len(step.items)}")
            case CloseReplicas():
                words.append(f"close {len(step.partitions)}")
            case AwaitState():
                words.append(f"await {step.state}")
    return words


class TestSteps:
    def test_migrating_moves_primaries_and_waits(self):
        plan = migrate_plan(snapshot_of(whole()), NODES[0], TERMS)
        assert outline(plan) == ["move_pri 4", "await no_primaries"]
        assert plan.expected.copied_mb == 0.0
        after = {one.node: one.primaries_after for one in plan.expected.nodes}
        assert after[NODES[0]] == 0
        assert max(after.values()) - min(after[name] for name in NODES[1:] if name in after) <= 1

    def test_draining_keeps_the_nodes_out_and_waits_for_every_repair(self):
        plan = drain_plan(snapshot_of(whole(settings=LIVELY)), [NODES[0]], TERMS)
        assert outline(plan) == [
            "level steady",
            "await healthy",
            f"assign_secondary_black_list={NODES[0]}",
            "move_pri 4",
            "await no_primaries",
            "DOWNGRADE_TO_INACTIVE 4",
            "await no_replicas",
            "await healthy",
        ]
        assert codes(plan, "warning") == {"lively_refills"}
        assert plan.expected.copied_mb == 40.0

    @pytest.mark.parametrize("make", [drain_plan, offline_plan])
    def test_replicas_leave_in_batches_with_a_wait_for_every_repair(self, make):
        snapshot = snapshot_of(whole())
        plan = make(snapshot, [NODES[0]], TERMS, max_under_replicated=3)
        words = outline(plan)
        start = words.index("DOWNGRADE_TO_INACTIVE 3")
        assert words[start : start + 4] == [
            "DOWNGRADE_TO_INACTIVE 3",
            "await healthy",
            "DOWNGRADE_TO_INACTIVE 1",
            "await no_replicas",
        ]
        [told] = [one for one in plan.diagnostics if one.code == "batches"]
        assert told.sentence.startswith("At most 3 of ")
        assert "2 batches" in told.sentence
        assert preview_pegasus(snapshot, plan).max_under_replicated == 3

    def test_a_limit_that_lets_nothing_leave_is_refused(self):
        with pytest.raises(InputError, match="no node could leave"):
            drain_plan(snapshot_of(whole()), [NODES[0]], TERMS, max_under_replicated=0)

    def test_a_rolling_update_waits_for_the_operator_between_its_limits(self):
        content = whole()
        content["nodes"][0]["started_at"] = "2026-11-20 08:00:00"
        plan = rolling_update_plan(snapshot_of(content), [NODES[0]], TERMS)
        assert outline(plan) == [
            "assign_delay_ms=180000000",
            "add_secondary_enable_flow_control=true",
            "add_secondary_max_count_for_one_node=0",
            "move_pri 4",
            "await no_primaries",
            "await running",
            "DOWNGRADE_TO_INACTIVE 4",
            "await no_replicas",
            "close 4",
            "await closed",
            "await restarted",
            "add_secondary_max_count_for_one_node=100",
            "await healthy",
        ]
        wait = next(step for step in plan.steps if getattr(step, "state", "") == "restarted")
        assert wait.started_at is None  # a restart that is older than the node's turn is none
        assert wait.within_s is None
        assert "Restart" in wait.reason
        assert preview_pegasus(snapshot_of(content), plan).waits_for_people

    def test_a_limit_that_is_looked_at_already_is_not_switched_on(self):
        told = {"add_secondary_enable_flow_control": "true"}
        plan = rolling_update_plan(snapshot_of(whole(settings=told)), [NODES[0]], TERMS)
        assert not any("flow_control" in word for word in outline(plan))

    def test_a_rolling_update_of_all_nodes_takes_every_living_one_in_turn(self):
        plan = rolling_update_plan(WIDE, [], TERMS)
        awaited = [
            step.node
            for step in plan.steps
            if isinstance(step, AwaitState) and step.state == "restarted"
        ]
        assert awaited == list(WIDE_NODES)
        assert not plan.errored

    def test_going_offline_limits_rates_and_waits_until_the_process_has_gone(self):
        plan = offline_plan(snapshot_of(whole()), [NODES[0]], TERMS, rate_mb_per_s=20)
        assert outline(plan) == [
            "max_copy_rate_megabytes_per_disk=20",
            "max_send_rate_megabytes_per_disk=20",
            f"assign_secondary_black_list={NODES[0]}",
            "assign_delay_ms=10",
            "move_pri 4",
            "await no_primaries",
            "DOWNGRADE_TO_INACTIVE 4",
            "await no_replicas",
            "close 4",
            "await closed",
            "await healthy",
            "await gone",
            "await healthy",
        ]

    def test_where_leaving_would_freeze_the_level_the_share_is_lowered_for_the_run(self):
        told = {"meta.live_percentage": "80"}
        plan = offline_plan(snapshot_of(whole(settings=told)), [NODES[0]], TERMS)
        [share] = [
            step for step in plan.steps if getattr(step, "key", "") == "meta.live_percentage"
        ]
        assert (share.value, share.is_restored) == ("0", True)
        assert "live_percentage_stays" in codes(plan, "warning")

    def test_rebalancing_is_lively_for_its_time_and_waits_until_nothing_is_left(self):
        plan = rebalance_plan(snapshot_of(whole()), TERMS, only_move_primary=True)
        assert outline(plan) == [
            "only_move_primary=true",
            "max_copy_rate_megabytes_per_disk=100",
            "max_send_rate_megabytes_per_disk=100",
            "level lively",
            "await balanced",
        ]

    def test_rebalancing_sets_lively_also_where_it_is_stored_already(self):
        plan = rebalance_plan(snapshot_of(whole(settings=LIVELY)), TERMS)
        [level] = [step for step in plan.steps if isinstance(step, SetMetaLevel)]
        assert (level.before, level.level, level.is_restored) == ("lively", "lively", True)

    def test_rebalancing_tells_that_exclusions_do_not_bind_the_balancer(self):
        terms = PlanOptions(now=TERMS.now, exclusions=["te*"])
        plan = rebalance_plan(snapshot_of(whole()), terms)
        [told] = [one for one in plan.diagnostics if one.code == "exclusions_ignored"]
        assert "temp" in told.sentence
        assert plan.applyable
        assert "exclusions_ignored" not in codes(
            rebalance_plan(snapshot_of(whole()), TERMS), "warning"
        )

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_every_operation_is_a_plan_that_its_file_gives_back_and_puts_settings_back(self, name):
        plan = OPERATIONS[name](snapshot_of(whole()))
        assert plan.applyable, plan.diagnostics
        assert load_plan(dump_plan(plan), STEPS) == plan
        for step in plan.steps:
            if isinstance(step, SetMetaLevel | SetServerSetting):
                assert step.is_restored

    def test_a_black_list_that_was_there_is_kept(self):
        told = {"assign_secondary_black_list": NODES[3]}
        plan = offline_plan(snapshot_of(whole(settings=told)), [NODES[0]], TERMS)
        step = next(step for step in plan.steps if getattr(step, "key", "") == BLACK_LIST)
        assert (step.before, step.value) == (NODES[3], f"{NODES[0]},{NODES[3]}")


class TestPlayed:
    @pytest.mark.parametrize("prefer_last", [True, False])
    @pytest.mark.parametrize("count", [1, 2])
    def test_drained_nodes_end_empty_whatever_the_guardian_chooses(self, count, prefer_last):
        leaving = WIDE_NODES[:count]
        plan = drain_plan(WIDE, leaving, TERMS)
        assert plan.applyable, plan.diagnostics
        stage = Stage(WIDE, prefer_last=prefer_last)
        stage.play(plan)
        for config in stage.configs.values():
            assert not set(config.members) & set(leaving)
            assert config.replica_count == 3
        assert stage.fewest == 2

    def test_where_every_replica_leaves_the_guardian_would_decide_and_the_plan_is_refused(self):
        parts = [part_row(2, 0, NODES_OF_SIX[0], NODES_OF_SIX[1:3])]
        content = whole(parts, tables=[table_row(2, "temp", 1)])
        content["nodes"] = [{"node": name, "is_alive": True} for name in NODES_OF_SIX]
        plan = drain_plan(snapshot_of(content), NODES_OF_SIX[:3], TERMS)
        assert "the guardian's choice" in plan.by_severity("error")[0].sentence
        assert drain_plan(snapshot_of(content), NODES_OF_SIX[:2], TERMS).applyable

    def test_a_rolling_update_ends_with_every_replica_where_it_was(self):
        plan = rolling_update_plan(WIDE, WIDE_NODES[:3], TERMS)
        stage = Stage(WIDE)
        stage.play(plan)
        before = Stage(WIDE).configs
        for gpid, config in stage.configs.items():
            assert set(config.members) == set(before[gpid].members)
        led = [config.primary for config in stage.configs.values()]
        predicted = {one.node: one.primaries_after for one in plan.expected.nodes}
        for node, count in predicted.items():
            assert led.count(node) == count

    def test_what_is_expected_of_nodes_is_what_comes(self):
        plan = migrate_plan(WIDE, WIDE_NODES[0], TERMS)
        stage = Stage(WIDE)
        stage.play(plan)
        led = [config.primary for config in stage.configs.values()]
        for one in plan.expected.nodes:
            assert led.count(one.node) == one.primaries_after


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "change", "code"),
        [
            ("drain", {"dead": [NODES[0]]}, "node_down"),
            ("offline", {"dead": [NODES[3]]}, "unhealthy"),
            ("drain", {"settings": {"level.effective": "freezed"}}, "level_too_low"),
            ("migrate", {"settings": {"level.effective": None}}, "level_unknown"),
            ("rolling update", {"settings": {"level.stored": None}}, "level_unknown"),
        ],
    )
    def test_what_is_not_safe_is_refused(self, name, change: dict[str, Any], code):
        content = whole(**change)
        if change.get("dead") == [NODES[3]]:
            for row in content["partitions"]:
                row["secondaries"] = row["secondaries"][:1]
        assert code in codes(OPERATIONS[name](snapshot_of(content)), "error")

    def test_a_partition_with_only_one_secondary_keeps_it(self):
        parts = [part_row(2, 0, NODES[1], [NODES[0]], max_replica_count=2)]
        content = whole(parts, tables=[table_row(2, "temp", 1, max_replica_count=2)])
        plan = drain_plan(snapshot_of(content), [NODES[0]], TERMS)
        assert "only secondary" in plan.by_severity("error")[0].sentence

    def test_a_primary_without_any_secondary_cannot_leave(self):
        parts = [part_row(2, 0, NODES[0], [], max_replica_count=1)]
        content = whole(parts, tables=[table_row(2, "temp", 1, max_replica_count=1)])
        plan = migrate_plan(snapshot_of(content), NODES[0], TERMS)
        assert "become primary of 2.0" in plan.by_severity("error")[0].sentence

    @pytest.mark.parametrize("name", ["migrate", "drain", "offline", "rolling update"])
    def test_a_table_that_was_not_read_stops_whatever_empties_a_node(self, name):
        content = whole(tables=[table_row(2, "temp", 4), table_row(3, "unread", 8)])
        plan = OPERATIONS[name](snapshot_of(content))
        assert "incomplete_snapshot" in codes(plan, "error")

    def test_many_refusals_are_told_by_number(self):
        parts = [part_row(2, at, NODES[0], [], max_replica_count=1) for at in range(9)]
        content = whole(parts, tables=[table_row(2, "temp", 9, max_replica_count=1)])
        errors = migrate_plan(snapshot_of(content), NODES[0], TERMS).by_severity("error")
        assert len(errors) == 6
        assert errors[-1].sentence.startswith("4 more partitions")

    def test_too_few_nodes_would_be_left(self):
        plan = drain_plan(snapshot_of(whole()), NODES[:2], TERMS)
        assert {"too_few_nodes", "would_freeze"} <= codes(plan, "error")

    def test_an_excluded_table_stops_the_operation(self):
        terms = PlanOptions(now=TERMS.now, exclusions=["temp"])
        plan = drain_plan(snapshot_of(whole()), [NODES[0]], terms)
        assert plan.errored

    def test_a_node_without_primaries_is_nothing_to_do(self):
        plan = migrate_plan(snapshot_of(whole()), NODES[2], TERMS)
        assert plan.steps == ()
        assert codes(plan, "warning") == {"nothing_to_do"}

    def test_names_are_looked_up_before_anything_else(self):
        snapshot = snapshot_of(whole())
        with pytest.raises(UnknownNameError, match="db1"):
            drain_plan(snapshot, ["db1:34802"], TERMS)
        with pytest.raises(InputError, match="twice"):
            drain_plan(snapshot, [NODES[0], NODES[0]], TERMS)
        with pytest.raises(InputError, match="registered"):
            drain_plan(snapshot, ["10.0.0.1:34801"], TERMS)
        with pytest.raises(InputError, match="No node"):
            offline_plan(snapshot, [], TERMS)
        with pytest.raises(InputError, match="4 MiB"):
            rebalance_plan(snapshot, TERMS, rate_mb_per_s=3)

    def test_lively_with_the_cluster_policy_and_single_replicas_is_refused(self):
        content = whole(
            [part_row(2, 0, NODES[0], max_replica_count=1)],
            tables=[table_row(2, "temp", 1, max_replica_count=1)],
            settings={"balance_cluster": "true"},
        )
        assert "kills_meta_server" in codes(rebalance_plan(snapshot_of(content), TERMS), "error")
