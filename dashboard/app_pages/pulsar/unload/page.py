"""Unload preview, and undo: who would take these bundles, what changes, and who notices."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pulsar.unload import view
from dashboard.app_pages.pulsar.unload.form import picked_plan, undo_of
from dashboard.components import frame, words
from dashboard.components.pulsar import frozen, moves_plan
from dashboard.components.pulsar.applying import in_dialog, warn_of_overloads
from dashboard.components.pulsar.page import PulsarPage
from dashboard.components.undo import draw_left
from dashboard.presenters.pulsar import unload as presenter

CHART_PX = 420

undo = state.text(state.UNDO)
live = frame.open_page("Undo" if undo else "Unload", PulsarPage)
page = live if undo else frozen.frozen(live)  # an undo waits for a snapshot from after its run
reading = page.reading
if reading.movable.num_rows == 0:
    words.nothing("No bundles in this snapshot", reading.snapshot.manifest)
    st.stop()
if not undo:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(words.plain(frozen.facts(page)), width="content")
        frozen.draw_recompute(live, page)
made = undo_of(page, undo) if undo else picked_plan(page)
if made is None:
    st.stop()
plan, preview = in_dialog() or made
words.answer(presenter.headline(plan, preview))
moves_plan.draw_remarks(plan, ("error", "warning"))
warn_of_overloads(preview)
draw_left(plan)
if not plan.steps:
    moves_plan.draw_remarks(plan, ("info",))
    st.stop()

if preview.steps:
    with st.container(key="workbench"):
        left, right = st.columns([1.5, 1], gap="medium")
    with left:
        words.section("Moves")
        view.draw_moves(preview)
    with right:
        words.section("Deviation per broker", "traffic")
        measures = preview.measures_before, preview.measures_after
        moves_plan.draw_deviations(
            measures[0].throughput,
            measures[1].throughput,
            measures[0].target.bound,
            key="unload_deviations",
            height=CHART_PX,
        )
if preview.others:
    words.section("Changes", "Each change is checked before it is sent and verified afterwards.")
    view.draw_changes(plan, preview)
moves_plan.draw_remarks(plan, ("info",))
if preview.steps:
    who_tab, bars_tab, clients_tab = st.tabs(
        ["Placement", "Before and after", "Clients"],
        key=state.VIEW,
        on_change="rerun",
        bind="query-params",
    )
    if who_tab.open:
        with who_tab:
            view.draw_candidates(preview)
    if bars_tab.open:
        with bars_tab:
            moves_plan.draw_bars(preview)
    if clients_tab.open:
        with clients_tab:
            st.markdown(words.plain(preview.clients.sentence()))
            words.notes(preview.notes)
else:
    words.notes(preview.notes)

dialog = moves_plan.dialog_of(page, plan, preview)
moves_plan.draw_bar(page, dialog, key="unload", effects=view.effects(preview), is_preview=True)
