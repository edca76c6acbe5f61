"""One broker: its load over time against the limit and the cluster, its bundles, why it sheds."""

from __future__ import annotations

import streamlit as st

from core.errors import UnknownNameError
from core.history.queries.sql import Period
from dashboard import state
from dashboard.app_pages.pulsar.broker import model, view
from dashboard.charts.lines import history_lines
from dashboard.components import figures, frame, long_term, tables, time_range, words
from dashboard.components.pulsar import explain
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option
from dashboard.presenters.moments import last_span
from dashboard.queries.pulsar.broker_load import believed, brokers_over, moves_over
from dashboard.queries.snapshots import within

page = frame.open_page("Broker", PulsarPage)
reading = page.reading
snapshot, settings, measures = reading.snapshot, reading.settings, reading.measures
names = reading.brokers
named = state.text(state.BROKER)
if named and named not in names:
    words.failed(
        UnknownNameError.of("broker", named, names, place="this snapshot"),
        what="Unknown broker",
    )
    st.session_state[state.BROKER] = None
if not names:
    words.nothing("No brokers in this snapshot", snapshot.manifest)
    st.stop()
with st.container(horizontal=True, vertical_alignment="center"):
    broker = st.selectbox(
        "Broker",
        names,
        index=None,
        placeholder="Select a broker",
        format_func=option,
        key=state.BROKER,
        bind="query-params",
        label_visibility="collapsed",
        width=320,
    )
    actions = st.container(horizontal=True, horizontal_alignment="right")
if broker is None:
    view.draw_brokers(measures)
    st.stop()
row = model.row_number(snapshot, broker)
assert row is not None  # noqa: S101  # the chooser offers the snapshot's own names
words.title(f"Broker {broker}", model.subtitle(snapshot, row, settings))

for one in model.problems(reading.findings, broker):
    show = st.error if one.severity == "error" else st.warning
    show(words.plain(f"{one.text} {one.hint}".rstrip()), icon=":material/warning:")

figures_place = st.container()
left, right = frame.columns([0.56, 0.44], key="broker")
with left, st.container(horizontal=True, vertical_alignment="bottom"):
    heading = st.container(width="content")
    st.space("stretch")
    span = time_range.pick_of_page(page)
end = page.stored.taken_at
period = Period(end - span, end)
entries = within(page.saved.entries, end, span)
recorded = brokers_over(page.config, page.cluster, entries, period)
history = believed(recorded, snapshot, settings)
limiting = model.limiting_column(snapshot, settings, row)
past = model.past(history, broker, settings, limiting)
moves = moves_over(page.config, page.cluster, entries, period, broker)
with figures_place:
    figures.key_figures(
        model.key_figures(snapshot, measures, settings, row, past),
        key="broker",
    )
shown = last_span(past.times, span)
with heading:
    words.section(f"Usage, {shown}")
with left:
    limit = settings.number(model.OVERLOADED) / 100
    started = snapshot.brokers["started_at"][row].as_py()
    figures.chart(
        history_lines(
            past.times,
            model.usage_lines(past, broker),
            "ratio",
            events=model.events(moves, broker, started, period.start),
            limit=(limit, "overload limit"),
            height=226,
        ),
        key="broker_usage",
        alt=model.describe_chart(broker, measures, limiting, limit, shown),
    )
with right:
    words.section("Resources", "* determines the usage")
    tables.table(
        model.resources(snapshot, settings, row),
        {
            "resource": tables.words("Resource", width_px=108),
            "use": tables.share("Use of limit"),
            "value": st.column_config.TextColumn("Value", alignment="right"),
            "limit": st.column_config.TextColumn("Limit", alignment="right"),
            "weight": st.column_config.TextColumn("Weight", alignment="right"),
        },
        key="broker_resources",
        alt=f"Resources of {broker} with limits and weights",
    )

mine = model.bundles_of(reading.movable, broker)
bundles, shedding, leader, latency, events, own = st.tabs(
    model.TABS, key=state.VIEW, on_change="rerun", bind="query-params"
)
chosen: list[str] = []
if bundles.open:
    with bundles:
        chosen = view.bundles_tab(page, broker, mine, entries)
if shedding.open:
    with shedding:
        view.shedding_tab(page, broker)
if leader.open:
    with leader:
        explain.leader_panel(page, broker, model.LEADER)
if latency.open:
    with latency:
        view.latency_tab(page, broker)
if events.open:
    with events:
        view.events_tab(page, broker, moves, span, model.usage_table(past), row)
if own.open:
    with own:
        view.settings_tab(page, broker, row)
with actions:
    long_term.link("broker", broker)
    st.button(
        model.unload_label(len(chosen)),
        type="primary",
        icon=":material/swap_horiz:",
        disabled=not mine.num_rows,
        help="Preview an unload of the selected or hottest bundles.",
        on_click=frame.unload_link,
        args=(chosen or mine["bundle"].slice(0, 1).to_pylist(),),
    )
