"""Plans for Pegasus clusters: levels, moves, changes, settings, and their preview."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain

import pytest
from pegasus_snapshots import NODES, generated, part_row, snapshot_of, table_row, whole

from core.errors import InputError, UnknownNameError
from core.pegasus.balance.rounds import balance_rounds
from core.pegasus.plan.build import (
    RequestedMove,
    balance_plan,
    change_plan,
    level_plan,
    moves_plan,
    setting_plan,
)
from core.pegasus.plan.maintenance import drain_plan, rebalance_plan
from core.pegasus.plan.preview import preview_pegasus
from core.pegasus.plan.verify import recheck
from core.pegasus.reconfigure import projected_configs
from core.pegasus.server_settings import CHANGEABLE, changeable, desired_value, value_before
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.level import SetMetaLevel
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.setting import SetServerSetting
from core.plan.codec import dump_plan, load_plan
from core.plan.model import Plan
from core.plan.options import PlanOptions
from core.systems import STEPS

TERMS = PlanOptions(now=datetime(2026, 11, 21, tzinfo=UTC), reason="a test")
LIVELY = {"level.stored": "500", "level.effective": "lively"}
COPY_RATE = "nfs.max_copy_rate_megabytes_per_disk"


def codes(plan: Plan, severity: str) -> set[str]:
    return {item.code for item in plan.diagnostics if item.severity == severity}


def only(plan: Plan, kind: type) -> list:
    return [step for step in plan.steps if isinstance(step, kind)]


class TestLevel:
    @pytest.mark.parametrize(
        ("stored", "level", "warnings"),
        [
            ("400", "lively", set()),
            ("500", "steady", set()),
            ("400", "steady", {"already_set"}),
            ("400", "freezed", {"no_repairs"}),
            ("400", "blind", {"no_repairs"}),
        ],
    )
    def test_a_level_is_set_with_what_it_costs(self, stored, level, warnings):
        effective = {"400": "steady", "500": "lively"}[stored]
        snapshot = snapshot_of(
            whole(settings={"level.stored": stored, "level.effective": effective})
        )
        plan = level_plan(snapshot, level, TERMS)
        assert [(step.before, step.level) for step in plan.steps] == [(effective, level)]
        assert codes(plan, "warning") == warnings
        told = [one.sentence for one in plan.by_severity("info") if one.code == "clears_pending"]
        assert len(told) == (level != "lively")
        assert not any("partition" in one for one in told)  # every one is healthy
        assert plan.applyable
        assert load_plan(dump_plan(plan), STEPS) == plan

    def test_a_level_that_is_there_already_and_clears_nothing_has_no_step(self):
        plan = level_plan(snapshot_of(whole(settings=LIVELY)), "lively", TERMS)
        assert plan.steps == ()
        assert not plan.applyable

    def test_an_unknown_stored_level_cannot_be_put_back_and_is_refused(self):
        plan = level_plan(snapshot_of(whole(settings={"level.stored": None})), "lively", TERMS)
        assert codes(plan, "error") == {"level_unknown"}

    def test_a_sixth_level_is_not_known(self):
        with pytest.raises(UnknownNameError, match="freezed"):
            level_plan(snapshot_of(whole()), "frozen", TERMS)

    def test_lively_waits_for_unhealthy_partitions_and_says_so(self):
        parts = [part_row(2, 0, NODES[0], [NODES[1]])]
        content = whole(parts, tables=[table_row(2, "temp", 1)])
        assert "balance_waits" in codes(
            level_plan(snapshot_of(content), "lively", TERMS), "warning"
        )

    def test_a_split_in_progress_refuses_changes_of_members_and_holds_up_balancing(self):
        parts = [part_row(2, at, NODES[0], [NODES[1], NODES[2]]) for at in range(4)]
        children = [part_row(2, at, None, ballot=-1) for at in range(4, 8)]
        split = snapshot_of(whole([*parts, *children], tables=[table_row(2, "temp", 8)]))
        requested = [RequestedMove("2.0", "move_pri", NODES[0], NODES[1])]
        plans = [
            moves_plan(split, requested, TERMS),
            change_plan(split, "2.0", "DOWNGRADE_TO_INACTIVE", NODES[1], TERMS),
            drain_plan(split, [NODES[0]], TERMS),
        ]
        for plan in plans:
            found = [one.sentence for one in plan.diagnostics if one.code == "table_splitting"]
            assert len(found) == 1
            assert found[0].startswith("temp: a partition split is in progress, 4 child partitions")
            assert not plan.applyable
        for plan in (level_plan(split, "lively", TERMS), rebalance_plan(split, TERMS)):
            found = [one.sentence for one in plan.diagnostics if one.code == "balance_waits"]
            expected = "a partition split is over: 4 child partitions remaining."
            assert found == [f"Balancing waits until {expected}"]

    def test_lively_with_the_cluster_policy_and_single_replicas_would_kill_the_meta_server(self):
        content = whole(
            [part_row(2, 0, NODES[0], max_replica_count=1)],
            tables=[table_row(2, "temp", 1, max_replica_count=1)],
            settings={"balance_cluster": "true"},
        )
        plan = level_plan(snapshot_of(content), "lively", TERMS)
        assert codes(plan, "error") == {"kills_meta_server"}


class TestMoves:
    def test_a_later_move_of_a_partition_builds_on_the_earlier_one(self):
        asked = [
            RequestedMove("2.0", "move_pri", NODES[0], NODES[1]),
            RequestedMove("2.0", "copy_pri", NODES[1], NODES[2]),
        ]
        plan = moves_plan(snapshot_of(whole()), asked, TERMS)
        first, second = only(plan, MoveReplica)
        assert second.partition.primary == NODES[1]
        assert second.partition.ballot == first.partition.ballot + 2
        assert (first.size_mb, second.size_mb) == (0.0, 10.0)
        assert plan.expected.copied_mb == 10.0
        by_node = {one.node: one for one in plan.expected.nodes}
        assert by_node[NODES[0]].primaries_after == by_node[NODES[0]].primaries_before - 1
        assert by_node[NODES[2]].received_mb == 10.0
        assert plan.complete
        assert recheck(snapshot_of(whole()), plan) == {}

    @pytest.mark.parametrize(
        ("asked", "word"),
        [
            (RequestedMove("2.0", "move_pri", NODES[0], NODES[2]), "has no secondary"),
            (RequestedMove("2.0", "move_pri", NODES[1], NODES[3]), "is not its primary"),
            (RequestedMove("2.0", "copy_pri", NODES[0], NODES[1]), "crash that server"),
            (RequestedMove("2.0", "copy_sec", NODES[1], "db9:34801"), "not the registered name"),
            (RequestedMove("2.9", "move_pri", NODES[0], NODES[1]), "No partition named"),
            (RequestedMove("2.0", "move_pri", "10.0.0.1:34801", NODES[1]), "registered name"),
        ],
    )
    def test_what_would_harm_is_refused_with_the_reason(self, asked, word):
        plan = moves_plan(snapshot_of(whole()), [asked], TERMS)
        assert plan.errored
        assert not plan.steps
        assert word in plan.by_severity("error")[0].sentence

    def test_at_lively_the_balancer_may_clash_unless_the_run_holds_steady(self):
        snapshot = snapshot_of(whole(settings=LIVELY))
        asked = [RequestedMove("2.0", "move_pri", NODES[0], NODES[1])]
        assert "balancer_may_clash" in codes(moves_plan(snapshot, asked, TERMS), "warning")
        held = moves_plan(snapshot, asked, TERMS, keep_level=True)
        assert codes(held, "warning") == set()
        assert held.steps[0] == SetMetaLevel(
            before="lively", level="steady", is_restored=True, reason="a test"
        )

    def test_while_the_level_is_frozen_nothing_is_proposed(self):
        snapshot = snapshot_of(whole(settings={"level.effective": "freezed"}))
        asked = [RequestedMove("2.0", "move_pri", NODES[0], NODES[1])]
        assert "level_too_low" in codes(moves_plan(snapshot, asked, TERMS), "error")

    def test_an_excluded_table_is_left_alone(self):
        terms = PlanOptions(now=TERMS.now, exclusions=["te*"])
        asked = [RequestedMove("2.0", "move_pri", NODES[0], NODES[1])]
        plan = moves_plan(snapshot_of(whole()), asked, terms)
        assert "excluded" in plan.by_severity("error")[0].sentence

    @pytest.mark.parametrize(
        ("available_mb", "code", "severity"),
        [(5, "no_room", "error"), (60, "little_room", "warning"), (900, "copies", "info")],
    )
    def test_a_copy_needs_room_before_the_old_replica_goes(self, available_mb, code, severity):
        content = whole()
        for row in content["disks"]:
            row["available_mb"] = available_mb
        asked = [RequestedMove("2.0", "copy_pri", NODES[0], NODES[2])]
        assert code in codes(moves_plan(snapshot_of(content), asked, TERMS), severity)

    def test_an_unknown_size_stays_unknown(self):
        content = whole()
        for row in content["replicas"]:
            row["size_mb"] = None
        asked = [RequestedMove("2.0", "copy_sec", NODES[1], NODES[2])]
        plan = moves_plan(snapshot_of(content), asked, TERMS)
        assert plan.expected.copied_mb is None
        assert only(plan, MoveReplica)[0].size_mb is None
        assert "room_unknown" in codes(plan, "warning")

    def test_no_move_is_no_plan(self):
        with pytest.raises(InputError, match="No partition"):
            moves_plan(snapshot_of(whole()), [], TERMS)


class TestRounds:
    def test_rounds_to_convergence_become_one_plan_that_leads_to_the_same_end(self):
        snapshot = generated(4, 16, 6)
        facts = PegasusFacts(snapshot)
        options, _ = facts.options()
        rounds = []
        for done in balance_rounds(facts.view(), options):
            if not done.plans:
                break
            rounds.append(done)
        plans = list(chain.from_iterable(done.plans for done in rounds))
        plan = balance_plan(snapshot, facts.view(), plans, TERMS)
        assert not plan.errored
        assert len(only(plan, MoveReplica)) == len(plans)
        end = rounds[-1].after
        led = end.primary_counts.sum(axis=0)
        for one in plan.expected.nodes:
            assert one.primaries_after == led[end.nodes.index(one.node)]


class TestChanges:
    def test_a_safe_change_is_planned_and_says_that_the_guardian_refills(self):
        plan = change_plan(snapshot_of(whole()), "2.0", "DOWNGRADE_TO_INACTIVE", NODES[1], TERMS)
        assert plan.applyable
        assert codes(plan, "warning") == {"guardian_refills"}

    @pytest.mark.parametrize(
        ("change", "node"),
        [
            ("ADD_SECONDARY", NODES[0]),
            ("ADD_SECONDARY", NODES[2]),
            ("DOWNGRADE_TO_INACTIVE", NODES[0]),
            ("ASSIGN_PRIMARY", NODES[1]),
            ("REMOVE", NODES[2]),
        ],
    )
    def test_an_unsafe_change_is_refused(self, change, node):
        assert change_plan(snapshot_of(whole()), "2.0", change, node, TERMS).errored


class TestSettings:
    def test_every_setting_takes_its_own_default_and_knows_what_it_means(self):
        for one in CHANGEABLE:
            assert desired_value(one, one.setting.default) == one.setting.default
            assert one.setting.meaning

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (COPY_RATE, "3"),
            (COPY_RATE, "fast"),
            ("meta.live_percentage", "101"),
            ("meta.lb.only_move_primary", "yes"),
            ("min_live_node_count_for_unfreeze", "0"),
            ("lb_interval_ms", "1000"),
        ],
    )
    def test_a_value_that_the_server_refuses_or_cannot_take_is_refused_before(self, key, value):
        with pytest.raises(InputError):
            setting_plan(snapshot_of(whole()), key, value, TERMS)

    @pytest.mark.parametrize(
        ("key", "text", "value"),
        [
            ("meta.lb.assign_secondary_black_list", "b:2,a:10,b:1,b:2", "a:10,b:1,b:2"),
            ("meta.lb.assign_secondary_black_list", "clear", ""),
            ("meta.lb.ignored_app_list", "10,9", "9,10"),
            ("meta.lb.assign_delay_ms", "007", "7"),
        ],
    )
    def test_a_value_is_written_as_the_server_tells_it_afterwards(self, key, text, value):
        assert desired_value(changeable(key), text) == value

    def test_a_name_that_nobody_has_brings_near_ones(self):
        with pytest.raises(UnknownNameError, match="only_move_primary"):
            setting_plan(snapshot_of(whole()), "meta.lb.only_move_primry", "true", TERMS)

    def test_a_setting_is_changed_from_what_it_was(self):
        plan = setting_plan(snapshot_of(whole()), "only_move_primary", "TRUE", TERMS)
        assert plan.steps == (
            SetServerSetting(
                key="meta.lb.only_move_primary", before="false", value="true", reason="a test"
            ),
        )

    def test_what_is_so_already_is_not_set_again(self):
        plan = setting_plan(snapshot_of(whole()), "only_move_primary", "false", TERMS)
        assert plan.steps == ()
        assert codes(plan, "warning") == {"already_set"}

    def test_nodes_that_differ_are_put_back_each_to_its_own(self):
        content = whole()
        content["nodes"][1]["copy_rate_mb_per_s"] = 200.0
        facts = PegasusFacts(snapshot_of(content))
        before = value_before(changeable(COPY_RATE), facts)
        assert before == (
            '{"db1:34801": "0", "db2:34801": "200", "db3:34801": "0", "db4:34801": "0"}'
        )
        assert value_before(changeable(COPY_RATE), facts, NODES[1]) == "200"

    @pytest.mark.parametrize(
        ("key", "value", "settings", "code", "severity"),
        [
            ("meta.lb.ignored_app_list", "2", {"balance_cluster": "true"}, "not_consulted", "w"),
            ("meta.lb.ignored_app_list", "77", {}, "table_unknown", "w"),
            ("meta.lb.assign_secondary_black_list", "10.0.0.1:34801", {}, "node_unknown", "e"),
            ("min_live_node_count_for_unfreeze", "5", {}, "would_freeze", "e"),
            ("balance_cluster", "true", {"ignored_app_list": "2"}, "not_consulted", "w"),
            (
                "meta.lb.add_secondary_max_count_for_one_node",
                "3",
                {"add_secondary_enable_flow_control": "false"},
                "not_consulted",
                "w",
            ),
        ],
    )
    def test_what_a_value_would_do_beyond_its_name_is_told(
        self, key, value, settings, code, severity
    ):
        plan = setting_plan(snapshot_of(whole(settings=settings)), key, value, TERMS)
        assert code in codes(plan, {"w": "warning", "e": "error"}[severity])

    def test_the_cluster_policy_is_refused_where_it_kills_the_meta_server(self):
        content = whole(
            [part_row(2, 0, NODES[0], max_replica_count=1)],
            tables=[table_row(2, "temp", 1, max_replica_count=1)],
        )
        plan = setting_plan(snapshot_of(content), "balance_cluster", "true", TERMS)
        assert "kills_meta_server" in codes(plan, "error")


class TestPreview:
    def test_a_preview_tells_steps_partitions_nodes_and_shell_lines(self):
        snapshot = snapshot_of(whole())
        asked = [RequestedMove("2.0", "copy_pri", NODES[0], NODES[2])]
        plan = moves_plan(snapshot, asked, TERMS)
        found = preview_pegasus(snapshot, plan)
        [step] = found.steps
        [part] = step.partitions
        assert found.sentence == "Copies 1 replica. 10 MB is copied in total."
        assert step.lines == ("balance -g 2.0 -p copy_pri -f db1:34801 -t db3:34801",)
        assert (part.primary_before, part.primary_after) == (NODES[0], NODES[2])
        config = PegasusFacts(snapshot).partitions[2][0]
        assert part.ballot_after == config.ballot + 4
        destination = next(one for one in found.nodes if one.node == NODES[2])
        assert destination.free_after_mb == destination.free_before_mb - 10.0

    def test_what_is_previewed_is_what_the_steps_do(self):
        snapshot = snapshot_of(whole())
        asked = [RequestedMove("2.1", "copy_sec", NODES[3], NODES[1])]
        found = preview_pegasus(snapshot, moves_plan(snapshot, asked, TERMS))
        part = found.steps[0].partitions[0]
        before = PegasusFacts(snapshot).partitions[2][1]
        assert set(part.secondaries_after) == {*before.secondaries, NODES[1]} - {NODES[3]}
        assert projected_configs(before, []) == [before]
