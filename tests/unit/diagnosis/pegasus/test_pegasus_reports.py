"""Public reports about Pegasus rebuilt as snapshots, and two recordings of a real cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pegasus_diagnosis import CALM, LIVELY, cluster, even_parts, node_names
from pegasus_snapshots import part_row

from core.diagnosis.pegasus.registry import diagnose

RECORDED = Path(__file__).parents[3] / "fixtures" / "pegasus" / "balance"
NODES = node_names(5)


def placed(held, *, app_id=1, per_table=4):
    """Tables of four partitions on five nodes that end with these replicas and primaries.

    Args:
        held: Replicas and primaries of each node.
        app_id: Id of the first table.
        per_table: Partitions of a table.
    """
    left = [list(one) for one in held]
    rows = []
    for at in range(sum(one[1] for one in held)):
        led = max(range(len(left)), key=lambda node: (left[node][1], left[node][0]))
        left[led][0] -= 1
        left[led][1] -= 1
        others = sorted(
            (node for node in range(len(left)) if node != led),
            key=lambda node: left[node][0] - left[node][1],
            reverse=True,
        )[:2]
        for node in others:
            left[node][0] -= 1
        rows.append(
            part_row(
                app_id + at // per_table,
                at % per_table,
                NODES[led],
                [NODES[node] for node in others],
            )
        )
    assert left == [[0, 0]] * len(left)
    return rows


def recorded(name):
    state = json.loads((RECORDED / f"{name}.json").read_bytes())
    nodes = sorted(
        {
            node.removesuffix("/t1")
            for table in state["apps"].values()
            for one in table["partitions"]
            for node in (one["hp_primary"], *one["hp_secondaries"])
        }
    )
    names = dict(zip(nodes, node_names(len(nodes)), strict=True))
    parts = [
        part_row(
            table["app_id"],
            int(one["pid"].partition(".")[2]),
            names[one["hp_primary"].removesuffix("/t1")],
            [names[node.removesuffix("/t1")] for node in one["hp_secondaries"]],
        )
        for table in state["apps"].values()
        for one in table["partitions"]
    ]
    return parts, len(nodes)


def test_a_real_cluster_at_steady_after_a_restart_needs_the_moves_that_lively_made():
    parts, nodes = recorded("s1_d_uneven_steady")
    [cause] = diagnose(cluster(parts, nodes=nodes)).causes
    assert cause.code == "level_below_lively"
    assert cause.effect.after.moves == 11 + 9 + 5 + 3  # the rounds that it made at lively
    assert cause.effect.after.rounds == 4
    assert cause.effect.before.deviation == 1.0


def test_a_real_cluster_with_a_new_node_at_steady():
    parts, nodes = recorded("s2_a_new_node_steady")
    [cause] = diagnose(cluster(parts, nodes=max(nodes, 5))).causes[:1]
    assert cause.code == "level_below_lively"
    assert cause.objects == (node_names(5)[4],)


def test_a_real_cluster_that_lively_has_balanced_is_uneven_as_a_whole_only():
    parts, nodes = recorded("s2_b_lively.end")
    found = diagnose(cluster(parts, nodes=nodes, settings={**LIVELY, **CALM}))
    # balance_cluster=true, set afterwards, evened 17 to 22 primaries out to 20 each
    assert [cause.code for cause in found.causes] == ["policy_per_table"]
    assert found.causes[0].effect.after.deviation < 0.05


@pytest.mark.parametrize(
    "report",
    [
        # XiaoMi/rdsn#949: 38, 35, 34, 34, 39 replicas under the app policy, 36 under the other
        placed([(38, 12), (35, 12), (34, 12), (34, 12), (39, 12)]),
        # apache/incubator-pegasus#761: many tables with fewer partitions than nodes
        [
            one
            for table in range(1, 13)
            for one in even_parts(table, 3, NODES[:3] if table % 3 else NODES[2:])
        ],
    ],
)
def test_tables_balanced_one_by_one_are_not_a_balanced_cluster(report):
    found = diagnose(cluster(report, settings={**LIVELY, **CALM}))
    cause = next(one for one in found.causes if one.code == "policy_per_table")
    assert cause.fix.wanted["balance_cluster"] == "true"
    assert cause.effect.is_more_even


def test_unbalanced_after_a_table_was_created_at_level_steady():
    # apache/incubator-pegasus#832: 100 partitions on 5 nodes, replicas promised twice over
    parts = [
        part_row(1, at, NODES[at % 5], [NODES[(at + 1) % 5], NODES[(at % 2 + 2 + at) % 5]])
        for at in range(100)
    ]
    for one in parts[:24]:
        one["primary"], one["secondaries"] = NODES[0], [NODES[1], NODES[2]]
    [cause] = diagnose(cluster(parts)).causes
    assert cause.code == "level_below_lively"
    assert cause.effect.after.deviation < 0.02


def test_nodes_added_by_script_with_both_switches_left_on():
    # apache/incubator-pegasus#528: only_move_primary is set so that new nodes get secondaries
    # first; only_primary_balancer left on as well makes the addition do nothing at all
    parts = even_parts(1, 60, NODES[:3])
    on = {"only_move_primary": "true", "only_primary_balancer": "true"}
    found = diagnose(cluster(parts, settings={**LIVELY, **CALM, **on}))
    assert found.causes[0].keys == ("meta.lb.only_primary_balancer",)
    assert found.causes[0].effect.before.moves == 0


def test_a_count_of_minus_one_is_no_balance():
    # apache/incubator-pegasus#1951: after scaling out the count read 0 while disks were unknown
    unknown = {"balance_operation_count": '{"total": -1}'}
    parts = even_parts(1, 60, NODES[:3])
    found = diagnose(cluster(parts, settings={**LIVELY, **unknown}))
    assert found.causes[0].code == "disks_unreported"
