"""The tabs of the Brokers page; each is computed when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pulsar.measures import DEFAULT_TARGET
from dashboard.app_pages.pulsar.brokers import model
from dashboard.components import frame, tables
from dashboard.components.pulsar import metrics
from dashboard.presenters.pulsar.metrics import source_line
from dashboard.queries.pulsar.broker_load import counted_and_seen
from dashboard.queries.snapshots import thinned

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.pulsar.brokers.model import BrokerMeasure
    from dashboard.charts.heatmap import HeatmapData
    from dashboard.components.pulsar.page import PulsarPage

_IN_SIGHT: Final = 16
_MAX_SEEN: Final = 30


def brokers_tab(
    page: PulsarPage,
    history: Sequence[tuple[datetime, pa.Table]],
    measure: BrokerMeasure,
    entries: Sequence[CachedSnapshot],
) -> None:
    """Show one row a broker.

    Args:
        page: Of the cluster.
        history: Time and brokers table over the chosen window, oldest first.
        measure: The chosen one; it is what the sparklines show.
        entries: Saved snapshots of the window, oldest first.
    """
    reading = page.reading
    snapshot = reading.snapshot
    source = source_line(snapshot)
    rows = model.brokers_table(
        snapshot, reading.measures, reading.settings, reading.measures.throughput
    )
    rows["bar"] = tables.deviation_bars(rows["deviation"] / 100, DEFAULT_TARGET.bound)
    rows["trend"] = model.trends(history, measure, reading.settings, rows["broker"].tolist())
    tables.table(
        rows,
        {
            "broker": tables.opener("Broker", "_open_broker", frame.broker_link),
            "usage": tables.percent("Usage", "Weighted maximum over the resources."),
            "limiting": tables.words(
                "Usage of", "The resource that gives the weighted maximum, with its weight."
            ),
            "bar": tables.deviation("Traffic vs. mean", "Grey: the target band."),
            "deviation": tables.signed_percent("Deviation", "Of the traffic from the mean."),
            "band": tables.status(
                "Traffic band", model.BANDS, "Traffic against the target band of ±20%."
            ),
            "trend": tables.sparkline(measure.label, "Over the chosen window."),
            "throughput": tables.megabytes("Traffic", "In plus out."),
            "msg_rate": tables.rate("Rate", "In plus out, from the last load report."),
            "bundles": tables.whole("Bundles", "Owned bundles that can move."),
            "clients": tables.whole("Clients", "Producers and consumers."),
            "cpu": tables.percent("CPU"),
            "bandwidth_in": tables.percent("NIC in"),
            "bandwidth_out": tables.percent("NIC out"),
            **(metrics.columns() if source else {}),
            "short_rate": tables.rate("Short", "Short-term average, as the leader keeps it."),
            "long_rate": tables.rate("Long", "Long-term average, as the leader keeps it."),
            "topics": tables.whole("Topics"),
            "report_age_s": tables.seconds("Report", "Age of the load report when it was read."),
            "role": tables.words("Role"),
            "version": tables.words("Version"),
        },
        key="brokers_table",
        alt="All brokers with their load, the hottest first",
        height=tables.height_of(min(len(rows), _IN_SIGHT)),
    )
    if source:
        counted = counted_and_seen(
            thinned(entries, _MAX_SEEN), snapshot.broker_metrics, page.stored.taken_at
        )
        metrics.source_line(source, counted)
    tables.downloads(
        rows.drop(columns=["bar", "trend"]),
        cluster=page.name,
        what="brokers",
        moment=page.stored.taken_at,
    )


def over_time_tab(page: PulsarPage, data: HeatmapData) -> None:
    """Show the chart as a table."""
    rows = model.over_time_table(data)
    number = st.column_config.NumberColumn
    unit = model.unit_of(data)
    tables.table(
        rows,
        {
            "at": st.column_config.DatetimeColumn("UTC", format="YYYY-MM-DD HH:mm:ss"),
            **{
                name: number(f"{name} {unit}".rstrip(), format="%,.1f")
                for name in rows.columns
                if name != "at"
            },
        },
        key="brokers_over_time",
        alt=f"{data.label} of each broker over time",
        height=tables.height_of(min(len(rows), _IN_SIGHT)),
    )
    tables.downloads(rows, cluster=page.name, what="brokers-over-time", moment=page.stored.taken_at)
