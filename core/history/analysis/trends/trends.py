"""Trends: what brokers, bundles, nodes and tables carried, by minute, hour and day.

Every period has mean, maximum and 95th percentile of what was recorded in it. A day of a cluster is
computed by itself, so that days can be spread over a machine or over many; periods never cross a
day. What is put together from days is in :mod:`core.history.analysis.trends.answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.analysis.requests import Period

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PERIOD_MS: Final[dict[str, int]] = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
DAY_MS: Final = PERIOD_MS["day"]

FAR_OFF: Final = 0.20
"""Deviation from which a minute counts as uneven: vivo's published target."""

_P95: Final = 0.95

TRENDS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # cluster | broker | bundle | node | table
        pa.field("subject", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("starts_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("mean", pa.float64(), nullable=False),
        pa.field("max", pa.float64(), nullable=False),
        pa.field("p95", pa.float64(), nullable=False),
        pa.field("minutes", pa.int64(), nullable=False),
    ]
)
"""One row a subject, measure and period. ``minutes``: recorded minutes that tell the value; those
in which a bundle or a table had no traffic count as zero, those in which a broker's value is
unknown do not count. Rates msg/s, throughput bytes/s, usage and deviation ratio."""

LAST: Final = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("taken_at", pa.int64(), nullable=False),
        pa.field("topic_count", pa.int64()),
        pa.field("msg_throughput", pa.float64()),
    ]
)
"""The last recorded row of each bundle: what it held when it was last busy."""

BROKER_COLUMNS: Final = (
    *("broker", "taken_at", "msg_rate_in", "msg_rate_out"),
    *("msg_throughput_in", "msg_throughput_out", "cpu_ratio", "direct_memory_ratio"),
    *("bandwidth_in_ratio", "bandwidth_out_ratio", "topic_count", "bundle_count"),
    *("producer_count", "consumer_count"),
)
BUNDLE_COLUMNS: Final = (
    *("bundle", "taken_at", "msg_rate_in", "msg_rate_out"),
    *("msg_throughput_in", "msg_throughput_out", "topic_count", "gone"),
)
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


# -- days ---------------------------------------------------------------------------------------


def broker_day(rows: pa.Table, period: Period) -> pa.Table:
    """Return trends of brokers and of the cluster as a whole; table of :data:`TRENDS`.

    The cluster's own measures are made minute by minute: ``deviation`` is the farthest distance of
    a broker's throughput from the mean, share of it; ``gap`` the throughput of the busiest broker
    less that of the idlest; ``usage_spread`` the highest usage over the mean, in ratio; the mean of
    ``uneven`` the share of minutes that are more than :data:`FAR_OFF` off.

    Args:
        rows: Columns :data:`BROKER_COLUMNS` of one cluster and day, in any order.
        period: What is summed up.
    """
    flow = _both(rows, "msg_throughput")
    usage = _largest(
        rows, ("cpu_ratio", "direct_memory_ratio", "bandwidth_in_ratio", "bandwidth_out_ratio")
    )
    measures = {
        "msg_throughput": flow,
        "msg_rate": _both(rows, "msg_rate"),
        "usage": usage,
        "bundle_count": _values(rows, "bundle_count"),
        "topic_count": _values(rows, "topic_count"),
        "client_count": _values(rows, "producer_count") + _values(rows, "consumer_count"),
    }
    times = _times(rows)
    whole = _by_minute(times, flow, usage)
    names = pa.array([""] * whole["taken_at"].size, pa.string())
    at = whole.pop("taken_at").astype(np.int64)
    return pa.concat_tables(
        [
            trends_of("broker", rows["broker"], times, measures, period),
            trends_of("cluster", names, at, whole, period),
        ]
    )


def minutes_of(rows: pa.Table) -> pa.Table:
    """Return the cluster minute by minute: ``taken_at``, ``deviation``, ``gap``, ``usage_spread``.

    Args:
        rows: Columns :data:`BROKER_COLUMNS`, at least names, times and throughput.
    """
    usage = np.full(rows.num_rows, np.nan)
    whole = _by_minute(_times(rows), _both(rows, "msg_throughput"), usage)
    return pa.table(
        {
            "taken_at": whole["taken_at"].astype(np.int64),
            "deviation": pa.array(whole["deviation"], pa.float64(), from_pandas=True),
            "gap": pa.array(whole["gap"], pa.float64(), from_pandas=True),
        }
    )


