"""Settings: what is wrong with them, what is in force, where it comes from, what it means."""

from __future__ import annotations

import streamlit as st

from core.pulsar.rules.doctor.answer import answer
from dashboard import state
from dashboard.app_pages.pulsar.settings import model, view
from dashboard.components import frame, tables, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.queries.pulsar.examinations import examination

page = frame.open_page("Settings", PulsarPage)
reading = page.reading
manager = reading.snapshot.manifest.load_manager
found = examination(page.config, page.name, page.stored)
words.answer(answer(found))
for sentence in reading.settings.release_warnings:
    st.warning(words.plain(sentence), icon=":material/warning:")
for sentence in found.unjudged:
    st.caption(f":material/help: {words.plain(sentence)}")

view.diagnoses(page, found)
view.changes(page)
view.comparison(found.comparison)
view.presets(page)

left, right = st.columns([0.62, 0.38], gap="medium")
with left:
    words.section("All settings", "Of the brokers' load balancer. Click one to see it whole.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shown = st.segmented_control(
            "Show",
            list(model.SHOWN),
            default="all",
            required=True,
            key=state.ONLY,
            bind="query-params",
            label_visibility="collapsed",
        )
        contains = st.text_input(
            "Contains",
            key=state.CONTAINS,
            bind="query-params",
            placeholder="Part of a name or meaning",
            label_visibility="collapsed",
            width=230,
        )
    rows = model.settings_table(
        reading.settings, load_manager=manager, shown=shown or "all", contains=contains or ""
    )
    st.caption(f"{len(rows)} settings; defaults of release {reading.settings.target.label}.")
    tables.table(
        rows,
        {
            "key": tables.opener("Setting", "_setting_key", view.choose),
            "mark": tables.words("State"),
            "value": st.column_config.TextColumn("Effective", width=130),
            "default": st.column_config.TextColumn("Default", width=90),
            "origin": tables.words("From", "assumed: the snapshot does not contain it."),
            "dynamic": tables.words("Dynamic"),
            "meaning": st.column_config.TextColumn("Meaning", width=420),
            "brokers": tables.words("Where brokers differ"),
        },
        key="settings_table",
        alt="Load-balancer settings",
        height=min(560, tables.height_of(max(len(rows), 1))),
        missing="",
    )
    tables.downloads(rows, cluster=page.name, what="settings", moment=page.stored.taken_at)
with right:
    view.one_setting(page)
