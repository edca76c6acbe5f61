"""A view out of a live cluster's answers is the one out of its written form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from places import FIXTURES

from connectors.pegasus.rpc.frame import decode_reply
from connectors.pegasus.rpc.parse import parse_nodes, parse_partitions, parse_tables
from core.errors import IncompleteSnapshotError
from core.pegasus.answers import DiskEntry, TableStatus
from core.pegasus.assemble import view_of_answers
from core.pegasus.balance.model import BalanceOptions
from core.pegasus.balance.rounds import balance_round
from core.pegasus.health import HealthState, Membership, health_states
from core.pegasus.view import NO_NODE

RECORDED = FIXTURES / "pegasus" / "thft" / "own"


def result(name):
    return decode_reply((RECORDED / f"{name}.rsp.bin").read_bytes()).result


def answers():
    nodes = parse_nodes(result("list_nodes_all"))
    by_name = {table.name: table for table in parse_tables(result("list_apps_all"))}
    tables = {
        by_name[name]: parse_partitions(result(f"query_cfg_{name}")) for name in ("t64", "temp")
    }
    return nodes, tables


def disks(tables):
    held = {}
    for configs in tables.values():
        for config in configs:
            for name in config.members:
                held.setdefault(name, set()).add((config.app_id, config.index))
    return {
        name: [DiskEntry("ssd1", "/d", 100, 50, frozenset(gpids), frozenset())]
        for name, gpids in held.items()
    }


def test_recorded_answers_become_a_view_in_gpid_order():
    nodes, tables = answers()
    view = view_of_answers(nodes, tables, disks(tables))
    assert view.app_names == ("temp", "t64")
    assert view.partition_count == 72
    assert view.gpid_text(8) == "5.0"
    assert view.nodes == tuple(node.name for node in nodes)
    assert not view.has_unknown_disk
    assert (health_states(Membership.of(view)) == HealthState.HEALTHY).all()
    assert balance_round(view, BalanceOptions(only_primary_balancer=True)) == []


def test_the_disks_of_a_node_that_did_not_answer_are_unknown():
    nodes, tables = answers()
    told = disks(tables)
    del told["localhost:34801"]
    view = view_of_answers(nodes, tables, told)
    unknown = view.member_disks == NO_NODE
    assert view.has_unknown_disk
    assert (view.members[unknown] == view.nodes.index("localhost:34801")).all()
    assert np.count_nonzero(unknown) == view.replica_counts.sum(axis=0)[0]


def test_a_dead_node_without_replicas_does_not_count():
    nodes, tables = answers()
    gone = replace(nodes[0], name="localhost:34899", is_alive=False)
    assert "localhost:34899" not in view_of_answers([*nodes, gone], tables, {}).nodes


def test_a_table_in_a_bulk_load_is_not_balanced():
    nodes, tables = answers()
    first, second = tables
    busy = {replace(first, is_bulk_loading=True): tables[first], second: tables[second]}
    assert view_of_answers(nodes, busy, {}).is_balanceable.tolist() == [True, False]
    assert first.status is TableStatus.AVAILABLE


def test_what_is_missing_is_named():
    nodes, tables = answers()
    first = next(iter(tables))
    with pytest.raises(IncompleteSnapshotError, match="63 were read"):
        view_of_answers(nodes, {first: tables[first][1:]}, {})
    with pytest.raises(IncompleteSnapshotError, match="localhost:34804"):
        view_of_answers(nodes[:3], tables, {})
