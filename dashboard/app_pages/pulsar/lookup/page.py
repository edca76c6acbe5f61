"""Placement & lookup: where a topic lives and why; where a bundle would be placed."""

from __future__ import annotations

import streamlit as st

from core.errors import OpsError
from core.pulsar.lookup import lookup_topic
from core.pulsar.placement import STRATEGY_NAMES, place_bundle
from dashboard import state
from dashboard.app_pages.pulsar.lookup import model
from dashboard.charts.ring import namespace_ring
from dashboard.components import figures, frame, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.pulsar.placement import placement_panel
from dashboard.components.pulsar.serving import unserved
from dashboard.presenters.pulsar.bundles import ring_data

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


page = frame.open_page("Lookup", PulsarPage)
reading = page.reading
with st.container(horizontal=True, vertical_alignment="bottom"):
    topic = st.text_input(
        "Topic",
        key=state.TOPIC,
        bind="query-params",
        placeholder="tenant/namespace/topic",
        type="search",
    )
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
if topic:
    try:
        found = lookup_topic(reading.snapshot, topic.strip())
    except OpsError as error:
        words.failed(error, what="This topic cannot be looked up")
if found is not None and not state.text(state.PLACE):
    st.session_state[state.PLACE] = found.bundle
    st.session_state[LOOKED_UP] = (topic, found.bundle)
with place:
    bundle = st.text_input(
        "Bundle to place",
        key=state.PLACE,
        bind="query-params",
        placeholder="tenant/namespace/0x00000000_0x40000000",
    )

if found is not None:
    words.title(f"Topic {found.topic}", model.subtitle(found))
    figures.key_figures(model.steps(found), key="lookup")
    unserved(found.service)
    st.caption("Every name has a bundle; whether a topic of this name exists is not checked.")
    with st.container(horizontal=True):
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
elif not topic and not bundle:
    words.answer("Type a topic to see its bundle and its owner, or a bundle to place it.")
    st.caption("From the snapshot: the cluster is not contacted, and nothing is assigned.")

if bundle:
    try:
        placement = place_bundle(
            reading.view,
            bundle.strip(),
            reading.settings,
            strategy=None if strategy in (None, ACTIVE) else strategy,
        )
    except OpsError as error:
        words.failed(error, what="This bundle cannot be placed")
    else:
        words.section("Placement candidates", f"If {bundle.strip()} were looked up unassigned now.")
        placement_panel(placement, key="lookup")

if found is not None:
    steps_tab, ring_tab = st.tabs(
        ["Steps", "Hash range"], key=state.VIEW, on_change="rerun", bind="query-params"
    )
    if steps_tab.open:
        with steps_tab:
            words.notes([f"{step.title}: {step.detail}" for step in found.steps])
            words.notes(found.notes)
    if ring_tab.open:
        with ring_tab:
            ring = ring_data(
                reading.bundles, found.namespace, marked=found.bundle, topic_hash=found.hash
            )
            if ring is not None:
                figures.chart(
                    namespace_ring(ring),
                    key="lookup_ring",
                    alt=f"The topic's hash points into {found.bundle}",
                )
