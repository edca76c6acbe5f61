"""One bundle: its owner, its place on the ring, its load, its topics and its past."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.errors import InputError, RemoteError, UnknownNameError
from core.ids import namespace_of, parse_range
from core.snapshot import PulsarSnapshot
from dashboard import services, state
from dashboard.app_pages.pulsar.bundle import model
from dashboard.app_pages.pulsar.bundle.view import moves_seen
from dashboard.charts.lines import history_lines
from dashboard.charts.ring import namespace_ring
from dashboard.components import figures, frame, tables, words
from dashboard.components.activity import past_of
from dashboard.components.pulsar import explain
from dashboard.components.pulsar.page import PulsarPage
from dashboard.presenters.pulsar.bundles import ring_data
from dashboard.presenters.pulsar.topics import read_words, web_addresses_of
from dashboard.queries.pulsar.snapshots import bundle_history
from dashboard.queries.snapshots import span_minutes, thinned, within
from dashboard.services import pulsar


def missing(snapshot: PulsarSnapshot, name: str) -> None:
    """Say why there is no such bundle: split since, or never there."""
    try:
        parts = model.children_of(snapshot.bundles, name)
    except InputError as error:
        words.failed(error, what="That is not a bundle")
        return
    if parts:
        words.answer(f"{name} was split: its range is now {len(parts)} bundles.")
        for part in parts[:16]:
            st.button(
                words.plain(part), key=f"_part_{part}", on_click=frame.bundle_link, args=(part,)
            )
        return
    known = model.bundles_in(snapshot.bundles, namespace_of(name)) or reading.hottest
    unknown = UnknownNameError.of("bundle", name, known, place="this snapshot")
    words.failed(unknown, what="No such bundle")


page = frame.open_page("Bundle", PulsarPage)
reading = page.reading
snapshot = reading.snapshot
name = st.text_input(
    "Bundle",
    key=state.BUNDLE,
    bind="query-params",
    placeholder="tenant/namespace/0x00000000_0x40000000",
    label_visibility="collapsed",
    width=460,
)
if not name:
    words.answer("Name a bundle, or open one from the Bundles page.")
    st.stop()
row = model.find_row(reading.bundles, name.strip())
if row is None:
    missing(snapshot, name.strip())
    st.stop()
bundle, owner = str(row["bundle"]), row["owner"]
namespace = str(row["namespace"])
lower, _ = parse_range(bundle.rpartition("/")[2])
words.answer(model.answer(row, reading.measures.throughput.total))
with st.container(horizontal=True):
    st.button(
        "Preview unload",
        type="primary",
        icon=":material/swap_horiz:",
        disabled=bool(row["is_broker_bound"]) or not owner,
        help="It belongs to its broker and never moves." if row["is_broker_bound"] else None,
        on_click=frame.unload_link,
        args=([bundle],),
    )
    if owner:
        st.button(
            words.plain(f"Open {owner}"),
            icon=":material/dns:",
            on_click=frame.broker_link,
            args=(str(owner),),
        )

read = state.topics_of(page.name, bundle)
left, right = st.columns([0.56, 0.44], gap="medium")
with left:
    words.section("Load", model.samples_note(row))
    exposed = model.exposed_rates(snapshot, row)
    st.table(model.averages_table(row, exposed), border="horizontal", alt=f"Load of {bundle}")
    if note := model.exposed_note(snapshot, exposed, owner):
        st.caption(words.plain(note))
    words.section("History", "Traffic over the saved snapshots; a triangle marks a new owner.")
    past = within(page.saved.entries, page.stored.taken_at, timedelta(hours=1))
    window = thinned(past, 40)
    history = bundle_history(window, namespace, lower)
    times, series, moves = model.history_series(history)
    figures.chart(
        history_lines(times, series, "bytes/s", events=model.events_of(moves)),
        key="bundle_history",
        alt=f"Traffic of {bundle} over the last hour",
    )
    moves_seen(moves, span_minutes(window))
with right:
    words.section("Place on the ring", f"Bundles of {namespace}; this one is framed.")
    hashes = read.table["hash"].to_pylist() if read is not None else []
    ring = ring_data(reading.bundles, namespace, marked=bundle, topic_hashes=hashes)
    if ring is not None:
        figures.chart(namespace_ring(ring), key="bundle_ring", alt=f"Ring of {namespace}")

explain.bundle_panels(page, bundle)
past_of(page.config, page.name, bundle, key="bundle")
words.section("Topics", "Read from the owner on request: topics are not part of a snapshot.")
address = page.cluster.web_address(*web_addresses_of(snapshot, str(owner or "")))
if st.button("Fetch topics", icon=":material/cloud_download:", disabled=not address):
    try:
        with st.spinner(words.plain(f"Asking {owner}"), show_time=True):
            topics = pulsar.fetch_topics(page.cluster, str(address), bundle)
        state.keep_topics(page.name, bundle, state.ReadTopics(topics, services.now()))
        st.rerun()
    except (RemoteError, InputError) as error:
        words.failed(error, what="The topics could not be read")
if read is not None:
    st.caption(f"{model.topics_note(read.table)} {read_words(read.read_at, services.now())}")
    rows = model.topics_table(read.table)
    tables.table(
        rows,
        {
            "topic": tables.words("Topic", pinned=True),
            "hash": tables.words("Hash", "CRC-32 of the full name: its place on the ring."),
            "traffic": tables.megabytes("Traffic"),
            "rate": tables.rate("Rate"),
            "producers": tables.whole("Producers"),
            "consumers": tables.whole("Consumers"),
            "subscriptions": tables.whole("Subscriptions"),
            "backlog": tables.whole("Backlog"),
        },
        key="bundle_topics",
        alt=f"Topics of {bundle}",
    )
    tables.downloads(rows, cluster=page.name, what="topics", moment=page.stored.taken_at)
