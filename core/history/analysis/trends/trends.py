"""Arithmetic of trends: what subjects carried, by minute, hour and day.

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
from core.history.store.layout import DAY_MS, HOUR_MS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PERIOD_MS: Final[dict[str, int]] = {"minute": 60_000, "hour": HOUR_MS, "day": DAY_MS}

FAR_OFF: Final = 0.20
"""Deviation from which a minute counts as uneven: vivo's published target."""

_P95: Final = 0.95

TRENDS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # cluster | broker | bundle | ...
        pa.field("subject", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("starts_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("mean", pa.float64(), nullable=False),
        pa.field("max", pa.float64(), nullable=False),
        pa.field("p95", pa.float64()),
        pa.field("minutes", pa.int64(), nullable=False),
    ]
)
"""One row a subject, measure and period. ``minutes``: recorded minutes that have the value; those
in which a bundle or a table had no traffic count as zero, those in which a broker's value is
unknown do not count. From hours and days, percentiles are at most 3.1% off, null where a tier has
none, and minutes in which a bundle did not exist do not count. Rates msg/s, throughput bytes/s,
usage and deviation ratio."""

LAST: Final = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("taken_at", pa.int64(), nullable=False),
        pa.field("topic_count", pa.int64()),
        pa.field("msg_throughput", pa.float64()),
    ]
)
"""The last recorded row of each bundle: what it held when it was last busy."""


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
        recorded: Minutes of each period, where a missing row is 0; ``None`` if what is missing
            is unknown.
    Returns:
        Table of :data:`TRENDS`, sorted by measure, subject and time; the same to the last bit
        whatever the order of the rows is.
    """
    codes, names = coded_names(subjects)
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
    """Return the expected minutes of each group, by number, or ``None`` for its row count."""
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


NO_MINUTES: Final = pa.table(
    {
        "taken_at": pa.array([], pa.int64()),
        "deviation": pa.array([], pa.float64()),
        "gap": pa.array([], pa.float64()),
    }
)
"""A cluster of which no deviation is known."""


def minutes_of(times: Ints, flow: Floats) -> pa.Table:
    """Return a cluster minute by minute: ``taken_at``, ``deviation`` and ``gap``.

    Args:
        times: Of each row of a server, ms.
        flow: By which the servers are busy, shape as ``times``; NaN: unknown.
    """
    whole = by_minute(times, flow, np.full(times.size, np.nan))
    return pa.table(
        {
            "taken_at": whole["taken_at"].astype(np.int64),
            "deviation": pa.array(whole["deviation"], pa.float64(), from_pandas=True),
            "gap": pa.array(whole["gap"], pa.float64(), from_pandas=True),
        }
    )


def by_minute(times: Ints, flow: Floats, usage: Floats) -> dict[str, Floats]:
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
    reported = np.isfinite(usage)
    if reported.any():
        at, first, mean = _means(minutes, times[reported], usage[reported])
        here = np.unique(at)
        ordered = usage[reported][at.argsort(kind="stable")]
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


def cell_sums(places: Ints, values: Floats, size: int) -> Floats:
    """Return the sums of ``values`` by place, shape ``(size,)``; unknown ones count as none."""
    known = np.nan_to_num(values)
    return np.asarray(np.bincount(places, weights=known, minlength=size), np.float64)


def coded_names(names: pa.Array | pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return the codes of names, shape ``(n,)``, and the distinct names."""
    whole = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    coded = whole.cast(pa.string()).dictionary_encode()
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64), coded.dictionary


def present(rows: pa.Table) -> pa.Table:
    """Leave out rows that say that something vanished."""
    return rows.filter(pc.invert(pc.fill_null(rows["gone"], fill_value=False)))


def times_of(rows: pa.Table) -> Ints:
    """Return ``taken_at`` of the rows, ms."""
    return np.asarray(rows["taken_at"].to_numpy(), np.int64)


def values_of(rows: pa.Table, name: str) -> Floats:
    """Return a column, NaN where it is null."""
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(), np.float64)


def in_and_out(rows: pa.Table, name: str) -> Floats:
    """Return the sum of inbound and outbound."""
    return values_of(rows, f"{name}_in") + values_of(rows, f"{name}_out")


def largest_of(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """Return the largest of some columns; NaN where none is known."""
    columns = np.stack([values_of(rows, name) for name in names])
    known = np.isfinite(columns)
    largest = np.where(known, columns, -np.inf).max(axis=0)
    return np.where(known.any(axis=0), largest, np.nan)


def sum_of(rows: pa.Table, names: tuple[str, ...]) -> Floats:
    """Return the sum of some columns; a null counts as none, all null as unknown."""
    columns = np.stack([values_of(rows, name) for name in names])
    known = np.isfinite(columns)
    return np.where(known.any(axis=0), np.where(known, columns, 0.0).sum(axis=0), np.nan)
