"""Bundles: which of them carry the load, on which broker, and unloading some."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.units import format_bytes_per_s, format_count, format_ratio
from dashboard import state
from dashboard.app_pages.pulsar.bundles import model, queries
from dashboard.charts.ring import NOT_OWNED, namespace_ring
from dashboard.charts.treemap import bundle_treemap
from dashboard.components import action_bar, figures, frame, long_term, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option
from dashboard.presenters.moments import last_span
from dashboard.presenters.pulsar import bundles as presenter
from dashboard.queries.pulsar.snapshots import broker_history, bundle_trends
from dashboard.queries.snapshots import thinned, within

GROUPS: dict[str, presenter.GroupBy] = {"by broker": "owner", "by namespace": "namespace"}
RING = "hash ring"
RING_OF = "ring"
ROWS = (100, 500, 2_000)
SPAN = timedelta(hours=6)
TREND_POINTS = 12
MAX_TRENDS = 40
CHART_PX = 540
IN_SIGHT = 16

page = frame.open_page("Bundles", PulsarPage)
reading = page.reading
movable = reading.movable
load = queries.load_of(page.stored)
words.title("Bundles", model.subtitle(load))
if movable.num_rows == 0:
    words.nothing("No bundles in this snapshot", reading.snapshot.manifest)
    st.stop()

namespaces = reading.namespaces
entries = within(page.saved.entries, page.stored.taken_at, SPAN)
past = broker_history(thinned(entries, TREND_POINTS))
figures.key_figures(
    model.key_figures(load, reading.measures.throughput.mean, presenter.total_traffic(past)),
    key="bundles",
)
if RING_OF in st.query_params and state.GROUP not in st.query_params:
    st.session_state.setdefault(state.GROUP, RING)  # an address of a namespace's ring
left, right = frame.columns([0.34, 0.66], key="bundles")
with left:
    group = st.segmented_control(
        "Chart",
        [*GROUPS, RING],
        default="by broker",
        required=True,
        key=state.GROUP,
        bind="query-params",
        label_visibility="collapsed",
    )
    if group == RING:
        ring_of = st.selectbox(
            "Namespace",
            namespaces,
            format_func=option,
            key=RING_OF,
            bind="query-params",
            label_visibility="collapsed",
        )
        st.caption("Angle: hash range · length: traffic · colour: owner")
        ring = presenter.ring_data(movable, ring_of or namespaces[0])
        if ring is not None:
            figures.chart(
                namespace_ring(ring, height=CHART_PX - 80),
                key="bundles_ring",
                alt=f"Hash ring of {ring_of} with bundle owners",
            )
    else:
        data, note = queries.treemap((page.stored, GROUPS.get(str(group), "owner")))
        figures.chart(
            bundle_treemap(data, height=CHART_PX),
            key="bundles_treemap",
            alt=f"Treemap of bundle traffic {group}",
        )
        if note:
            st.caption(note)

with right, st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
    contains = st.text_input(
        "Name contains",
        key=state.CONTAINS,
        bind="query-params",
        live=tables.TYPING_PAUSE,
        placeholder="0x4000",
        width=120,
    )
    namespace = st.selectbox(
        "Namespace",
        ["", *sorted(namespaces)],
        format_func=option,
        key=state.NAMESPACE,
        bind="query-params",
        width=165,
    )
    owner = st.selectbox(
        "Owner",
        ["", NOT_OWNED, *reading.brokers],
        format_func=option,
        key=state.OWNER,
        bind="query-params",
        width=150,
    )
    sort = st.selectbox(
        "Sort by", list(model.SORTS), key=state.SORT, bind="query-params", width=100
    )
    limit = st.selectbox("Rows", ROWS, key=state.SHOW, bind="query-params", width=80)
found = model.bundle_page(
    movable,
    model.BundleTableFilter(
        contains=contains or "",
        owner=owner or "",
        namespace=namespace or "",
        sort=sort or "traffic",
        limit=int(limit or ROWS[0]),
    ),
)
rows = found.rows
shown = rows["bundle"].tolist()[:MAX_TRENDS]
moments = [entry.taken_at for entry in entries]
trends = bundle_trends(thinned(entries, TREND_POINTS), shown)
rows["clients"] = rows["producers"] + rows["consumers"]
rows["trend"] = [trends.get(name, []) for name in rows["bundle"]]
with right:
    at = tables.table(
        rows,
        {
            "bundle": tables.opener("Bundle", "_open_bundle", frame.bundle_link),
            "owner": tables.words("Owner", "unknown: ownership not readable."),
            "throughput": tables.megabytes(
                "Traffic", "In plus out, from the last load report.", width_px=88
            ),
            "trend": tables.sparkline(
                "Trend", f"Traffic of the first rows, {last_span(moments, SPAN)}."
            ),
            "msg_rate": tables.rate("Rate", "In plus out, from the last load report.", width_px=88),
            "topics": tables.whole("Topics", width_px=60),
            "clients": tables.whole("Clients", "Producers and consumers.", width_px=62),
        },
        key="bundles_table",
        alt="Bundles that match the filter",
        height=tables.height_of(min(len(rows), IN_SIGHT)),
        selection="multi-row",
        names=rows["bundle"].tolist(),
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{found.text} · select rows to unload", width="content")
        if namespace:
            long_term.link("namespace", namespace, label="Namespace long term")
            long_term.link("tenant", namespace.partition("/")[0], label="Tenant long term")
        tables.downloads(
            rows.drop(columns=["trend", "clients"]),
            cluster=page.name,
            what="bundles",
            moment=page.stored.taken_at,
        )
if at:
    chosen = model.picked(rows, at, load.carried)
    action_bar.show(
        [
            action_bar.PlanFigure(label="Bundles", value=f"{len(chosen.bundles):,}"),
            action_bar.PlanFigure(
                label="Traffic",
                value=format_bytes_per_s(chosen.traffic),
                note=f"{format_ratio(chosen.share)} of all",
            ),
            action_bar.PlanFigure(
                label="Clients", value=format_count(chosen.clients), note="reconnect"
            ),
            action_bar.PlanFigure(label="Source brokers", value=f"{chosen.owners:,}"),
        ],
        [
            action_bar.Button(
                label="Preview unload",
                on_click=frame.unload_link,
                args=(list(chosen.bundles),),
                is_primary=True,
                icon=":material/swap_horiz:",
            )
        ],
        key="bundles",
    )
