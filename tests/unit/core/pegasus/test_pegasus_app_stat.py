"""What ``app_stat`` and ``nodes -u -q`` show, from the columns of a snapshot."""

from __future__ import annotations

import numpy as np
import pytest
from pegasus_snapshots import NODES, part_row, snapshot_of, table_row, whole

from core.pegasus.snapshot import PegasusFacts
from core.pegasus.stats import EVENT_RATES, LOOKUPS, OPERATION_RATES, STORAGE
from core.pegasus.summary import NODE_STATS, summarize_nodes, summarize_tables
from dashboard.app_pages.pegasus.tables import model
from dashboard.presenters.pegasus import cluster

MEASURED = (*OPERATION_RATES, *EVENT_RATES, *STORAGE, *LOOKUPS)


def operation_row(index, **more):
    return {"app_id": 2, "index": index, **dict.fromkeys(MEASURED, 2.0), **more}


def facts_of(rows, **content):
    return PegasusFacts(snapshot_of({**whole(), "operations": rows, **content}))


def test_a_tables_operations_are_the_sum_of_its_partitions():
    facts = facts_of([operation_row(at, get_rate=float(at)) for at in range(4)])
    (told,) = summarize_tables(facts)
    assert told.stats["get_rate"] == 6.0
    assert told.stats["put_rate"] == 8.0
    assert told.stats["sst_files"] == 8.0


def test_rows_are_matched_by_partition_whatever_their_order():
    rows = [operation_row(at, get_rate=float(at)) for at in (3, 1, 0, 2)]
    facts = facts_of([{**operation_row(0), "app_id": 9}, *rows])
    assert facts.app_stat.values["get_rate"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "rows", [[], [operation_row(at) for at in range(3)], [{"app_id": 2, "index": 0}]]
)
def test_a_sum_with_an_unknown_part_is_unknown(rows):
    (told,) = summarize_tables(facts_of(rows))
    assert set(told.stats.values()) == {None}


def test_a_partition_that_nobody_leads_adds_nothing():
    parts = [part_row(2, at, NODES[0], [NODES[1], NODES[2]]) for at in range(3)]
    parts.append(part_row(2, 3, None, [NODES[1]]))
    content = whole(parts)
    rows = [operation_row(at) for at in range(3)]
    facts = PegasusFacts(snapshot_of({**content, "operations": rows}))
    assert summarize_tables(facts)[0].stats["get_rate"] == 6.0


def test_a_table_that_was_not_read_has_unknown_operations():
    more = [table_row(2, "temp", 4), table_row(3, "unread", 4)]
    told = summarize_tables(facts_of([operation_row(at) for at in range(4)], tables=more))
    assert told[0].stats["get_rate"] == 8.0
    assert set(told[1].stats.values()) == {None}


def test_ratios_are_of_sums_and_unknown_where_nothing_was_looked_up():
    rows = [
        operation_row(
            at,
            cache_hits=9.0,
            cache_lookups=10.0,
            seek_negatives=0.0,
            seek_lookups=0.0,
            point_negatives=60.0,
            point_positives=40.0,
            point_true_positives=20.0,
        )
        for at in range(4)
    ]
    (told,) = summarize_tables(facts_of(rows))
    assert told.stats["cache_hit_ratio"] == 0.9
    assert told.stats["seek_negative_ratio"] is None
    assert told.stats["point_negative_ratio"] == 0.6
    assert told.stats["point_fp_ratio"] == 0.25


def test_tables_and_partitions_are_shown_with_their_operations_and_percents():
    facts = facts_of([operation_row(at, cache_hits=1.0, cache_lookups=4.0) for at in range(4)])
    row = model.tables_frame(facts).iloc[0]
    assert (row["get_rate"], row["cache_hit_ratio"]) == (8.0, 25.0)
    frame, _ = model.partitions_frame(facts, np.arange(4))
    assert frame["multi_put_rate"].tolist() == [2.0] * 4
    assert frame["read_cu"].tolist() == [6.0] * 4


def test_nodes_are_shown_with_what_they_tell_of_themselves():
    content = whole(dead=[NODES[3]])
    content["nodes"][0] |= {"block_cache_mb": 12.5, "get_p99_ms": 1.25, "error_replicas": 1}
    facts = PegasusFacts(snapshot_of(content))
    frame = cluster.nodes_frame(facts).set_index("node")
    assert frame["block_cache_mb"][NODES[0]] == 12.5
    assert frame["error_replicas"][NODES[0]] == 1
    assert np.isnan(frame["block_cache_mb"][NODES[3]])
    told = {one.name: one.stats for one in summarize_nodes(facts)}
    assert told[NODES[0]]["get_p99_ms"] == 1.25
    assert set(told[NODES[3]]) == set(NODE_STATS)
    assert set(told[NODES[3]].values()) == {None}
