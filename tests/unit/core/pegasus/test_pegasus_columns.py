"""A snapshot in columns: sums, unknown parts, and the three countings."""

from __future__ import annotations

import numpy as np
import pytest
from pegasus_snapshots import (
    NODES,
    generated,
    part_row,
    replica_rows,
    setting_rows,
    snapshot_of,
    table_row,
    whole,
)

from core.pegasus.columns import PegasusColumns
from core.pegasus.health import HealthState
from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import guardian_unhealthy, summarize_nodes, summarize_tables


def columns_of(content):
    return PegasusColumns.of(snapshot_of(content).tables)


def mixed():
    """Every state once, one replica too many, and a table that was not read."""
    parts = [
        part_row(1, 0, NODES[0], [NODES[1], NODES[2]]),
        part_row(1, 1, NODES[1], [NODES[2]]),
        part_row(1, 2, NODES[2]),
        part_row(1, 3, None, [NODES[0]]),
        part_row(1, 4, None, last_drops=[NODES[3]]),
        part_row(1, 5, NODES[0], [NODES[1], NODES[2], NODES[3]]),
    ]
    return whole(parts, tables=[table_row(1, "orders", 6), table_row(2, "unread", 4)])


def test_counts_of_nodes_are_those_of_the_rows():
    columns = columns_of(whole())
    assert columns.counts(primaries_only=True).tolist() == [[4, 0, 0, 0]]
    assert columns.counts(primaries_only=False).tolist() == [[4, 2, 2, 4]]


def test_a_sum_with_one_unknown_part_is_unknown_and_others_are_not():
    content = whole()
    content["replicas"][0]["size_mb"] = None
    columns = columns_of(content)
    by_node = columns.per_node("size_mb", primaries_only=False)
    assert np.isnan(by_node[0])
    assert by_node[1:].tolist() == [20.0, 20.0, 40.0]
    assert np.isnan(columns.per_table("size_mb", primaries_only=False)[0])
    assert columns.per_table("read_rate", primaries_only=True).tolist() == [20.0]


def test_sums_of_a_table_that_was_not_read_are_unknown():
    columns = columns_of(mixed())
    assert columns.is_read.tolist() == [True, False]
    assert np.isnan(columns.per_table("size_mb", primaries_only=False)[1])


def test_states_are_counted_by_table():
    columns = columns_of(mixed())
    counts = dict(zip(HealthState, columns.table_states(2)[0].tolist(), strict=True))
    assert counts == {
        HealthState.DEAD: 1,
        HealthState.UNREADABLE: 1,
        HealthState.UNWRITABLE: 1,
        HealthState.WRITABLE_ILL: 1,
        HealthState.HEALTHY: 2,
        HealthState.SPLITTING: 0,
    }


def test_one_replica_too_many_is_healthy_for_states_and_ill_for_the_guardian():
    columns = columns_of(mixed())
    assert columns.states(2)[5] == HealthState.HEALTHY
    assert columns.is_guardian_healthy.tolist() == [True, False, False, False, False, False]


def test_rows_of_tables_that_do_not_serve_are_left_out():
    parts = [part_row(1, 0, NODES[0]), part_row(7, 0, NODES[0])]
    tables = [table_row(1, "orders", 1), table_row(7, "gone", 1, status="dropped")]
    columns = columns_of(whole(parts, tables=tables))
    assert columns.app_names == ("orders",)
    assert columns.part_index.tolist() == [0]
    assert columns.counts(primaries_only=True).tolist() == [[1, 0, 0, 0]]


def test_primary_on_a_node_that_is_not_listed_is_there_but_counted_nowhere():
    content = whole([part_row(1, 0, "stranger:1", [NODES[1]])], tables=[table_row(1, "orders", 1)])
    columns = columns_of(content)
    assert columns.membership.has_primary.tolist() == [True]
    assert columns.counts(primaries_only=False).tolist() == [[0, 1, 0, 0]]


def test_snapshot_without_anything_has_columns():
    columns = columns_of({"settings": setting_rows()})
    assert columns.node_count == columns.table_count == 0
    assert columns.counts(primaries_only=True).shape == (0, 0)
    assert columns.is_read.all()


@pytest.mark.parametrize("content", [whole(), mixed()], ids=["small", "mixed"])
def test_columns_agree_with_the_summaries_row_by_row(content):
    facts = PegasusFacts(snapshot_of(content))
    columns = facts.columns
    for at, node in enumerate(summarize_nodes(facts)):
        assert columns.counts(primaries_only=True)[:, at].sum() == node.primaries
        size = columns.per_node("size_mb", primaries_only=False)[at]
        assert size == node.carried.size_mb
    for at, table in enumerate(summarize_tables(facts)):
        if table.listed is not None:
            assert columns.listed.unhealthy[at] == table.listed["unhealthy"]
            assert columns.listed.write_unhealthy[at] == table.listed["write_unhealthy"]
    assert int((~columns.is_guardian_healthy).sum()) == len(guardian_unhealthy(facts))


def test_verdict_of_a_big_cluster_is_read_off_the_columns():
    facts = PegasusFacts(generated(20, 16, 7))
    assert facts.has_all_partitions
    assert facts.verdict().state == "not_balanced"


def test_replicas_are_found_whatever_the_order_of_rows_is():
    content = whole()
    content["replicas"] = replica_rows(reversed(content["partitions"]))
    assert columns_of(content).counts(primaries_only=False).tolist() == [[4, 2, 2, 4]]
