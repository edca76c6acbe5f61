"""One bundle: its owner, its place on the ring, its load, its topics and its past."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError, UnknownNameError
from core.history.queries.sql import Period
from core.ids import namespace_of, parse_range
from core.pulsar.owners import REFUSED
from core.pulsar.served import service_of
from core.snapshot import PulsarSnapshot
from dashboard import state
from dashboard.app_pages.pulsar.bundle import model, view
from dashboard.charts.lines import history_lines
from dashboard.charts.ring import namespace_ring
from dashboard.components import figures, frame, long_term, time_range, words
from dashboard.components.pulsar import explain
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.pulsar.serving import unserved
from dashboard.presenters.moments import last_span
from dashboard.presenters.pulsar.bundles import ring_data
from dashboard.queries.pulsar.broker_load import bundle_over
from dashboard.queries.pulsar.explanations import likely_destinations
from dashboard.queries.pulsar.snapshots import bundle_history
from dashboard.queries.snapshots import thinned, within


def missing(snapshot: PulsarSnapshot, name: str) -> None:
    """Render why the bundle does not exist: it was split, or never existed."""
    try:
        parts = model.children_of(snapshot.bundles, name)
    except InputError as error:
        words.failed(error, what="Invalid bundle name")
        return
    if parts:
        words.answer(f"{name} was split into {len(parts)} bundles.")
        for part in parts[:16]:
            st.button(
                words.plain(part), key=f"_part_{part}", on_click=frame.bundle_link, args=(part,)
            )
        return
    namespace = namespace_of(name)
    kind, sought, known = "bundle", name, model.bundles_in(snapshot.bundles, namespace)
    if not known:
        kind, sought, known = "namespace", namespace, reading.namespaces
    unknown = UnknownNameError.of(kind, sought, known, place="this snapshot")
    words.failed(unknown, what=f"Unknown {kind}")


MAX_POINTS = 40

page = frame.open_page("Bundle", PulsarPage)
reading = page.reading
snapshot = reading.snapshot
with st.container(horizontal=True, vertical_alignment="center"):
    name = st.text_input(
        "Bundle",
        key=state.BUNDLE,
        bind="query-params",
        placeholder="tenant/namespace/0x00000000_0x40000000",
        label_visibility="collapsed",
        width=360,
    )
    actions = st.container(horizontal=True, horizontal_alignment="right")
if not name:
    view.draw_hottest(reading.movable, reading.hottest)
    st.stop()
row = model.find_row(reading.bundles, name.strip())
if row is None:
    missing(snapshot, name.strip())
    st.stop()
bundle, owner = str(row["bundle"]), row["owner"]
namespace = str(row["namespace"])
lower, _ = parse_range(bundle.rpartition("/")[2])
is_bound = bool(row["is_broker_bound"])
service = service_of(snapshot, reading.settings, bundle)
is_refused = service is not None and service.state == REFUSED
words.title(f"Bundle {bundle}", model.subtitle(row, service))
with actions:
    long_term.link("bundle", bundle)
    if owner:
        st.button(
            "Open broker",
            icon=":material/dns:",
            on_click=frame.broker_link,
            args=(str(owner),),
        )
    st.button(
        "Split…",
        icon=":material/call_split:",
        disabled=is_bound or is_refused,
        on_click=view.split_link,
        args=(bundle,),
    )
    st.button(
        "Unload…",
        type="primary",
        icon=":material/swap_horiz:",
        disabled=is_bound or is_refused or not owner,
        help="System bundle of its broker; not movable."
        if is_bound
        else "A previous unload or split has not finished; the owner rejects a new one."
        if is_refused
        else None,
        on_click=frame.unload_link,
        args=([bundle],),
    )

figures_place = st.container()
left, right = frame.columns([0.6, 0.4], key="bundle")
with left, st.container(horizontal=True, vertical_alignment="bottom"):
    heading = st.container(width="content")
    st.space("stretch")
    span = time_range.pick_of_page(page)
end = page.stored.taken_at
window = within(page.saved.entries, end, span)
times, series, moves = model.history_series(
    bundle_history(thinned(window, MAX_POINTS), namespace, lower),
    bundle_over(page.config, page.cluster, window, Period(end - span, end), bundle),
)
likely = (
    likely_destinations((page.stored, ((bundle, str(owner)),))).get(bundle)
    if owner and not is_bound
    else None
)
traffic = reading.measures.throughput
with figures_place:
    unserved(service)
    figures.key_figures(
        model.key_figures(
            row,
            traffic.total,
            traffic.mean,
            moves,
            model.trend_of(series),
            likely,
            traffic.set_aside_names,
            span=span,
        ),
        key="bundle",
    )
shown = last_span(times, span)
with heading:
    words.section(f"Traffic, {shown}")
with left:
    figures.chart(
        history_lines(times, series, "bytes/s", events=model.events_of(moves), height=260),
        key="bundle_history",
        alt=f"Traffic of {bundle}, {shown}, in and out; triangles mark owner changes",
    )
read = state.topics_of(page.name, bundle)
with right:
    words.section("Hash ring", namespace)
    hashes = read.table["hash"].to_pylist() if read is not None else []
    ring = ring_data(reading.bundles, namespace, marked=bundle, topic_hashes=hashes)
    if ring is not None:
        figures.chart(
            namespace_ring(ring, height=260),
            key="bundle_ring",
            alt=f"Hash ring of {namespace}, {bundle} highlighted",
        )

load, shedding, split, topics, events = st.tabs(
    ["Load", "Shedding decision", "Automatic split", "Topics", "Events"],
    key=state.VIEW,
    on_change="rerun",
    bind="query-params",
)
if load.open:
    with load:
        view.load_tab(page, bundle, row, times, series)
if shedding.open:
    with shedding:
        explain.bundle_shedding_panel(page, bundle)
if split.open:
    with split:
        explain.split_panel(page, bundle)
if topics.open:
    with topics:
        view.topics_tab(page, bundle, str(owner or ""))
if events.open:
    with events:
        view.events_tab(
            page, bundle, moves, (end - times[0]).total_seconds() / 60 if times else 0.0
        )
