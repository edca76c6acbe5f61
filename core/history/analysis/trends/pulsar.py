"""Trends of brokers and bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from core.history.analysis.requests import Period
from core.history.analysis.trends.subject import SystemTrends, TrendSubject
from core.history.analysis.trends.trends import (
    LAST,
    by_minute,
    coded_names,
    in_and_out,
    largest_of,
    minutes_of,
    present,
    times_of,
    trends_of,
    values_of,
)
from core.units import format_bytes_per_s

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
FLOW_COLUMNS: Final = ("broker", "taken_at", "msg_throughput_in", "msg_throughput_out")


def broker_day(rows: pa.Table, period: Period) -> pa.Table:
    """Return trends of brokers and of the cluster as a whole; table of :data:`TRENDS`.

    The cluster's own measures are made minute by minute: ``deviation`` is the max deviation of
    a broker's throughput from the mean, share of it; ``gap`` the throughput of the busiest broker
    less that of the idlest; ``usage_spread`` the highest usage over the mean, in ratio; the mean of
    ``uneven`` the share of minutes that are more than :data:`FAR_OFF` off.

    Args:
        rows: Columns :data:`BROKER_COLUMNS` of one cluster and day, in any order.
        period: What is summed up.
    """
    flow = in_and_out(rows, "msg_throughput")
    usage = largest_of(
        rows, ("cpu_ratio", "direct_memory_ratio", "bandwidth_in_ratio", "bandwidth_out_ratio")
    )
    measures = {
        "msg_throughput": flow,
        "msg_rate": in_and_out(rows, "msg_rate"),
        "usage": usage,
        "bundle_count": values_of(rows, "bundle_count"),
        "topic_count": values_of(rows, "topic_count"),
        "client_count": values_of(rows, "producer_count") + values_of(rows, "consumer_count"),
    }
    times = times_of(rows)
    whole = by_minute(times, flow, usage)
    names = pa.array([""] * whole["taken_at"].size, pa.string())
    at = whole.pop("taken_at").astype(np.int64)
    return pa.concat_tables(
        [
            trends_of("broker", rows["broker"], times, measures, period),
            trends_of("cluster", names, at, whole, period),
        ]
    )


def broker_minutes(rows: pa.Table) -> pa.Table:
    """Return the cluster minute by minute, as :func:`minutes_of` does, by throughput.

    Args:
        rows: Columns :data:`FLOW_COLUMNS`.
    """
    return minutes_of(times_of(rows), in_and_out(rows, "msg_throughput"))


def bundle_day(rows: pa.Table, period: Period, recorded: Mapping[int, int]) -> pa.Table:
    """Return trends of bundles: a minute without a row is one without traffic.

    Args:
        rows: Columns :data:`BUNDLE_COLUMNS` of one cluster and day; any share of its bundles.
        period: What is summed up.
        recorded: Minutes that were recorded, by the start of their period.
    """
    rows = present(rows)
    measures = {
        "msg_throughput": in_and_out(rows, "msg_throughput"),
        "msg_rate": in_and_out(rows, "msg_rate"),
    }
    return trends_of("bundle", rows["bundle"], times_of(rows), measures, period, recorded)


def last_of(rows: pa.Table) -> pa.Table:
    """Return the last row of each bundle; table of :data:`LAST`."""
    rows = present(rows)
    codes, names = coded_names(rows["bundle"])
    times = times_of(rows)
    order = np.lexsort((times, codes))
    is_last = np.append(np.diff(codes[order]) > 0, True)[: order.size]
    latest = order[is_last]
    flow = in_and_out(rows, "msg_throughput")[latest]
    return pa.table(
        [
            names.take(pa.array(codes[latest])),
            pa.array(times[latest]),
            rows["topic_count"].take(pa.array(latest)).cast(pa.int64()).combine_chunks(),
            pa.array(flow, pa.float64(), from_pandas=True),
        ],
        schema=LAST,
    )


def _brokers(
    rows: pa.Table, period: Period, recorded: Mapping[int, int]
) -> Iterator[tuple[str, pa.Table]]:
    del recorded  # a minute without a row of a broker is unknown
    yield "trends", broker_day(rows, period)


def _bundles(
    rows: pa.Table, period: Period, recorded: Mapping[int, int]
) -> Iterator[tuple[str, pa.Table]]:
    yield "trends", bundle_day(rows, period, recorded)
    yield "last", last_of(rows)


PULSAR: Final = SystemTrends(
    system="pulsar",
    subjects=(
        TrendSubject(
            name="brokers",
            kind="broker",
            rows="brokers",
            columns=BROKER_COLUMNS,
            day=_brokers,
            flow="msg_throughput",
            flow_words=format_bytes_per_s,
            is_server=True,
            tier_measures={
                **{name: name for name in ("msg_throughput", "msg_rate", "usage")},
                "bundles": "bundle_count",
                "topics": "topic_count",
            },
        ),
        TrendSubject(
            name="bundles",
            kind="bundle",
            rows="bundle_loads",
            columns=BUNDLE_COLUMNS,
            day=_bundles,
            flow="msg_throughput",
            flow_words=format_bytes_per_s,
            shared_by="bundle",
            is_headline=True,
            tier_measures={name: name for name in ("msg_throughput", "msg_rate")},
        ),
    ),
    minute_rows="brokers",
    minute_columns=FLOW_COLUMNS,
    minutes=broker_minutes,
)
