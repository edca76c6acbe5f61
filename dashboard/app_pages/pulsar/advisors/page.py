"""Advisors: the arithmetic behind what operators tune, with the cluster's own numbers."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.advisors.bundles import draw_bundles, draw_lookups
from dashboard.app_pages.pulsar.advisors.inputs import Subject
from dashboard.app_pages.pulsar.advisors.partitions import draw_partitions
from dashboard.app_pages.pulsar.advisors.producer import draw_producer
from dashboard.app_pages.pulsar.advisors.storage import draw_ledgers, draw_retention
from dashboard.components import frame, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option
from dashboard.presenters.pulsar.bundles import namespaces_by_load

ADVISORS: dict[str, Callable[[Subject], None]] = {
    "bundles": draw_bundles,
    "partitions": draw_partitions,
    "producer": draw_producer,
    "ledgers": draw_ledgers,
    "retention": draw_retention,
    "lookups": draw_lookups,
}

page = frame.open_page("Calculators", PulsarPage)
movable = page.reading.movable
if movable.num_rows == 0:
    words.nothing("No bundle is in this snapshot", page.reading.snapshot.manifest)
    st.stop()
namespaces = namespaces_by_load(movable)
words.tell_unknown("namespace", state.unknown_in_address(state.NAMESPACE, namespaces), namespaces)
words.tell_unknown("advisor", state.unknown_in_address(state.VIEW, ADVISORS), list(ADVISORS))
with st.container(horizontal=True, vertical_alignment="bottom"):
    view = st.segmented_control(
        "Advisor",
        list(ADVISORS),
        default="bundles",
        required=True,
        key=state.VIEW,
        bind="query-params",
        label_visibility="collapsed",
    )
    namespace = st.selectbox(
        "Namespace",
        namespaces,
        format_func=option,
        key=state.NAMESPACE,
        bind="query-params",
        width=280,
        label_visibility="collapsed",
        help="The one with most traffic first.",
    )
ADVISORS[view or "bundles"](Subject.of(page, namespace or namespaces[0]))
