"""Brokers: who is hot, against what, since when."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.history.queries.sql import Period
from core.pulsar.measures import balance_sentence
from dashboard import state
from dashboard.app_pages.pulsar.brokers import model
from dashboard.app_pages.pulsar.brokers.model import BROKER_MEASURES, broker_measure
from dashboard.app_pages.pulsar.brokers.queries import brokers_over, counted_and_seen
from dashboard.charts.heatmap import broker_heatmap
from dashboard.components import choice, figures, frame, tables, words
from dashboard.components.pulsar import metrics
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.pulsar.metrics import source_line
from dashboard.queries.snapshots import thinned, within

WINDOWS = {
    "15 min": timedelta(minutes=15),
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "24 h": timedelta(hours=24),
}

page = frame.open_page("Brokers", PulsarPage)
reading = page.reading
words.answer(balance_sentence(reading.measures))

if reading.snapshot.brokers.num_rows == 0:
    words.nothing("No broker is in this snapshot", page.reading.snapshot.manifest)
    st.stop()

with st.container(horizontal=True, vertical_alignment="center"):
    key = choice.segmented(
        "Measure",
        [measure.key for measure in BROKER_MEASURES],
        key=state.MEASURE,
        say=lambda key: broker_measure(key).label,
    )
    window = st.segmented_control(
        "Window",
        list(WINDOWS),
        default="1 h",
        required=True,
        key=state.WINDOW,
        bind="query-params",
        label_visibility="collapsed",
    )
measure = broker_measure(key)
end, span = page.stored.taken_at, WINDOWS[window or "1 h"]
entries = within(page.saved.entries, end, span)
history = brokers_over(page.config, page.cluster, entries, Period(end - span, end))
data = model.heatmap_data(history, measure, reading.settings)
words.section(
    f"{measure.label}, last {window}",
    model.heatmap_note(data, measure, total=reading.snapshot.brokers.num_rows),
)
figures.chart(
    broker_heatmap(data),
    key="brokers_heatmap",
    alt=f"{measure.label} of each broker over the last {window}; "
    f"the hottest now is {data.rows[0] if data.rows else 'unknown'}.",
)

words.section("All brokers", "Click a broker to open it. Deviation is of traffic from the mean.")
source = source_line(reading.snapshot)
rows = model.brokers_table(
    reading.snapshot, reading.measures, reading.settings, reading.measures.throughput
)
tables.table(
    rows,
    {
        "broker": tables.opener("Broker", "_open_broker", frame.broker_link),
        "usage": tables.percent("Usage", "Weighted maximum over the resources."),
        "limiting": tables.words(
            "Usage of", "The resource that gives the weighted maximum, with its weight."
        ),
        "deviation": tables.signed_percent("Deviation", "Traffic against the mean of all brokers."),
        "band": tables.words("Target band", "Within 20% of the mean, or how far outside."),
        "cpu": tables.percent("CPU"),
        "bandwidth_in": tables.percent("NIC in"),
        "bandwidth_out": tables.percent("NIC out"),
        "throughput": tables.megabytes("Traffic", "In plus out."),
        **(metrics.columns() if source else {}),
        "msg_rate": tables.rate("Rate", "In plus out, from the last load report."),
        "short_rate": tables.rate("Short", "Short-term average, as the leader keeps it."),
        "long_rate": tables.rate("Long", "Long-term average, as the leader keeps it."),
        "bundles": tables.whole("Bundles", "Owned bundles that can move."),
        "topics": tables.whole("Topics"),
        "clients": tables.whole("Clients", "Producers and consumers."),
        "report_age_s": tables.seconds("Report", "Age of the load report when it was read."),
        "role": tables.words("Role"),
        "version": tables.words("Version"),
    },
    key="brokers_table",
    alt="All brokers with their load, the hottest first",
    height=min(640, tables.height_of(len(rows))),
)
if source:
    counted = counted_and_seen(thinned(entries, 30), reading.snapshot.broker_metrics, end)
    metrics.source_line(source, counted)
tables.downloads(rows, cluster=page.name, what="brokers", moment=page.stored.taken_at)