def bundle_day(rows: pa.Table, period: Period, recorded: Mapping[int, int]) -> pa.Table:
    """Return trends of bundles: a minute without a row is one without traffic.

    Args:
        rows: Columns :data:`BUNDLE_COLUMNS` of one cluster and day; any share of its bundles.
        period: What is summed up.
        recorded: Minutes that were recorded, by the start of their period.
    """
    rows = _present(rows)
    measures = {
        "msg_throughput": _both(rows, "msg_throughput"),
        "msg_rate": _both(rows, "msg_rate"),
    }
    return trends_of("bundle", rows["bundle"], _times(rows), measures, period, recorded)


def last_of(rows: pa.Table) -> pa.Table:
    """Return the last row of each bundle; table of :data:`LAST`."""
    rows = _present(rows)
    codes, names = _coded(rows["bundle"])
    times = _times(rows)
    order = np.lexsort((times, codes))
    is_last = np.append(np.diff(codes[order]) > 0, True)[: order.size]
    kept = order[is_last]
    flow = _both(rows, "msg_throughput")[kept]
    return pa.table(
        [
            names.take(pa.array(codes[kept])),
            pa.array(times[kept]),
            rows["topic_count"].take(pa.array(kept)).cast(pa.int64()).combine_chunks(),
            pa.array(flow, pa.float64(), from_pandas=True),
        ],
        schema=LAST,
    )


