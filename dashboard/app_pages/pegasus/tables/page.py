"""Tables and partitions: health, traffic, size, and where the replicas are."""

from __future__ import annotations

import streamlit as st

from core.pegasus.headline import unhealthy_count
from dashboard import state
from dashboard.app_pages.pegasus.tables import model, view
from dashboard.components import choice, figures, frame, long_term, words
from dashboard.components.pegasus import run_history
from dashboard.components.pegasus.page import PegasusPage
from dashboard.presenters.pegasus import cluster

page = frame.open_page("Tables", PegasusPage)
facts = page.facts
names = sorted(facts.columns.app_names)
run_history.note_newer_runs(page)
if not names:
    words.answer(model.answer(facts))
    words.nothing("No tables in this snapshot", page.snapshot.manifest)
    st.stop()
with st.container(horizontal=True, vertical_alignment="bottom"):
    table = choice.selected(
        "Table",
        ["", *names],
        key=state.TABLE,
        format_func=lambda name: name or "all tables",
        has_label=False,
    )
    if table:
        st.text_input(
            "Partition",
            key=state.PARTITION,
            bind="query-params",
            placeholder="all partitions",
            width=150,
            label_visibility="collapsed",
        )
        long_term.link("table", table)
words.title(f"Table {table}" if table else "Tables", cluster.subtitle(facts))
figures.key_figures(
    model.key_figures(facts, table) if table else cluster.key_figures(facts), key="tables"
)
words.answer(model.table_answer(facts, table) if table else model.answer(facts))

is_new = table != st.session_state.get(view.SHOWN, "")
if model.TAB not in st.session_state and model.TAB not in st.query_params:
    unhealthy = unhealthy_count(facts.columns)
    st.session_state[model.TAB] = model.open_tab(table, unhealthy, list(st.query_params))
elif is_new and model.TAB in st.session_state:
    st.session_state[model.TAB] = model.PARTITIONS if table else model.TABLES
st.session_state[view.SHOWN] = table
tables_tab, partitions_tab, by_node_tab = st.tabs(
    model.TABS, key=model.TAB, on_change="rerun", bind="query-params"
)
if tables_tab.open:
    with tables_tab:
        view.all_tables(page)
if partitions_tab.open:
    with partitions_tab:
        view.partition_list(page, table)
if by_node_tab.open:
    with by_node_tab:
        if table:
            view.members_of(page, table)
        else:
            view.tables_by_node(page)
