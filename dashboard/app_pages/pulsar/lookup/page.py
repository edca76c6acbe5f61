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
from dashboard.presenters.pulsar.bundles import ring_data

ACTIVE = "active"

page = frame.open_page("Lookup", PulsarPage)
reading = page.reading
snapshot = reading.snapshot
topic = st.text_input(
    "Topic",
    key=state.TOPIC,
    bind="query-params",
    placeholder="persistent://tenant/namespace/topic, or tenant/namespace/topic",
    type="search",
)
found = None
if topic:
    try:
        found = lookup_topic(snapshot, topic.strip())
    except OpsError as error:
        words.failed(error, what="This topic cannot be looked up")
if found is not None:
    words.answer(model.answer(found))
    left, right = st.columns([0.55, 0.45], gap="medium")
    with left:
        words.section("Step by step")
        for number, step in enumerate(found.steps, 1):
            st.markdown(f"**{number}. {words.plain(step.title)}**  \n{words.plain(step.detail)}")
        words.notes(found.notes)
        with st.container(horizontal=True):
            st.button(
                "Open the bundle",
                icon=":material/donut_small:",
                on_click=frame.bundle_link,
                args=(found.bundle,),
            )
            if found.owner:
                st.button(
                    "Open its owner",
                    icon=":material/dns:",
                    on_click=frame.broker_link,
                    args=(found.owner,),
                )
    with right:
        words.section("On the ring", f"The hash points into a bundle of {found.namespace}.")
        ring = ring_data(
            reading.bundles, found.namespace, marked=found.bundle, topic_hash=found.hash
        )
        if ring is not None:
            figures.chart(
                namespace_ring(ring),
                key="lookup_ring",
                alt=f"The topic's hash points into {found.bundle}",
            )
elif not topic:
    words.answer("Type a full topic name to see its bundle and its owner, step by step.")
    st.caption(
        "The cluster is not contacted: the answer comes from the snapshot. "
        "A real lookup would assign an unassigned bundle."
    )

words.section(
    "Where would a bundle be placed?",
    "The distribution over brokers if the bundle were looked up without an owner now.",
)
if found is not None and not state.text(state.PLACE):
    st.session_state[state.PLACE] = found.bundle
with st.container(horizontal=True, vertical_alignment="bottom"):
    bundle = st.text_input(
        "Bundle",
        key=state.PLACE,
        bind="query-params",
        placeholder="tenant/namespace/0x00000000_0x40000000",
    )
    strategy = st.selectbox(
        "Placement strategy",
        [ACTIVE, *STRATEGY_NAMES],
        key=state.STRATEGY,
        bind="query-params",
        width=240,
    )
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
        placement_panel(placement, key="lookup")
