"""Two runs of a real cluster, replayed: every round it made, and the state it ended in.

A real cluster numbers its nodes in the order of a hash map; the order given here is one of those
that explain every round.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from places import FIXTURES

from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.rounds import balance_rounds
from core.pegasus.balance.score import count_spread
from core.pegasus.trace_form import parse_trace, view_of
from core.pegasus.view import NO_NODE, ClusterView

RECORDED = FIXTURES / "pegasus" / "balance"
RUNS = {
    "s1": ("s1_d_uneven_steady", "s1_e_lively.end", (34801, 34802, 34803, 34804)),
    "s2": ("s2_a_new_node_steady", "s2_b_lively.end", (34802, 34804, 34801, 34803, 34805)),
}


def read(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_bytes())


def members(state: Any) -> dict[str, list[str]]:
    """Primary, then secondaries in their order, by gpid."""
    return {
        one["pid"]: [
            node.removesuffix("/t1") for node in (one["hp_primary"], *one["hp_secondaries"])
        ]
        for table in state["apps"].values()
        for one in table["partitions"]
    }


def view(state: Any, ports: tuple[int, ...]) -> ClusterView:
    held = members(state)
    tables = [
        {
            "app_id": table["app_id"],
            "app_name": name,
            "max_replica_count": table["partitions"][0]["max_replica_count"],
            "partitions": [
                [[node, "default"] for node in held[one["pid"]]] for one in table["partitions"]
            ],
        }
        for name, table in state["apps"].items()
    ]
    nodes = [f"localhost:{port}" for port in ports]
    question = {"input": {"nodes": nodes, "apps": tables}, "node_numbering": nodes}
    return view_of(parse_trace(json.dumps(question).encode(), "recorded"))


@pytest.mark.parametrize("run", RUNS)
def test_every_round_of_a_real_run_is_replayed_and_so_is_its_end(run):
    start, end, ports = RUNS[run]
    wanted = [
        sorted((plan["pid"], plan["type"], plan["frm"], plan["to"]) for plan in one["plan"])
        for one in read(f"{run}.rounds")
        if one["kind"] == "balance"
    ]
    state = view(read(start), ports)
    for number, (done, plans) in enumerate(
        zip(balance_rounds(state, BalanceOptions()), wanted, strict=False)
    ):
        state = done.after
        told = sorted(
            (
                done.before.gpid_text(plan.row),
                plan.kind.word,
                state.nodes[plan.source],
                state.nodes[plan.target],
            )
            for plan in done.plans
        )
        assert told == plans, f"round {number}"
    ended = {
        state.gpid_text(row): [state.nodes[node] for node in held if node != NO_NODE]
        for row, held in enumerate(state.members.tolist())
    }
    assert ended == members(read(end))


@pytest.mark.parametrize("run", RUNS)
def test_the_score_is_the_one_the_cluster_told(run):
    start, _, ports = RUNS[run]
    state = read(start)
    spread = count_spread(view(state, ports))
    told = state["info"]
    assert f"{spread.primary_stddev:.2f}" == told["primary_replica_count_stddev"]
    assert f"{spread.replica_stddev:.2f}" == told["total_replica_count_stddev"]
