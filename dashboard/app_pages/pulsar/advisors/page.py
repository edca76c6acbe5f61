"""Calculators: the arithmetic behind what operators tune, with the cluster's own numbers."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.advisors.bundles import BUNDLES_CALCULATOR, LOOKUPS_CALCULATOR
from dashboard.app_pages.pulsar.advisors.inputs import Subject
from dashboard.app_pages.pulsar.advisors.partitions import PARTITIONS_CALCULATOR
from dashboard.app_pages.pulsar.advisors.producer import PRODUCER_CALCULATOR
from dashboard.app_pages.pulsar.advisors.result import Calculator
from dashboard.app_pages.pulsar.advisors.storage import LEDGERS_CALCULATOR, RETENTION_CALCULATOR
from dashboard.components import choice, frame, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.legible import option

CALCULATORS: dict[str, Calculator[Any]] = {
    "bundles": BUNDLES_CALCULATOR,
    "partitions": PARTITIONS_CALCULATOR,
    "producer": PRODUCER_CALCULATOR,
    "ledgers": LEDGERS_CALCULATOR,
    "retention": RETENTION_CALCULATOR,
    "lookups": LOOKUPS_CALCULATOR,
}

page = frame.open_page("Calculators", PulsarPage)
movable = page.reading.movable
if movable.num_rows == 0:
    words.nothing("No bundles in this snapshot", page.reading.snapshot.manifest)
    st.stop()
namespaces = page.reading.namespaces
words.report_unknown("namespace", state.unknown_in_address(state.NAMESPACE, namespaces), namespaces)
with st.container(horizontal=True, vertical_alignment="center"):
    chosen = CALCULATORS[
        choice.segmented(
            "Calculator",
            list(CALCULATORS),
            key=state.VIEW,
            format_func=lambda name: CALCULATORS[name].title,
        )
    ]
    namespace = st.selectbox(
        "Namespace",
        namespaces,
        format_func=option,
        key=state.NAMESPACE,
        bind="query-params",
        width=280,
        label_visibility="collapsed",
        help="Busiest first.",
    )
words.title(f"Calculators: {chosen.title}", namespace or namespaces[0])
chosen.show(Subject.of(page, namespace or namespaces[0]))
