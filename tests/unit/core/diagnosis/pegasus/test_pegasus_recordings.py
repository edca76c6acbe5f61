"""Two recordings of a real cluster, diagnosed: what was recommended is what it then did."""

from __future__ import annotations

import json

from pegasus_diagnosis import CALM, LIVELY, cluster, diagnose, node_names
from pegasus_snapshots import part_row
from places import FIXTURES

RECORDED = FIXTURES / "pegasus" / "balance"


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
