"""Bundles: where the load is, by broker or namespace, and how a namespace cuts its ring."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.bundles import model
from dashboard.charts.ring import NOT_OWNED, namespace_ring
from dashboard.charts.treemap import bundle_treemap
from dashboard.components import figures, frame, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option
from dashboard.presenters.pulsar import bundles as presenter

GROUPS: dict[str, presenter.GroupBy] = {"by broker": "owner", "by namespace": "namespace"}
ROWS = (100, 500, 2_000)

page = frame.open_page("Bundles", PulsarPage)
reading = page.reading
movable = reading.movable
words.answer(model.answer(movable))
if movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", reading.snapshot.manifest)
    st.stop()

namespaces = presenter.namespaces_by_load(movable)
left, right = st.columns([0.62, 0.38], gap="medium")
with left:
    group_by = GROUPS.get(state.text(state.GROUP), "owner")
    words.section("Where the traffic is", model.treemap_note(movable, group_by))
    group = st.segmented_control(
        "Group",
        list(GROUPS),
        default="by broker",
        required=True,
        key=state.GROUP,
        bind="query-params",
        label_visibility="collapsed",
    )
    figures.chart(
        bundle_treemap(presenter.treemap_data(movable, GROUPS[group or "by broker"])),
        key="bundles_treemap",
        alt=f"Treemap of bundle traffic {group}",
    )
with right:
    words.section("Ring of a namespace", "Angle: hash range. Length: traffic. Colour: owner.")
    ring_of = st.selectbox(
        "Namespace of the ring",
        namespaces,
        format_func=option,
        key="ring",
        bind="query-params",
        label_visibility="collapsed",
    )
    ring = presenter.ring_data(movable, ring_of or namespaces[0])
    if ring is not None:
        figures.chart(
            namespace_ring(ring, height=430),
            key="bundles_ring",
            alt=f"Hash ring of {ring_of} with the owner of each of its bundles",
        )

words.section("All bundles", "Heartbeat and SLA bundles are left out: they never move.")
with st.container(horizontal=True, vertical_alignment="bottom"):
    contains = st.text_input(
        "Name contains", key=state.CONTAINS, bind="query-params", placeholder="0x4000", width=220
    )
    namespace = st.selectbox(
        "Namespace",
        ["", *sorted(namespaces)],
        format_func=option,
        key=state.NAMESPACE,
        bind="query-params",
        width=220,
    )
    owner = st.selectbox(
        "Owner",
        ["", NOT_OWNED, *reading.measures.brokers],
        format_func=option,
        key=state.OWNER,
        bind="query-params",
        width=200,
    )
    sort = st.selectbox(
        "Sort by", list(model.SORTS), key=state.SORT, bind="query-params", width=120
    )
    limit = st.selectbox("Rows", ROWS, key=state.SHOW, bind="query-params", width=90)
found = model.bundle_page(
    movable,
    model.BundleFilter(
        contains=contains or "",
        owner=owner or "",
        namespace=namespace or "",
        sort=sort or "traffic",
        limit=int(limit or ROWS[0]),
    ),
)
st.caption(
    f"{len(found.rows):,} of {found.matching:,} matching bundles are shown "
    f"({found.total:,} in all). Click a bundle to open it."
)
tables.table(
    found.rows,
    {
        "bundle": tables.opener("Bundle", "_open_bundle", frame.bundle_link),
        "owner": tables.words("Owner", "unknown: its ownership could not be read."),
        "throughput": tables.megabytes("Traffic", "In plus out, from the last load report."),
        "msg_rate": tables.rate("Rate", "In plus out, from the last load report."),
        "short_rate": tables.rate("Short", "Short-term average."),
        "long_rate": tables.rate("Long", "Long-term average."),
        "topics": tables.whole("Topics"),
        "producers": tables.whole("Producers"),
        "consumers": tables.whole("Consumers"),
        "share": tables.percent("Ring", "Part of the namespace's hash ring."),
    },
    key="bundles_table",
    alt="Bundles that match the filter",
    height=min(620, tables.height_of(len(found.rows))),
)
tables.downloads(found.rows, cluster=page.name, what="bundles", moment=page.stored.taken_at)
