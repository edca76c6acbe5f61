"""The balancer answers what the real policies answered, in every recorded round."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pegasus_snapshots import generated
from places import FIXTURES

from core.errors import SchemaError
from core.operations.balance import OPERATION, BalanceState, balance
from core.pegasus.balance.model import BALLOT_STEPS, BalanceOptions, PlanKind, actions_of, reason_of
from core.pegasus.balance.preconditions import disk_doubts, obstacles, uncertain_tables
from core.pegasus.balance.request import BalanceRequest
from core.pegasus.balance.rounds import (
    balance_round,
    balance_rounds,
    balance_until_done,
    pick_by_seed,
)
from core.pegasus.balance.score import stddev
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.trace_form import options_of, parse_trace, view_of
from core.pegasus.view import NO_NODE, ClusterView
from core.progress import JobStoppedError, NoProgress
from core.schemas.pegasus import NODE_ORDERS
from core.snapshot.pegasus import PegasusSnapshot
from dashboard.cli import output
from dashboard.cli.main import run

FIXTURE = FIXTURES / "pegasus" / "balance-traces.json"
RECORDED: dict[str, Any] = json.loads(FIXTURE.read_bytes())
SINGLES = {one["id"]: one for one in [*RECORDED["single_round"], *RECORDED["special"]]}
TRACES = {one["id"]: one for one in RECORDED["traces"]}


def read(recorded: dict[str, Any]) -> tuple[ClusterView, BalanceOptions]:
    trace = parse_trace(json.dumps(recorded).encode(), "recorded")
    return view_of(trace), options_of(trace)


def written(view: ClusterView, plans: Any) -> list[Any]:
    return [
        [
            view.gpid_text(plan.row),
            plan.kind.word,
            [[int(one.type), one.target, one.node] for one in actions_of(view, plan)],
        ]
        for plan in plans
    ]


def placed(view: ClusterView) -> list[Any]:
    return [
        [
            int(app_id),
            [
                [
                    [view.nodes[node], view.disks[disk]]
                    for node, disk in zip(
                        view.members[row].tolist(), view.member_disks[row].tolist(), strict=True
                    )
                    if node != NO_NODE
                ]
                for row in view.rows_of(table)
            ],
        ]
        for table, app_id in enumerate(view.app_ids)
    ]


@pytest.mark.parametrize("name", SINGLES)
def test_a_recorded_round_is_answered_exactly(name):
    view, options = read(SINGLES[name])
    assert written(view, balance_round(view, options)) == SINGLES[name]["expected"]


@pytest.mark.parametrize("name", TRACES)
def test_a_recorded_trace_is_followed_to_its_end_disks_included(name):
    recorded = TRACES[name]
    view, options = read(recorded)
    run = balance_until_done(view, options)
    rounds = run.rounds
    assert run.is_converged
    told = [
        [
            [view.gpid_text(p.row), p.kind.word, view.nodes[p.source], view.nodes[p.target]]
            for p in done.plans
        ]
        for done in rounds
    ]
    assert told == [one["actions"] for one in recorded["rounds"]]
    assert placed(rounds[-1].after) == recorded["final"]
    counts = [
        {
            name: [int(done.after.primary_counts.sum(axis=0)[node]), int(total)]
            for node, (name, total) in enumerate(
                zip(view.nodes, done.after.replica_counts.sum(axis=0), strict=True)
            )
        }
        for done in rounds
    ]
    assert counts == [one["primaries_and_total_after"] for one in recorded["rounds"]]


def test_the_skew_that_upstream_meant_can_be_asked_for():
    recorded = SINGLES["cluster-initial-skew-is-always-1"]
    view, options = read(recorded)
    plans = balance_round(view, replace(options, intended_skew=True))
    assert written(view, plans) == recorded["if_skew_were_right"]


def test_from_the_balance_on_rounds_are_empty():
    view, options = read(TRACES["suite1-1disk"])
    rounds = balance_rounds(view, options)
    sizes = [len(next(rounds).plans) for _ in range(6)]
    assert sizes == [1, 1, 5, 0, 0, 0]


def test_a_check_changes_nothing_and_a_check_of_the_cluster_policy_counts_nothing():
    view, options = read(TRACES["suite2-cluster"])
    check = replace(options, is_check=True)
    assert balance_round(view, check) == []
    first = next(balance_rounds(view, replace(check, policy="app")))
    assert first.plans
    assert first.after is view


@pytest.mark.parametrize(
    ("switch", "kinds"),
    [
        ({}, {"copy_primary"}),
        ({"only_move_primary": True}, {"copy_secondary"}),
        ({"only_move_primary": True, "only_primary_balancer": True}, set()),
        ({"ignored_app_ids": frozenset({1})}, {"copy_secondary"}),
        ({"ignored_app_ids": frozenset({1, 2})}, set()),
        ({"is_check": True}, {"copy_primary", "copy_secondary"}),
    ],
)
def test_each_switch_forbids_what_its_name_says(switch, kinds):
    view, options = read(TRACES["suite1-1disk"])
    plans = balance_round(view, replace(options, **switch))
    assert {plan.kind.word for plan in plans} == kinds


def test_the_cluster_policy_never_looks_at_the_ignored_list():
    view, options = read(TRACES["suite2-cluster"])
    ignoring = replace(options, ignored_app_ids=frozenset({1, 2}))
    assert balance_round(view, ignoring) == balance_round(view, options)


@pytest.mark.parametrize("name", [name for name in TRACES if "cluster" not in name][:12])
def test_unknown_disks_of_one_table_leave_the_plans_of_all_others_exact(name):
    view, options = read(TRACES[name])
    seen = view.member_disks.copy()
    seen[view.rows_of(0).start, 0] = NO_NODE
    blind = view.with_members(view.members, seen)
    assert uncertain_tables(blind, "app").tolist() == [at == 0 for at in range(view.table_count)]

    def summary(plans, *, is_exact):
        of_table = [(one, view.table_of_row[one.row]) for one in plans]
        return [
            one if is_exact else (one.kind, one.source, one.target)
            for one, table in of_table
            if (table != 0) == is_exact
        ]

    known, guessed = balance_round(view, options), balance_round(blind, options)
    assert summary(guessed, is_exact=True) == summary(known, is_exact=True)
    moves = {PlanKind.MOVE_PRIMARY}
    if {one.kind for one in known} <= moves:
        assert sorted(summary(guessed, is_exact=False)) == sorted(summary(known, is_exact=False))


def test_unknown_disks_are_named_with_the_tables_that_are_in_doubt():
    view, _ = read(TRACES["suite1-1disk"])
    assert disk_doubts(view, "app") == []
    blind = view.with_members(view.members, np.full_like(view.member_disks, NO_NODE))
    [sentence] = disk_doubts(blind, "app")
    assert all(name in sentence for name in view.app_names[:4])
    assert uncertain_tables(blind, "cluster").all()


def test_what_keeps_the_meta_server_from_balancing_is_said(tmp_path, capsys):
    whole, _ = read(TRACES["suite1-1disk"])
    assert obstacles(whole) == []
    two = {
        "input": {
            "nodes": ["a:1", "b:1"],
            "apps": [{"app_id": 1, "max_replica_count": 2, "partitions": [[["a:1", "d"]]]}],
        }
    }
    assert len(obstacles(read(two)[0])) == 2
    file = tmp_path / "state.json"
    file.write_text(json.dumps(two))
    run(["pegasus", "balance", str(file)])
    assert "Note: 1 partition" in capsys.readouterr().out


def test_a_table_with_one_replica_does_not_stop_the_cluster_policy():
    view, options = read(SINGLES["empty-node-07"])
    lone = replace(view, max_replica_counts=np.ones(view.table_count, dtype=np.int32))
    alone = lone.members.copy()
    alone[:, 1:] = NO_NODE
    lone = lone.with_members(alone, np.where(alone == NO_NODE, NO_NODE, view.member_disks))
    kinds = {plan.kind.word for plan in balance_round(lone, options)}
    assert kinds <= {"copy_primary"}


CIRCLE = """35 05 30 35 30 50 50 35 30 03 03 35 53 35 50 35 50 03 03 05 30 03"""
CIRCLE_DISKS = """10 10 00 10 11 00 01 10 00 10 01 00 11 10 01 10 00 01 11 00 01 11"""


def going_in_circles() -> dict[str, Any]:
    """Two replicas a partition, on three of six nodes: found by the property tests."""
    rows = [
        [[f"10.0.0.{int(node) + 1}:34801", f"d{disk}"] for node, disk in zip(*both, strict=True)]
        for both in zip(CIRCLE.split(), CIRCLE_DISKS.split(), strict=True)
    ]
    tables = [
        {"app_id": app_id, "max_replica_count": 2, "partitions": rows[start:end]}
        for app_id, start, end in ((1, 0, 5), (2, 5, 11), (3, 11, 22))
    ]
    nodes = [f"10.0.0.{node + 1}:34801" for node in range(6)]
    given = {"nodes": nodes, "disks": ["d0", "d1"], "apps": tables, "policy": "cluster"}
    return {"input": given, "node_numbering": nodes}


def test_the_cluster_policy_may_copy_the_same_data_for_ever_and_that_is_noticed(tmp_path, capsys):
    view, options = read(going_in_circles())
    run_ = balance_until_done(view, options)
    assert not run_.is_converged
    assert len(run_.rounds) < 50
    last = [written(done.before, done.plans) for done in run_.rounds[-2:]]
    assert [kind for plans in last for _, kind, _ in plans] == ["copy_primary"] * 4
    file = tmp_path / "state.json"
    file.write_text(json.dumps(going_in_circles()))
    run(["pegasus", "balance", str(file), "--rounds", "0"])
    assert "It never converges" in capsys.readouterr().out


def test_a_seed_gives_the_same_draw_again():
    view, options = read(TRACES["suite2-cluster"])
    told = [
        [
            written(done.before, done.plans)
            for done in balance_until_done(view, options, pick).rounds
        ]
        for pick in (pick_by_seed(5), pick_by_seed(5))
    ]
    assert told[0] == told[1]


def test_every_plan_has_a_reason_with_both_counts():
    view, options = read(TRACES["suite1-1disk"])
    for done in balance_until_done(view, options).rounds:
        for plan in done.plans:
            sentence = reason_of(done.before, plan)
            assert f"has {plan.source_count} " in sentence
            assert f"has {plan.target_count}" in sentence
            assert BALLOT_STEPS[plan.kind] in {2, 4}


def test_the_spread_is_rounded_as_the_meta_server_rounds_it():
    # two recorded answers of cluster_info: primaries and replicas of four nodes
    assert stddev(np.array([33, 33, 34, 0]), is_sample=False) == 14.44
    assert stddev(np.array([73, 75, 75, 77]), is_sample=False) == 1.41
    assert stddev(np.array([5]), is_sample=False) == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes": ["a:1", "a:1"]}, "different names"),
        ({"apps": [{"app_id": 0, "max_replica_count": 1, "partitions": []}]}, "app_id"),
        (
            {"apps": [{"app_id": 1, "max_replica_count": 1, "partitions": [[["z:9", "d"]]]}]},
            "partition 1.0 has a replica on z:9",
        ),
        (
            {
                "apps": [
                    {
                        "app_id": 1,
                        "max_replica_count": 1,
                        "partitions": [[["a:1", "d"], ["a:1", "e"]]],
                    }
                ]
            },
            "two replicas on one node",
        ),
    ],
)
def test_a_state_that_contradicts_itself_is_refused_with_its_place(change, words):
    question = {"input": {"nodes": ["a:1", "b:1"], "apps": [], **change}}
    with pytest.raises(SchemaError, match=words):
        parse_trace(json.dumps(question).encode(), "state.json")


def test_the_command_prints_the_rounds_of_the_contract(tmp_path, capsys):
    recorded = TRACES["suite2-cluster"]
    file = tmp_path / "state.json"
    file.write_text(json.dumps(recorded))
    assert run(["pegasus", "balance", str(file), "--rounds", "8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"rounds", "elapsed_ms"}
    assert len(answer["rounds"]) == len(answer["elapsed_ms"]) == 8
    assert [len(done) for done in answer["rounds"]] == [3, 1, 1, 1, 1, 3, 1, 0]
    assert answer["rounds"][1] == [
        [
            "1.0",
            "move_primary",
            [[5, "127.0.0.1:1", "127.0.0.1:1"], [2, "127.0.0.1:4", "127.0.0.1:4"]],
        ]
    ]


def test_flags_of_the_command_overrule_the_file(tmp_path, capsys):
    file = tmp_path / "state.json"
    file.write_text(json.dumps(TRACES["suite2-cluster"]))
    asked = ["pegasus", "balance", str(file), "--json"]
    run([*asked, "--policy", "app", "--set", "checker=true", "--rounds", "5"])
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["rounds"]) == 1
    assert {kind for _, kind, _ in answer["rounds"][0]} == {"copy_primary", "copy_secondary"}
    assert run([*asked, "--set", "balancer_in_trun=true"]) == 2
    assert "balancer_in_turn" in json.loads(capsys.readouterr().out)["error"]["hint"]


def test_the_command_shows_people_a_table_with_reasons(tmp_path, capsys):
    file = tmp_path / "state.json"
    file.write_text(json.dumps(TRACES["suite1-1disk"]))
    assert run(["pegasus", "balance", str(file), "--rounds", "0", "--wide"]) == 0
    shown = capsys.readouterr().out
    assert "1 copy_primary" in shown
    assert "no chain of" in shown
    assert "Round 4: nothing" in shown


def test_a_round_of_the_cluster_policy_has_ten_plans_at_most_unless_it_is_set() -> None:
    assert BalanceOptions().balance_op_count_per_round == 10  # DSN_DEFINE of meta.lb


@pytest.mark.parametrize(
    ("recorded", "count"), [(going_in_circles(), 60), (TRACES["suite2-cluster"], 12)]
)
def test_requested_rounds_are_those_of_the_balancer(recorded, count):
    """Beyond a round to an earlier state, and beyond convergence."""
    view, options = read(recorded)
    found = balance(BalanceState(view, options), BalanceRequest(rounds=count))
    expected = itertools.islice(balance_rounds(view, options), count)
    assert [len(moves) for moves in found.rounds] == [len(done.plans) for done in expected]
    assert len(found.elapsed_ms) == count
    row = found.tables["balances"].to_pylist()[0]
    assert row["is_converged"] == (not found.rounds[-1])
    assert row["rounds"] == sum(map(bool, found.rounds)) + row["is_converged"]
    assert row["plans"] == found.tables["plans"].num_rows


def test_the_learned_order_of_the_nodes_decides_in_every_answer():
    snapshot = generated(5, 24, 5)
    facts = PegasusFacts(snapshot)
    names = facts.view().nodes
    row = {
        "leader": "meta1:34601",
        "since": "1",
        "rounds": 3,
        "unexplained": 0,
        "is_complete": True,
        "position": 0,
        "nodes": list(names[::-1]),
    }
    orders = pa.Table.from_pylist([row], schema=NODE_ORDERS)
    tables = {**snapshot.tables, "node_orders": orders}
    known = PegasusFacts(PegasusSnapshot.build(snapshot.manifest, tables))
    request = BalanceRequest(rounds=3)
    by_name = OPERATION.answer(facts, request, NoProgress())
    found = OPERATION.answer(known, request, NoProgress())
    assert found.state.view.nodes == names[::-1]
    assert found.rounds != by_name.rounds
    assert found.notes[0].startswith("Node order inferred from 3 rounds of meta1:34601")
    first = [(one.gpid, one.kind) for one in found.rounds[0]]
    plans = found.tables["plans"].to_pylist()
    assert [(one["gpid"], one["kind"]) for one in plans if one["round"] == 1] == first


def test_columns_without_room_are_named_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output, "terminal_width", lambda: 100)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(TRACES["suite1-1disk"]))
    assert run(["pegasus", "balance", str(file), "--rounds", "0"]) == 0
    printed = capsys.readouterr()
    assert "no chain of" not in printed.out
    assert printed.err.count("Hidden columns: reason. Show them with --wide.") == 1


class StopAtRound:
    """Progress that stops at its third step."""

    def step(self, done: int, total: int, words: str) -> None:
        assert (total, words) == (1_000_000, "rounds")
        if done == 3:
            raise JobStoppedError("Stopped.")


def test_rounds_that_never_end_can_be_stopped():
    state = BalanceState(*read(going_in_circles()))
    with pytest.raises(JobStoppedError):
        balance(state, BalanceRequest(rounds=1_000_000), progress=StopAtRound())
