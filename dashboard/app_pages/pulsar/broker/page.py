"""One broker: its resources against their limits, its bundles, what it gained and lost."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.errors import UnknownNameError
from core.units import pluralize
from dashboard import state
from dashboard.app_pages.pulsar.broker import model
from dashboard.charts.bars import resource_bars
from dashboard.charts.treemap import bundle_treemap
from dashboard.components import figures, frame, tables, words
from dashboard.components.activity import past_of
from dashboard.components.pulsar import explain, metrics
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option
from dashboard.presenters.moves import moves_frame, moves_sentence
from dashboard.presenters.pulsar import bundles as bundle_rows
from dashboard.presenters.pulsar.metrics import facts as metric_facts
from dashboard.queries.pulsar.snapshots import moves_seen
from dashboard.queries.snapshots import span_minutes, thinned, within

page = frame.open_page("Broker", PulsarPage)
reading = page.reading
snapshot = reading.snapshot
names = list(reading.measures.brokers)
named = state.text(state.BROKER)
if named and named not in names:
    words.failed(
        UnknownNameError.of("broker", named, names, place="this snapshot"),
        what="No such broker",
    )
    st.session_state[state.BROKER] = None
if not names:
    words.nothing("No broker is in this snapshot", snapshot.manifest)
    st.stop()
broker = st.selectbox(
    "Broker",
    names,
    index=None,
    placeholder="Choose a broker",
    format_func=option,
    key=state.BROKER,
    bind="query-params",
    label_visibility="collapsed",
    width=320,
)
if broker is None:
    words.answer("Choose a broker.")
    st.stop()
row = model.row_number(snapshot, broker)
assert row is not None  # noqa: S101  # the chooser offers the snapshot's own names
source = model.usage_source(snapshot, reading.settings, row)
words.answer(model.answer(reading.measures, broker, source))

left, right = st.columns([0.58, 0.42], gap="medium")
with left:
    words.section("Resources", "Use against the limit the broker reports; * gives its usage.")
    parts = model.resources(snapshot, reading.settings, row)
    figures.chart(
        resource_bars(parts.names, parts.ratios, parts.texts, limiting=parts.limiting),
        key="broker_resources",
        alt=f"Resources of {broker}; limited by {parts.limiting or 'unknown'}",
    )
with right:
    words.section("About")
    facts = {name: words.plain(text) for name, text in model.facts(snapshot, row).items()}
    st.table(facts, border="horizontal", alt=f"Facts about {broker}")
metrics.panel(metric_facts(snapshot, broker), broker)

mine = model.bundles_of(reading.movable, broker)
words.section("Its bundles", "Hottest first. Tick bundles to preview their unload together.")
if mine.num_rows == 0:
    st.info("It owns no bundle that can move.", icon=":material/inbox:")
else:
    rows = bundle_rows.rows_of(mine.slice(0, 500))
    figures.chart(
        bundle_treemap(bundle_rows.treemap_data(mine, "namespace"), height=300),
        key="broker_treemap",
        alt=f"Traffic of the bundles of {broker} by namespace",
    )
    picked = tables.grid(
        rows,
        hide_index=True,
        column_order=["bundle", "throughput", "msg_rate", "long_rate", "topics", "share"],
        column_config={
            "bundle": tables.opener("Bundle", "_broker_bundle", frame.bundle_link),
            "throughput": tables.megabytes("Traffic"),
            "msg_rate": tables.rate("Rate"),
            "long_rate": tables.rate("Long"),
            "topics": tables.whole("Topics"),
            "share": tables.percent("Ring"),
        },
        key="broker_bundles",
        alt=f"Bundles of {broker}",
        height=min(420, tables.height_of(len(rows))),
        row_height=tables.ROW_PX,
        on_select="rerun",
        selection_mode="multi-row",
    )
    names_shown = rows["bundle"].tolist()
    chosen = [names_shown[at] for at in picked.selection.rows if at < len(names_shown)]
    state.note_ticked(is_any=bool(chosen))
    with st.container(horizontal=True):
        st.button(
            f"Preview unload of {pluralize(len(chosen), 'bundle')}" if chosen else "Preview unload",
            type="primary",
            icon=":material/swap_horiz:",
            disabled=not chosen,
            help="Tick bundles first." if not chosen else None,
            on_click=frame.unload_link,
            args=(chosen,),
        )
    tables.downloads(
        rows, cluster=page.name, what=f"bundles-of-{broker}", moment=page.stored.taken_at
    )

words.section("Gains and losses")
window = thinned(within(page.saved.entries, page.stored.taken_at, timedelta(hours=1)), 30)
moves = model.of_broker(moves_seen(window), broker)
st.caption(moves_sentence(moves, span_minutes(window)) + " Inferred from snapshots.")
if moves:
    tables.table(
        moves_frame(moves),
        {
            "seen_at": st.column_config.DatetimeColumn("Seen (UTC)", format="HH:mm:ss"),
            "bundle": tables.opener("Bundle", "_moved_bundle", frame.bundle_link),
            "from": tables.words("From"),
            "to": tables.words("To"),
            "mark": tables.words("Mark"),
        },
        key="broker_moves",
        alt=f"Bundles that {broker} gained or lost in the last hour",
    )
reported = model.reported_moves(snapshot, row)
if reported["gains"] or reported["losses"]:
    st.caption(
        f"Its own last report: gained {len(reported['gains'])}, lost {len(reported['losses'])}."
    )

explain.broker_panels(page, broker)
past_of(page.config, page.name, broker, key="broker")

words.section("Settings that differ", "Load-balancer settings with another value on other brokers.")
differing = model.own_settings(reading.settings, broker)
if differing.empty:
    st.caption("None: it runs with the same load-balancer settings as every other broker.")
else:
    tables.grid(differing, hide_index=True, key="broker_settings", alt="Settings that differ")
