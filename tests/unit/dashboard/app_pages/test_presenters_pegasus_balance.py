"""What the Balance and Maintenance pages say, on small and on generated clusters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from pegasus_builder import make_view
from pegasus_snapshots import NODES, part_row, snapshot_of, whole

from core.pegasus.balance.model import BalanceOptions, PlanKind
from core.pegasus.balance.node_order import LikelyPlan
from core.pegasus.balance.rounds import balance_round
from core.pegasus.even.cost import copy_cost
from core.pegasus.even.request import EvenRequest
from core.pegasus.order_learning import KnownOrders
from core.pegasus.plan.build import RequestedMove, level_plan
from core.pegasus.plan.maintenance import migrate_plan
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.steps.change import ChangeReplica
from core.pegasus.steps.move import MoveReplica
from core.pegasus.steps.partition import Partition
from core.plan.describe import tally
from core.plan.options import CopyRate, PlanOptions
from dashboard.app_pages.pegasus.balance import changes, model
from dashboard.app_pages.pegasus.maintenance import model as maintenance
from dashboard.presenters import applying
from dashboard.presenters.pegasus.copies import time_words
from dashboard.queries.pegasus.balance import BalanceBasis

APP = BalanceOptions()


def ground_of(view, **more):
    count = view.partition_count
    known = {
        "view": view,
        "sizes_mb": np.full(count, 100.0),
        "requests": np.ones(count),
        "units": np.ones(count),
        "free_mb": dict.fromkeys(view.nodes, 10_000.0),
        "disk_counts": dict.fromkeys(view.nodes, 4),
        "copy_rate_mb_per_s": 50.0,
        "obstacles": (),
        "orders": KnownOrders((view.nodes,), 0, is_complete=False, leader=None),
        "target_ratio": 0.07,
    }
    return BalanceBasis(**{**known, **more})


def test_a_numbering_backwards_and_back_again_is_the_same_state():
    view = make_view(3, 8, 5)
    there = view.renumbered(view.nodes[::-1])
    assert [there.nodes[code] for code in there.members[:, 0]] == [
        view.nodes[code] for code in view.members[:, 0]
    ]
    back = there.renumbered(view.nodes)
    assert (back.members == view.members).all()


def test_missing_members_stay_missing_in_another_numbering():
    view = make_view(1, 4, 5)
    members = view.members.copy()
    members[0, 1:] = -1
    lame = view.with_members(members, view.member_disks)
    assert (lame.renumbered(view.nodes[::-1]).members[0, 1:] == -1).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (replace(APP, policy="cluster"), "skew of 1"),
        (replace(APP, policy="cluster", ignored_app_ids=frozenset({1})), "ignored tables"),
    ],
)
def test_quirks_of_the_cluster_policy_are_named_where_they_matter(options, word):
    told = model.quirks(options, make_view(2, 8, 5), None, ())
    assert any(word in one for one in told)


def test_single_replica_tables_are_a_warning_only_under_the_cluster_policy():
    view = replace(make_view(1, 8, 5), max_replica_counts=np.array([1], dtype=np.int32))
    cluster = replace(APP, policy="cluster")
    assert any("single replica" in one for one in model.quirks(cluster, view, None, ()))
    assert not model.quirks(APP, view, None, ())


def test_copies_tell_bytes_time_and_room():
    view = make_view(2, 16, 5)
    basis = ground_of(view)
    plans = balance_round(view, replace(APP, policy="cluster"))
    copies = [
        replace(plan, kind=PlanKind.COPY_SECONDARY, target=(plan.target + 1) % 5) for plan in plans
    ]
    cost = copy_cost(view, copies, basis.sizes_mb)
    assert model.changes_words(copies) == "copies only"
    assert model.changes_words([*copies, replace(copies[0], kind=PlanKind.MOVE_PRIMARY)]) == (
        "role changes and copies"
    )
    rate = CopyRate(50.0, "the last copy here")
    assert time_words(cost, basis, rate) != "-"
    assert time_words(cost, basis, rate, is_in_turn=True).startswith("about ")
    lacking, tightest = changes.headroom(view, basis, cost.received_mb)
    assert not lacking
    assert "Least free space" in tightest
    full = ground_of(view, free_mb=dict.fromkeys(view.nodes, 1.0))
    assert len(changes.headroom(view, full, cost.received_mb)[0]) > 0


def test_the_recommended_candidate_reaches_the_target_with_the_least_data_copied():
    def row(name, off, copy_mb, changes=1):
        return model.CandidateRow(name=name, off=off, copy_mb=copy_mb, changes=changes)

    rows = [row("no change", 1.0, None), row("app", 0.02, 900.0), row("even", 0.09, 0.0, 50)]
    assert model.recommended(rows, 0.1) == "even"
    assert model.recommended(rows, 0.05) == "app"
    assert model.recommended(rows, 0.01) == ""
    assert model.recommended([*rows, row("computing", None, None)], 0.1) == ""
    assert model.recommended([row("no change", 0.05, None), *rows[1:]], 0.1) == ""


def test_plan_counts_name_what_a_step_does():
    partition = Partition(gpid="1.0", table="t", ballot=1, max_replica_count=3, primary="n1")
    steps = [
        MoveReplica(partition=partition, move=move, source="n1", target="n2")
        for move in ("move_pri", "copy_sec", "copy_pri", "move_pri")
    ]
    assert tally(steps) == "move 2 primaries, copy 2 replicas"
    assert tally(steps[:1]) == "move 1 primary"
    assert tally([ChangeReplica(partition=partition, change="REMOVE", node="n2")]) == (
        "remove 1 replica"
    )


def test_unknown_room_counts_as_none():
    view = make_view(1, 4, 5)
    basis = ground_of(view, free_mb=dict.fromkeys(view.nodes, float("nan")))
    lacking, tightest = changes.headroom(view, basis, np.array([1.0, 0, 0, 0, 0]))
    assert "unknown free" in lacking[0]
    assert not tightest


def test_a_table_is_a_part_of_the_listed_moves():
    view = make_view(4, 16, 5)
    listed = changes.PlanList.of([balance_round(view, APP)])
    part = listed.of_table(view, "table1")
    assert part.plans
    assert {int(view.table_of_row[plan.row]) for plan in part.plans} == {1}
    assert listed.of_table(view, "no such table") is listed


def test_bars_of_very_many_nodes_show_those_that_change_most():
    before = make_view(20, 32, 60)
    after = make_view(20, 32, 60, seed=2)
    data = changes.bars(before, after, ground_of(before), "primaries")
    assert len(data.brokers) == changes.MAX_BARS
    assert np.abs(data.after - data.before).min() > 0


def facts_of(**settings):
    parts = [part_row(2, at, NODES[0], [NODES[1], NODES[2]]) for at in range(4)]
    return PegasusFacts(snapshot_of(whole(parts, settings=settings)))


def test_why_a_change_is_made_is_what_both_nodes_hold():
    view = make_view(4, 16, 5)
    plans = balance_round(view, APP)
    listed = changes.PlanList.of([plans])
    rows = changes.reasons_frame(view, listed, is_policy=True)
    assert len(rows) == min(len(plans), changes.MAX_REASONS)
    first = rows.iloc[0]
    assert (first["from"], first["to"]) == (
        view.nodes[plans[0].source],
        view.nodes[plans[0].target],
    )
    assert first["source_count"] > first["target_count"]
    assert first["share"] == "3 to 4"  # 16 primaries of a table on 5 nodes
    assert not changes.reasons_frame(view, listed, is_policy=False)["share"].any()


def test_the_chart_of_the_nodes_has_the_band_of_the_target():
    view = make_view(4, 16, 5)
    assert changes.bars(view, view, ground_of(view), "replicas").tolerance_ratio == 0.07


def test_at_freezed_no_node_may_take_anything_and_the_reason_is_the_level():
    facts = facts_of(**{"level.effective": "freezed"})
    config = changes.config_of(facts, "temp", 0)
    rows = changes.targets_frame(facts, config, "move_pri", NODES[0])
    assert changes.allowed(rows) == []
    assert rows["verdict"].str.contains("level freezed").any()


def test_the_emptiest_node_stands_first_among_those_that_may_take_a_copy():
    facts = facts_of()
    config = changes.config_of(facts, "temp", 1)
    assert changes.allowed(changes.targets_frame(facts, config, "copy_sec", NODES[1])) == [NODES[3]]
    assert changes.config_of(facts, "temp", 99) is None


def test_nodes_without_any_replica_are_told_on_the_maintenance_page():
    facts = facts_of()
    assert maintenance.empty_nodes(facts) == [NODES[3]]
    assert "Without replicas: db4:34801." in maintenance.answer(facts, None)


def test_the_command_of_an_operation_names_the_rate_only_where_it_differs():
    offline = maintenance.BY_LABEL["Take offline"]
    usual = maintenance.command(offline, "peg", ["n1:1"], offline.rate_mb_per_s)
    assert usual == "trimtab pegasus offline peg n1:1"
    assert maintenance.command(offline, "peg", ["n1:1"], 70).endswith("--rate 70")


def test_the_line_of_a_policy_names_only_what_stands_differently():
    turned = replace(APP, only_move_primary=True, ignored_app_ids=frozenset({2, 1}))
    line = model.policy_command(Path("kept"), turned, APP)
    assert line == (
        "trimtab pegasus balance kept --rounds 0 --set only_move_primary=true "
        "--set 'ignored_app_list=[1,2]'"
    )
    assert model.policy_command(Path("kept"), APP, APP).endswith("--rounds 0")


def test_the_lines_of_the_planner_and_of_a_move_are_what_the_command_line_takes():
    request = EvenRequest(measure="qps", within_percent=5, max_moves=20, copy=False)
    even = "trimtab pegasus even peg --by qps --within 5 --moves 20 --no-copy"
    assert model.even_command("peg", request) == even
    assert "--within" not in model.even_command("peg", EvenRequest())
    asked = RequestedMove("2.1", "move_pri", "n1:1", "n2:1")
    assert model.move_command("peg", asked, is_held=True) == (
        "trimtab pegasus move peg 2.1 move_pri --from n1:1 --to n2:1 --steady"
    )


def test_the_button_names_a_single_step_and_counts_those_of_many_kinds():
    snapshot = snapshot_of(whole([part_row(2, 0, NODES[0], [NODES[1], NODES[2]])]))
    terms = PlanOptions(now=datetime.now(UTC))
    level = level_plan(snapshot, "freezed", terms)
    assert applying.send_label(level) == level.steps[0].describe()
    moved = migrate_plan(snapshot, NODES[0], terms)
    mixed = replace(moved, steps=(*level.steps, *moved.steps))
    assert applying.send_label(mixed) == f"Execute {len(mixed.steps)} steps"


def test_a_node_that_is_emptied_in_several_steps_counts_once():
    parts = [part_row(2, at, NODES[at], [NODES[at - 1], NODES[at - 2]]) for at in range(4)]
    plan = migrate_plan(snapshot_of(whole(parts)), NODES[0], PlanOptions(now=datetime.now(UTC)))
    batches = [step for step in plan.steps if step.kind == "propose_many"]
    assert tally([*batches, *batches]) == "drain 1 node"
    assert applying.send_label(plan) == "Drain 1 node, wait for 1 state"
    assert applying.must_type_name(plan, "demo") is None
    both = replace(plan, steps=(*batches, msgspec.structs.replace(batches[0], node=NODES[1])))
    assert applying.must_type_name(both, "demo") == "2 drained nodes"


def test_changes_by_ties_are_called_as_in_the_list_of_changes():
    likely = [
        LikelyPlan(gpid="1.0", kind=kind, source=NODES[0], target=NODES[1], share=share)
        for kind, share in zip(PlanKind, (0.25, 0.5, 0.75), strict=True)
    ]
    told = model.ties_frame(likely)
    assert told["share_pct"].tolist() == [75.0, 50.0, 25.0]
    assert told["change"].tolist() == ["secondary copied", "primary copied", "role change"]
