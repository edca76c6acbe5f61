"""The tabs of the Brokers page; each is computed when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.pulsar.liveness import ALIVE
from core.units import format_band
from dashboard.app_pages.pulsar.brokers import model
from dashboard.components import frame, tables, words
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
_IN_SIGHT_OF_TWO: Final = 10
_MAX_SEEN: Final = 30


def brokers_tab(
    page: PulsarPage,
    history: Sequence[tuple[datetime, pa.Table]],
    measure: BrokerMeasure,
) -> None:
    """Render the deviation of each broker from the mean of the chosen measure, as the chart does.

    Args:
        page: Of the cluster.
        history: Time and brokers table over the chosen window, oldest first.
        measure: The chosen one.
    """
    reading = page.reading
    rows = model.brokers_table(reading.snapshot, reading.measures, reading.settings, measure)
    target = reading.measures.target.bound
    rows["bar"] = tables.deviation_bars(rows["deviation"] / 100, target)
    rows["trend"] = model.trends(history, measure, reading.settings, rows["broker"].tolist())
    tables.table(
        rows,
        {
            "broker": _broker("_open_broker"),
            **({} if (rows["state"] == ALIVE).all() else {"state": _state()}),
            "band": tables.status(
                "Band",
                model.BANDS,
                f"{measure.label} vs. target band {format_band(target)}.",
            ),
            "bar": tables.deviation(f"{measure.label} vs mean", "Grey: the target band."),
            "deviation": tables.signed_percent(
                f"{measure.label} deviation",
                f"{measure.label} vs. mean of all brokers.",
                width_px=108,
            ),
            "trend": tables.sparkline("Trend", f"{measure.label} over the selected window."),
            "usage": tables.percent("Usage", "Highest weighted resource usage.", width_px=66),
            "limiting": tables.words(
                "Top resource", "Resource with the highest weighted usage.", width_px=84
            ),
            "throughput": tables.megabytes("Traffic", "In plus out.", width_px=84),
            "bundles": tables.whole("Bundles", "Owned movable bundles.", width_px=66),
        },
        key="brokers_table",
        alt=f"All brokers by {measure.label}, highest first",
        height=tables.height_within(len(rows), _IN_SIGHT),
    )
    tables.downloads(
        model.as_file(rows, measure),
        cluster=page.name,
        what="brokers",
        moment=page.stored.taken_at,
    )


def _state() -> tables.Column:
    return tables.words(
        "State", "Alive or not, with the reason; loads of dead brokers are unknown."
    )


def _broker(key: str) -> tables.Column:
    return tables.opener("Broker", key, frame.broker_link, width_px=134)


def resources_tab(
    page: PulsarPage, measure: BrokerMeasure, entries: Sequence[CachedSnapshot]
) -> None:
    """Draw the resources of each broker, its metrics, and its load report.

    Args:
        page: Of the cluster.
        measure: The chosen one: the order of the brokers.
        entries: Saved snapshots of the window, oldest first.
    """
    reading = page.reading
    snapshot = reading.snapshot
    rows = model.brokers_table(snapshot, reading.measures, reading.settings, measure)
    source = source_line(snapshot)
    height = tables.height_of(min(len(rows), _IN_SIGHT if not source else _IN_SIGHT_OF_TWO))
    tables.table(
        rows,
        {
            "broker": _broker("_open_resources"),
            "cpu": tables.percent("CPU", width_px=66),
            "bandwidth_in": tables.percent("NIC in", width_px=66),
            "bandwidth_out": tables.percent("NIC out", width_px=70),
            "msg_rate": tables.rate("Rate", "In plus out, from the last load report."),
            "short_rate": tables.rate("Short", "Short-term average of the leader."),
            "long_rate": tables.rate("Long", "Long-term average of the leader."),
            "clients": tables.whole("Clients", "Producers and consumers.", width_px=66),
            "topics": tables.whole("Topics", width_px=62),
            "report_age_s": tables.seconds("Report", "Age of the load report."),
            "state": _state(),
        },
        key="brokers_resources",
        alt="All brokers with resources and load reports",
        height=height,
    )
    if not source:
        return
    words.section("Metrics")
    columns = metrics.columns()
    if rows[list(columns)].isna().all(axis=None):
        st.caption("Could not read broker metrics.")
    else:
        tables.table(
            rows,
            {"broker": _broker("_open_metrics"), **columns},
            key="brokers_metrics",
            alt="All brokers with latency and heap",
            height=height,
        )
    counted = counted_and_seen(
        thinned(entries, _MAX_SEEN), snapshot.broker_metrics, page.stored.taken_at
    )
    metrics.source_line(source, counted)


def over_time_tab(page: PulsarPage, data: HeatmapData) -> None:
    """Show the chart as a table: a row a broker; the download has every moment."""
    if not data.times:
        st.caption("No saved snapshots in this window.")
        return
    rows = model.over_time_rows(data)
    unit = model.unit_of(data)

    def number(label: str, help_text: str = "") -> tables.Column:
        return st.column_config.NumberColumn(
            f"{label} {unit}".rstrip(), format="%,.1f", help=help_text or None
        )

    tables.table(
        rows,
        {
            "name": tables.words("Broker"),
            "trend": tables.sparkline("Trend"),
            "first": number("First"),
            "min": number("Min"),
            "mean": number("Mean"),
            "max": number("Max"),
            "max_at": st.column_config.DatetimeColumn("Max at (UTC)", format="YYYY-MM-DD HH:mm:ss"),
            "last": number("Last"),
        },
        key="brokers_over_time",
        alt=f"{data.label} of each broker over time",
        height=tables.height_within(len(rows), _IN_SIGHT),
    )
    tables.downloads(
        model.over_time_table(data),
        cluster=page.name,
        what="brokers-over-time",
        moment=page.stored.taken_at,
    )
