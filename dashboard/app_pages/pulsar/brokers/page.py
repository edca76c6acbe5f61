"""Brokers: who is hot, against what, since when."""

from __future__ import annotations

import streamlit as st

from core.history.queries.sql import Period
from core.pulsar.liveness import liveness_of
from core.units import format_age
from dashboard import state
from dashboard.app_pages.pulsar.brokers import model, view
from dashboard.app_pages.pulsar.brokers.model import BROKER_MEASURES, broker_measure
from dashboard.charts.heatmap import broker_heatmap
from dashboard.components import choice, figures, findings, frame, time_range, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.pulsar.system import PULSAR
from dashboard.queries.pulsar.broker_load import believed, brokers_over
from dashboard.queries.snapshots import within

page = frame.open_page("Brokers", PulsarPage)
reading = page.reading
snapshot, settings, measures = reading.snapshot, reading.settings, reading.measures
registered = set(reading.brokers) & set(liveness_of(snapshot, settings).dead)
words.title("Brokers", model.subtitle(measures, len(registered)))

if snapshot.brokers.num_rows == 0:
    words.nothing("No brokers in this snapshot", snapshot.manifest)
    st.stop()

numbers = st.container()
with st.container(horizontal=True, vertical_alignment="center"):
    key = choice.segmented(
        "Measure",
        [measure.key for measure in BROKER_MEASURES],
        key=state.MEASURE,
        format_func=lambda key: broker_measure(key).label,
    )
    span = time_range.pick_of_page(page, first="15 min", default="1 h")
    note = st.container()
measure = broker_measure(key)
end = page.stored.taken_at
entries = within(page.saved.entries, end, span)
recorded = brokers_over(page.config, page.cluster, entries, Period(end - span, end))
history = believed(recorded, snapshot, settings)
with numbers:
    found = model.key_figures(snapshot, measures, settings, history, reading.movable)
    figures.key_figures(found, key="brokers")
data = model.heatmap_data(
    history, measure, settings, measures.target.bound, aside=measures.throughput.set_aside_names
)
note.caption(words.plain(model.heatmap_note(data, total=snapshot.brokers.num_rows)))
figures.chart(
    broker_heatmap(data),
    key="brokers_heatmap",
    alt=f"{measure.label} of each broker over the last {format_age(span.total_seconds())}; "
    f"highest now: {data.rows[0] if data.rows else 'unknown'}.",
)

about = PULSAR.findings_of("brokers", reading.findings)
brokers, resources, wrong, over_time = st.tabs(
    ["Brokers", "Resources", "Findings", "Over time"],
    key=state.VIEW,
    on_change="rerun",
    bind="query-params",
)
if brokers.open:
    with brokers:
        view.brokers_tab(page, history, measure)
if resources.open:
    with resources:
        view.resources_tab(page, measure, entries)
if wrong.open:
    with wrong:
        findings.show(findings.of_cluster(page, about), key="brokers", moment=page.stored.taken_at)
if over_time.open:
    with over_time:
        view.over_time_tab(page, data)
