"""Cluster: is it whole and balanced, which level is in force, how are its nodes."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pegasus.cluster import level, node, settings
from dashboard.app_pages.pegasus.cluster.node import node_columns
from dashboard.charts.nodes import node_bars
from dashboard.components import choice, figures, frame, tables, words
from dashboard.components.pegasus import past
from dashboard.components.pegasus.page import PegasusPage
from dashboard.presenters.pegasus import cluster, headline

page = frame.open_page("Cluster", PegasusPage)
facts = page.facts
verdict = page.reading.verdict
words.answer(headline.answer(facts, verdict))
past.note_newer_runs(page)
if facts.columns.node_count == 0:
    words.nothing("No node is in this snapshot", page.snapshot.manifest)
    st.stop()

with st.container(horizontal=True, gap="small"):
    for label, value, text in cluster.key_figures(facts, verdict):
        st.metric(label, value, help=words.plain(text), border=True, width="content")
with st.container(horizontal=True, gap="small", vertical_alignment="center"):
    for label, value, text in cluster.state_figures(facts):
        st.metric(label, value, help=words.plain(text), border=True, width="content")
    st.caption("Partitions by the five states of the meta server's metrics.", width="content")

is_previewed = level.level_switch(page)

words.section("Nodes", cluster.nodes_note(facts))
measure = choice.segmented(
    "Measure",
    list(cluster.NODE_MEASURES),
    default="replicas",
    key=state.MEASURE,
    say=lambda key: cluster.NODE_MEASURES[key],
)
bars = cluster.node_bars(facts, measure)
figures.chart(node_bars(bars), key="pegasus_nodes", alt=cluster.bars_sentence(bars))
rows = cluster.nodes_frame(facts)
view = st.segmented_control(
    "Columns",
    list(cluster.NODE_VIEWS),
    default="overview",
    required=True,
    key=state.VIEW,
    bind="query-params",
)
st.caption(cluster.NODE_VIEWS[view or "overview"])
tables.table(
    rows,
    node_columns(view or "overview", node.choose),
    key=f"pegasus_nodes_{view}",
    alt="All nodes with replicas, load and disks, dead ones first",
    height=min(640, tables.height_of(len(rows))),
)
tables.downloads(rows, cluster=page.name, what="nodes", moment=page.stored.taken_at)
with st.expander("The same in Pegasus' shell", icon=":material/terminal:"):
    st.code("nodes -d -u -q\nserver_stat\ncluster_info", language="bash")

node.one_node(page)

left, right = st.columns([0.4, 0.6], gap="medium")
with left:
    settings.cluster_info(page)
with right:
    settings.one_setting(page, may_plan=not is_previewed)
settings.settings_list(page)
past.settings_past(page)