def node_day(rows: pa.Table, period: Period) -> pa.Table:
    """Return trends of Pegasus nodes that were alive, and of the cluster as a whole.

    ``deviation``: of what nodes serve, reads and writes, as of brokers' throughput.

    Args:
        rows: Columns :data:`NODE_COLUMNS` of one cluster and day.
        period: What is summed up.
    """
    rows = rows.filter(rows["is_alive"])
    reads, writes = _sum(rows, READS), _sum(rows, WRITES)
    measures = {
        "read_rate": reads,
        "write_rate": writes,
        "request_rate": reads + writes,
        "memory_mb": _values(rows, "resident_memory_mb"),
        "replica_count": _values(rows, "total_replicas"),
        "primary_count": _values(rows, "primary_replicas"),
    }
    times = _times(rows)
    whole = _by_minute(times, reads + writes, np.full(times.size, np.nan))
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
    rows = _present(rows)
    ids = np.asarray(rows["app_id"].to_numpy(), np.int64)
    times = _times(rows)
    tables, code = np.unique(ids, return_inverse=True)
    minutes, at = np.unique(times, return_inverse=True)
    cells, place = np.unique(code * max(minutes.size, 1) + at, return_inverse=True)
    order = np.lexsort((np.asarray(rows["index"].to_numpy(), np.int64), place))
    sums = {
        name: _cell_sums(place[order], _sum(rows, columns)[order], cells.size)
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


# -- arithmetic ---------------------------------------------------------------------------------


def trends_of(
    kind: str,
    subjects: pa.Array | pa.ChunkedArray,
    times: Ints,
    measures: Mapping[str, Floats],
    period: Period,
    recorded: Mapping[int, int] | None = None,
) -> pa.Table:
    """Sum measures up by subject and period.

    Args:
        kind: What the subjects are.
        subjects: Shape ``(n,)``.
        times: Of each row, ms.
        measures: By name, shape ``(n,)``; NaN: unknown, the row does not count.
        period: Of the answer.
        recorded: Minutes of each period, where a missing row is a zero; ``None``: what is missing
            is unknown.
    Returns:
        Table of :data:`TRENDS`, sorted by measure, subject and time; the same to the last bit
        whatever the order of the rows is.
    """
    codes, names = _coded(subjects)
    starts, when = np.unique(times // PERIOD_MS[period] * PERIOD_MS[period], return_inverse=True)
    groups = codes * max(starts.size, 1) + when
    parts = [TRENDS.empty_table()]
    for name in sorted(measures):
        values = measures[name]
        known = np.isfinite(values)
        found, stats = _stats(groups[known], values[known], _expected(groups, starts, recorded))
        row = {
            "kind": pa.repeat(pa.scalar(kind), found.size),
            "subject": names.take(pa.array(found // max(starts.size, 1))),
            "measure": pa.repeat(pa.scalar(name), found.size),
            "starts_at": starts[found % max(starts.size, 1)] if starts.size else found,
            **stats,
        }
        table = pa.table(row, schema=TRENDS)
        parts.append(table.sort_by([("subject", "ascending"), ("starts_at", "ascending")]))
    return pa.concat_tables(parts)


def _expected(groups: Ints, starts: Ints, recorded: Mapping[int, int] | None) -> Ints | None:
    """Return how many minutes each group has, by its number; ``None``: as many as its rows."""
    if recorded is None:
        return None
    by_start = np.array([recorded.get(int(start), 0) for start in starts.tolist()], np.int64)
    size = int(groups.max(initial=-1)) + 1
    return by_start[np.arange(size) % max(starts.size, 1)] if starts.size else None


def _stats(groups: Ints, values: Floats, expected: Ints | None) -> tuple[Ints, dict[str, object]]:
    """Return mean, maximum and 95th percentile of each group that has rows.

    Missing rows of a group that should have more are zeros, below all values, none of which is
    negative.
    """
    # sorted by value, so that sums do not depend on the order of the rows
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    found, first = np.unique(groups, return_index=True)
    count = np.diff(np.append(first, groups.size))
    total = count if expected is None else np.maximum(expected[found], count)
    sums = np.add.reduceat(values, first) if values.size else np.zeros(0)
    place = _P95 * (total - 1)
    low = np.floor(place).astype(np.int64)
    missing = total - count

    def nth(at: Ints) -> Floats:
        row = first + np.minimum(at, total - 1) - missing
        held = at >= missing
        return np.where(held, values[np.where(held, row, first)], 0.0)

    lower, upper = (nth(low), nth(low + 1)) if values.size else (sums, sums)
    return found, {
        "mean": sums / np.maximum(total, 1),
        "max": values[first + count - 1] if values.size else sums,
        "p95": lower + (upper - lower) * (place - low),
        "minutes": total,
    }


def _by_minute(times: Ints, flow: Floats, usage: Floats) -> dict[str, Floats]:
    """Return deviation, gap and spread of usage of every minute; NaN where unknown."""
    minutes = np.unique(times)
    known = np.isfinite(flow)
    at, first, mean = _means(minutes, times[known], flow[known])
    deviation, gap, spread = (np.full(minutes.size, np.nan) for _ in range(3))
    if at.size:
        values = flow[known][at.argsort(kind="stable")]
        here = np.unique(at)
        off = np.abs(values - mean[np.sort(at, kind="stable")])
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.maximum.reduceat(off, first) / mean[here]
        deviation[here] = np.where(mean[here] > 0, worst, np.nan)
        gap[here] = np.maximum.reduceat(values, first) - np.minimum.reduceat(values, first)
    told = np.isfinite(usage)
    if told.any():
        at, first, mean = _means(minutes, times[told], usage[told])
        here = np.unique(at)
        ordered = usage[told][at.argsort(kind="stable")]
        spread[here] = np.maximum.reduceat(ordered, first) - mean[here]
    return {
        "taken_at": minutes.astype(np.float64),
        "deviation": deviation,
        "gap": gap,
        "usage_spread": spread,
        "uneven": np.where(np.isfinite(deviation), deviation > FAR_OFF, np.nan),
    }


def _means(minutes: Ints, times: Ints, values: Floats) -> tuple[Ints, Ints, Floats]:
    """Return the minute of each row, where each minute begins once sorted, and its mean."""
    at = np.searchsorted(minutes, times)
    mean = np.full(minutes.size, np.nan)
    order = np.lexsort((values, at))  # by value: the sum does not depend on the rows' order
    here, first = np.unique(at[order], return_index=True)
    if values.size:
        count = np.diff(np.append(first, values.size))
        mean[here] = np.add.reduceat(values[order], first) / count
    return at, first, mean


def _cell_sums(places: Ints, values: Floats, size: int) -> Floats:
    known = np.nan_to_num(values)
    return np.asarray(np.bincount(places, weights=known, minlength=size), np.float64)


def _coded(names: pa.Array | pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    whole = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    coded = whole.cast(pa.string()).dictionary_encode()
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64), coded.dictionary


def _present(rows: pa.Table) -> pa.Table:
    """Leave out rows that say that something vanished."""
    return rows.filter(pc.invert(pc.fill_null(rows["gone"], fill_value=False)))


def _times(rows: pa.Table) -> Ints:
    return np.asarray(rows["taken_at"].to_numpy(), np.int64)


def _values(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(), np.float64)


def _both(rows: pa.Table, name: str) -> Floats:
    return _values(rows, f"{name}_in") + _values(rows, f"{name}_out")


def _largest(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """Return the largest of some columns; NaN where none is known."""
    columns = np.stack([_values(rows, name) for name in names])
    known = np.isfinite(columns)
    largest = np.where(known, columns, -np.inf).max(axis=0)
    return np.where(known.any(axis=0), largest, np.nan)


def _sum(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """Return the sum of some columns; a null counts as none, all null as unknown."""
    columns = np.stack([_values(rows, name) for name in names])
    known = np.isfinite(columns)
    return np.where(known.any(axis=0), np.where(known, columns, 0.0).sum(axis=0), np.nan)
