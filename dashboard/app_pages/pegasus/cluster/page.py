"""Cluster: is it whole and balanced, which level is effective, how are its nodes."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from core.history.queries.sql import Period
from core.pegasus.headline import page_answer
from dashboard import state
from dashboard.app_pages.pegasus.cluster import level, model, node, settings
from dashboard.charts.nodes import node_bars
from dashboard.components import choice, figures, findings, frame, words
from dashboard.components.pegasus import run_history
from dashboard.components.pegasus.page import PegasusPage
from dashboard.presenters.pegasus import cluster
from dashboard.queries.pegasus.node_load import node_trends

SPAN = timedelta(hours=6)

page = frame.open_page("Cluster", PegasusPage)
facts = page.facts
words.title(page.name, cluster.subtitle(facts))
run_history.note_newer_runs(page)
if facts.columns.node_count == 0:
    words.nothing("No nodes in this snapshot", page.snapshot.manifest)
    st.stop()
period = Period(page.stored.taken_at - SPAN, page.stored.taken_at)
trends = node_trends(page.config, page.cluster, period)
figures.key_figures(cluster.key_figures(facts, trends), key="pegasus")
words.answer(page_answer(facts, page.reading.verdict))

with st.container(key="workbench"):
    left, right = st.columns([0.46, 0.54], gap="medium")
with left:
    wanted = level.level_switch(page)
with right:
    words.section("Nodes", cluster.nodes_note(facts))
    measure = choice.segmented(
        "Measure",
        list(cluster.NODE_MEASURES),
        default="replicas",
        key=state.MEASURE,
        format_func=lambda key: cluster.NODE_MEASURES[key],
    )
    bars = cluster.node_bars(facts, measure)
    figures.chart(node_bars(bars), key="pegasus_nodes", alt=cluster.bars_sentence(bars))

node.follow_address()
preview_tab, nodes_tab, disks_tab, settings_tab, findings_tab, events_tab = st.tabs(
    model.TABS, key=model.TAB, on_change="rerun", bind="query-params"
)
if preview_tab.open:
    with preview_tab:
        level.draw_preview(page, wanted)
if nodes_tab.open:
    with nodes_tab:
        node.all_nodes(page, trends)
if disks_tab.open:
    with disks_tab:
        node.all_disks(page)
if settings_tab.open:
    with settings_tab:
        settings.draw(page, may_plan=wanted is None)
if findings_tab.open:
    with findings_tab:
        findings.show(
            findings.of_cluster(page),
            key="pegasus",
            moment=page.stored.taken_at,
            scope=page.reading.cluster_verdict.scope,
        )
if events_tab.open:
    with events_tab:
        run_history.level_past(page)
        run_history.settings_past(page)
if wanted is not None:
    level.draw_bar(page, wanted)
