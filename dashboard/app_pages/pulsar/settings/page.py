"""Settings: what is active and where it comes from, conflicts and fixes, and changing it."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.settings import compared, model, view
from dashboard.components import figures, frame, words
from dashboard.components.pulsar.page import PulsarPage
from dashboard.queries.pulsar.examinations import examination

page = frame.open_page("Settings", PulsarPage)
settings = page.reading.settings
words.title("Settings", model.subtitle(settings, page.reading.snapshot.manifest.load_manager))
found = examination(page.config, page.name, page.stored)
figures.key_figures(model.key_figures(settings, found, view.strategy_of(page)), key="settings")
for sentence in settings.release_warnings:
    st.warning(words.plain(sentence), icon=":material/warning:")
changed = view.requested()

if state.VIEW not in st.query_params and state.VIEW not in st.session_state:
    st.session_state[state.VIEW] = view.opened_by(
        st.query_params, has_changes=bool(state.listed(state.SET))
    )
settings_tab, findings_tab, compared_tab, presets_tab, changes_tab = st.tabs(
    model.TABS, key=state.VIEW, on_change="rerun", bind="query-params"
)
if settings_tab.open:
    with settings_tab:
        view.settings_tab(page, found)
if findings_tab.open:
    with findings_tab:
        view.findings_tab(page, found)
if compared_tab.open:
    with compared_tab:
        compared.draw(page, found.comparison)
if presets_tab.open:
    with presets_tab:
        view.presets(page)
if changes_tab.open:
    with changes_tab:
        view.changes_tab(page, changed)
if changed:
    view.bar(page, changed)
