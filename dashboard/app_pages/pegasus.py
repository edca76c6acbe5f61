"""Cluster: is it whole and balanced, which level is in force, how are its nodes."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.charts.pegasus_nodes import node_bars
from dashboard.components import (
    figures,
    frame,
    pegasus_level,
    pegasus_node,
    pegasus_past,
    pegasus_settings,
    tables,
    words,
)
from dashboard.presenters import pegasus_cluster as presenter

page = frame.open_pegasus_page("Cluster")
facts = page.facts
verdict = page.reading.verdict
words.answer(presenter.answer(facts, verdict))
pegasus_past.note_newer_runs(page)
if facts.columns.node_count == 0:
    words.nothing("No node is in this snapshot", page.snapshot.manifest)
    st.stop()

with st.container(horizontal=True, gap="small"):
    for label, value, text in presenter.key_figures(facts, verdict):
        st.metric(label, value, help=words.plain(text), border=True, width="content")
with st.container(horizontal=True, gap="small", vertical_alignment="center"):
    for label, value, text in presenter.state_figures(facts):
        st.metric(label, value, help=words.plain(text), border=True, width="content")
    st.caption("Partitions by the five states of the meta server's metrics.", width="content")

is_previewed = pegasus_level.level_switch(page)

words.section("Nodes", presenter.nodes_note(facts))
measure = st.segmented_control(
    "Measure",
    list(presenter.NODE_MEASURES),
    format_func=lambda key: presenter.NODE_MEASURES[key],
    default="replicas",
    required=True,
    key=state.MEASURE,
    bind="query-params",
    label_visibility="collapsed",
)
bars = presenter.node_bars(facts, measure or "replicas")
figures.chart(node_bars(bars), key="pegasus_nodes", alt=presenter.bars_sentence(bars))
rows = presenter.nodes_frame(facts)
tables.table(
    rows,
    {
        "node": tables.opener("Node", "_open_node", pegasus_node.choose),
        "status": tables.words("Status"),
        "replicas": tables.whole("Replicas"),
        "primaries": tables.whole("Primaries"),
        "secondaries": tables.whole("Secondaries"),
        "memory_mb": tables.whole("Memory MB", "Resident: memused_res_mb, res_mem_mb."),
        "disk_free_pct": tables.percent("Disk free", "Of all disks: disk_avl_total_ratio."),
        "fullest_free_pct": tables.percent("Fullest disk", "Free there: disk_avl_min_ratio."),
        "size_mb": tables.whole("Data MB", "Files of all replicas."),
        "reads": tables.whole("Reads/s", "get, multi_get, batch_get and scan, of all replicas."),
        "read_cu": tables.whole("RCU/s", "Read capacity units."),
        "writes": tables.whole("Writes/s", "Every kind of write, of all replicas."),
        "write_cu": tables.whole("WCU/s", "Write capacity units."),
        "learning": tables.whole("Learning", "Replicas that it is copying: learning_replicas."),
        "copy_limit": tables.words("May receive", "nfs.max_copy_rate_megabytes_per_disk."),
        "send_limit": tables.words("May send", "nfs.max_send_rate_megabytes_per_disk."),
        "version": tables.words("Version"),
        "address": tables.words("Address"),
    },
    key="pegasus_nodes_table",
    alt="All nodes with replicas, load and disks, dead ones first",
    height=min(640, tables.height_of(len(rows))),
)
tables.downloads(rows, cluster=page.name, what="nodes", moment=page.shelved.taken_at)
with st.expander("The same in Pegasus' shell", icon=":material/terminal:"):
    st.code("nodes -d -u -q\nserver_stat\ncluster_info", language="bash")
    st.caption("Block cache, memtables and p99 latencies are in no snapshot: only there.")

pegasus_node.one_node(page)

left, right = st.columns([0.4, 0.6], gap="medium")
with left:
    pegasus_settings.cluster_info(page)
with right:
    pegasus_settings.one_setting(page, may_plan=not is_previewed)
pegasus_settings.settings_list(page)
pegasus_past.settings_past(page)
