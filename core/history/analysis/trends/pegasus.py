"""Trends of Pegasus nodes and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from core.history.analysis.requests import Period
from core.history.analysis.trends.subject import SystemTrends, TrendSubject
from core.history.analysis.trends.trends import (
    by_minute,
    cell_sums,
    minutes_of,
    present,
    sum_of,
    times_of,
    trends_of,
    values_of,
)
from core.units import format_per_s

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

READS: Final = ("get_rate", "multi_get_rate", "batch_get_rate")
WRITES: Final = ("put_rate", "multi_put_rate")
NODE_COLUMNS: Final = (
    *("node", "taken_at", "is_alive", "resident_memory_mb"),
    *("total_replicas", "primary_replicas", *READS, *WRITES),
)
TABLE_READS: Final = (*READS, "scan_rate")
TABLE_WRITES: Final = (
    *(*WRITES, "remove_rate", "multi_remove_rate", "incr_rate"),
    *("check_and_set_rate", "check_and_mutate_rate"),
)
TABLE_COLUMNS: Final = ("app_id", "index", "taken_at", *TABLE_READS, *TABLE_WRITES, "gone")
FLOW_COLUMNS: Final = ("node", "taken_at", "is_alive", *READS, *WRITES)


def node_day(rows: pa.Table, period: Period) -> pa.Table:
    """Return trends of Pegasus nodes that were alive, and of the cluster as a whole.

    ``deviation``: of what nodes serve, reads and writes, as of brokers' throughput.

    Args:
        rows: Columns :data:`NODE_COLUMNS` of one cluster and day.
        period: What is summed up.
    """
    rows = rows.filter(rows["is_alive"])
    reads, writes = sum_of(rows, READS), sum_of(rows, WRITES)
    measures = {
        "read_rate": reads,
        "write_rate": writes,
        "request_rate": reads + writes,
        "memory_mb": values_of(rows, "resident_memory_mb"),
        "replica_count": values_of(rows, "total_replicas"),
        "primary_count": values_of(rows, "primary_replicas"),
    }
    times = times_of(rows)
    whole = by_minute(times, reads + writes, np.full(times.size, np.nan))
    at, whole["request_gap"] = whole.pop("taken_at").astype(np.int64), whole.pop("gap")
    names = pa.array([""] * at.size, pa.string())
    return pa.concat_tables(
        [
            trends_of("node", rows["node"], times, measures, period),
            trends_of("cluster", names, at, whole, period),
        ]
    )


def table_day(rows: pa.Table, period: Period, recorded: Mapping[int, int]) -> pa.Table:
    """Return trends of Pegasus tables; ``subject`` is the id.

    Args:
        rows: Columns :data:`TABLE_COLUMNS` of one cluster and day, whole tables.
        period: What is summed up.
        recorded: Minutes that were recorded, by the start of their period.
    """
    rows = present(rows)
    ids = np.asarray(rows["app_id"].to_numpy(), np.int64)
    times = times_of(rows)
    tables, code = np.unique(ids, return_inverse=True)
    minutes, at = np.unique(times, return_inverse=True)
    cells, place = np.unique(code * max(minutes.size, 1) + at, return_inverse=True)
    order = np.lexsort((np.asarray(rows["index"].to_numpy(), np.int64), place))
    sums = {
        name: cell_sums(place[order], sum_of(rows, columns)[order], cells.size)
        for name, columns in (
            ("read_rate", TABLE_READS),
            ("write_rate", TABLE_WRITES),
            ("request_rate", (*TABLE_READS, *TABLE_WRITES)),
        )
    }
    names = pa.array([str(one) for one in tables.tolist()], pa.string())
    subjects = names.take(pa.array(cells // max(minutes.size, 1)))
    when = minutes[cells % max(minutes.size, 1)] if minutes.size else times
    return trends_of("table", subjects, when, sums, period, recorded)


def node_minutes(rows: pa.Table) -> pa.Table:
    """Return a cluster minute by minute: what its living nodes serve is their flow.

    Args:
        rows: Columns :data:`FLOW_COLUMNS`.
    """
    alive = rows.filter(rows["is_alive"])
    served = np.zeros(alive.num_rows)
    for name in (*READS, *WRITES):
        served += np.nan_to_num(values_of(alive, name))
    return minutes_of(times_of(alive), served)


def table_names(store: HistoryStore, cluster: str) -> Mapping[str, str]:
    """Return the names of a cluster's tables by their ids, as far as they are recorded."""
    rows = store.rows("tables", cluster, columns=["app_id", "name"])
    pairs = zip(rows["app_id"].to_pylist(), rows["name"].to_pylist(), strict=True)
    return {str(app_id): name for app_id, name in pairs if name}


def _nodes(
    rows: pa.Table, period: Period, recorded: Mapping[int, int]
) -> Iterator[tuple[str, pa.Table]]:
    del recorded  # a minute without a row of a node is unknown
    yield "trends", node_day(rows, period)


def _tables(
    rows: pa.Table, period: Period, recorded: Mapping[int, int]
) -> Iterator[tuple[str, pa.Table]]:
    yield "trends", table_day(rows, period, recorded)


_TIER_RATES: Final = ("request_rate", "read_rate", "write_rate")


def _requests(rate: float) -> str:
    return format_per_s(rate, "op")


PEGASUS: Final = SystemTrends(
    system="pegasus",
    subjects=(
        TrendSubject(
            name="nodes",
            kind="node",
            rows="nodes",
            columns=NODE_COLUMNS,
            day=_nodes,
            flow="request_rate",
            flow_words=_requests,
            is_server=True,
            tier_measures={
                **{name: name for name in (*_TIER_RATES, "memory_mb")},
                "replicas": "replica_count",
                "primaries": "primary_count",
            },
        ),
        TrendSubject(
            name="tables",
            kind="table",
            rows="partition_loads",
            columns=TABLE_COLUMNS,
            day=_tables,
            flow="request_rate",
            flow_words=_requests,
            shared_by="app_id",
            names=table_names,
            tier_measures={name: name for name in _TIER_RATES},
        ),
    ),
    minute_rows="nodes",
    minute_columns=FLOW_COLUMNS,
    minutes=node_minutes,
)
