"""Lookup: where a topic is, whether it exists, and where its bundle would be placed."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from core.operations.lookup import OPERATION, LookupRequest
from core.pulsar.placement import STRATEGY_NAMES, place_bundle
from dashboard import state
from dashboard.app_pages.pulsar.lookup import model, names
from dashboard.charts.ring import namespace_ring
from dashboard.components import figures, frame, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.pulsar.placement import placement_panel
from dashboard.components.pulsar.serving import unserved
from dashboard.presenters.pulsar.bundles import ring_data
from dashboard.queries.answers import answer_of

ACTIVE = "active"
LOOKED_UP = "_looked_up"
"""In the session: the topic, and the bundle that was placed with it."""


def forget_place(topic: str) -> None:
    """Forget the bundle to place once another topic is looked up: it was the bundle of that before.

    Args:
        topic: That is looked up now.
    """
    place = state.text(state.PLACE)
    before, placed = st.session_state.get(LOOKED_UP, (topic, ""))
    if topic != before and place == placed:
        place = st.session_state[state.PLACE] = ""
    st.session_state[LOOKED_UP] = (topic, place)


def choose_topic(topic: str) -> None:
    """Look a topic up; for callbacks."""
    st.session_state[state.TOPIC] = topic


def draw_topics(namespace: str) -> None:
    """Draw the topics of a namespace that the field holds instead of a topic."""
    words.title(f"Topics of {namespace}")
    names.check(page, namespace, None, label="Fetch topic names")
    names.draw_failure(page, namespace)
    read = names.read_of(page, namespace)
    if read is None:
        st.caption("Topic names are not part of a snapshot. Fetch them from a broker.")
        return
    rows = model.names_table(read.names)
    tables.table(
        rows,
        {
            "topic": tables.opener("Topic", "_lookup_topic", choose_topic),
            "partitions": tables.whole("Partitions"),
        },
        key="lookup_topics",
        alt=f"Topics of {namespace}; click a topic to look it up",
        height=min(560, tables.height_of(max(len(rows), 1))),
        missing="",
    )


def draw_namespaces() -> None:
    """Draw the namespaces, the busiest first; a click lists the topics of one."""
    rows = model.namespaces_table(reading.snapshot.bundles)
    total = len(reading.namespaces)
    share = f"The busiest {len(rows):,} of {total:,}. " if total > model.MAX_LISTED else ""
    words.section("Namespaces", f"{share}Click one to list its topics.")
    tables.table(
        rows,
        {
            "namespace": tables.opener("Namespace", "_lookup_namespace", choose_topic),
            "topics": tables.whole("Topics"),
            "bundles": tables.whole("Bundles"),
            "throughput": tables.megabytes("Traffic"),
        },
        key="lookup_namespaces",
        alt="Namespaces by traffic; click a namespace to list its topics",
        height=min(560, tables.height_of(max(len(rows), 1))),
        missing="",
    )


def choose_bundle(bundle: str) -> None:
    """Show the placement of a bundle; for callbacks."""
    st.session_state[state.PLACE] = bundle


def draw_examples() -> None:
    """Draw what the fields take, each with an example of this cluster."""
    examples = [
        ("Topic", choose_topic, reading.snapshot.topics["topic"].slice(0, 1).to_pylist()),
        ("Namespace", choose_topic, [f"{name}/" for name in reading.namespaces[:1]]),
        ("Bundle", choose_bundle, reading.hottest[:1]),
    ]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Examples:", width="content")
        for kind, choose, names_of_kind in examples:
            for name in names_of_kind:
                st.button(
                    words.plain(f"{kind} {name}"),
                    key=f"_example_{kind}",
                    on_click=choose,
                    args=(name,),
                )
        st.caption("Results are from the snapshot; no bundle is assigned.", width="content")


def draw_placement(bundle: str) -> None:
    """Draw the predicted placement of a bundle."""
    try:
        placement = place_bundle(
            reading.view,
            bundle,
            reading.settings,
            strategy=None if strategy in (None, ACTIVE) else strategy,
        )
    except OpsError as error:
        words.failed(error, what="Could not place this bundle")
        return
    words.section("Placement candidates", f"For a lookup of {bundle} while unassigned.")
    placement_panel(placement, key="lookup")


page = frame.open_page("Lookup", PulsarPage)
reading = page.reading
with st.container(horizontal=True, vertical_alignment="bottom"):
    topic = names.pick_topic(page)
    place = st.container(width=300)
    strategy = st.selectbox(
        "Placement strategy",
        [ACTIVE, *STRATEGY_NAMES],
        key=state.STRATEGY,
        bind="query-params",
        width=200,
    )
found = None
forget_place(topic)
listed = model.namespace_in(topic, reading.namespaces)
if topic and not listed:
    try:
        found = answer_of(page.stored, OPERATION, LookupRequest(topic=topic)).found
    except OpsError as error:
        words.failed(error, what="Could not look up this topic")
if found is not None and not state.text(state.PLACE):
    st.session_state[state.PLACE] = found.bundle
    st.session_state[LOOKED_UP] = (topic, found.bundle)
with place:
    bundle = st.text_input(
        "Bundle to place",
        key=state.PLACE,
        bind="query-params",
        placeholder="tenant/namespace/0x00000000_0x40000000",
    ).strip()

if listed:
    draw_topics(listed)
elif found is None:
    if not topic and not bundle:
        words.answer(
            "Enter a topic to show its bundle and owner, or a bundle to show its placement."
        )
        draw_examples()
        draw_namespaces()
    if bundle:
        draw_placement(bundle)
else:
    words.title(f"Topic {found.topic}", model.subtitle(found))
    exists = names.existence(page, found)
    figures.key_figures(model.steps(found, exists), key="lookup")
    unserved(found.service)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Open bundle",
            icon=":material/donut_small:",
            on_click=frame.bundle_link,
            args=(found.bundle,),
        )
        if found.owner:
            st.button(
                "Open broker",
                icon=":material/dns:",
                on_click=frame.broker_link,
                args=(found.owner,),
            )
        check_place = st.container(horizontal=True, width="content", vertical_alignment="center")
        if exists.hint:
            st.caption(words.plain(exists.hint), width="content")
    names.draw_failure(page, found.namespace)
    placement_tab, ring_tab, steps_tab = st.tabs(
        ["Placement", "Hash range", "Steps"],
        key=state.VIEW,
        on_change="rerun",
        bind="query-params",
    )
    if placement_tab.open and bundle:
        with placement_tab:
            draw_placement(bundle)
    if ring_tab.open:
        with ring_tab:
            ring = ring_data(
                reading.bundles, found.namespace, marked=found.bundle, topic_hash=found.hash
            )
            if ring is not None:
                figures.chart(
                    namespace_ring(ring),
                    key="lookup_ring",
                    alt=f"The topic hash is in bundle {found.bundle}",
                )
    if steps_tab.open:
        with steps_tab:
            words.notes([f"{step.title}: {step.detail}" for step in found.steps])
            words.notes(found.notes)
    with check_place:  # last: the page stands while a broker is asked
        label = "Check topic" if exists.status == "unknown" else "Check again"
        names.check(page, found.namespace, found.owner, label=label)
