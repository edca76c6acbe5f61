"""Tables and partitions: health, traffic, size, and where the replicas lie."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.app_pages.pegasus.tables import model
from dashboard.app_pages.pegasus.tables import view as pegasus_partitions
from dashboard.app_pages.pegasus.tables.view import table_columns
from dashboard.components import choice, frame, tables, words
from dashboard.components.pegasus import past
from dashboard.components.pegasus.page import PegasusPage

ROWS = (100, 500, 2_000)

page = frame.open_page("Tables", PegasusPage)
facts = page.facts
named = state.text(state.TABLE)
is_named = named in facts.columns.app_names
words.answer(model.table_answer(facts, named) if is_named else model.answer(facts))
past.note_newer_runs(page)
if facts.columns.table_count == 0:
    words.nothing("No table is in this snapshot", page.snapshot.manifest)
    st.stop()

names = sorted(facts.columns.app_names)
with st.container(horizontal=True, vertical_alignment="bottom"):
    table = choice.selected(
        "Table",
        ["", *names],
        key=state.TABLE,
        say=lambda name: name or "every table",
    )
    if table:
        st.text_input(
            "Partition",
            key=state.PARTITION,
            bind="query-params",
            placeholder="every",
            width=110,
        )
if table:
    pegasus_partitions.members_of(page, table)
else:
    pegasus_partitions.tables_by_node(page)
pegasus_partitions.partition_list(page, table or "")

words.section("All tables", "Click a table to see its partitions.")
with st.container(horizontal=True, vertical_alignment="bottom"):
    view = st.segmented_control(
        "Columns",
        list(model.VIEWS),
        default="overview",
        required=True,
        key=state.VIEW,
        bind="query-params",
    )
    contains = st.text_input(
        "Name contains, or id", key=state.CONTAINS, bind="query-params", width=180
    )
    only = st.selectbox("Only", model.ONLY, key=state.ONLY, bind="query-params", width=120)
    sort = st.selectbox("Order", list(model.SORTS), key=state.SORT, bind="query-params", width=120)
    limit = st.selectbox("Rows", ROWS, key=state.SHOW, bind="query-params", width=90)
found = model.table_page(
    model.tables_frame(facts),
    model.TableFilter(
        contains=contains or "",
        only=only or "all",
        sort=sort or "unhealthy",
        limit=int(limit or ROWS[0]),
    ),
)
st.caption(
    words.coded(
        f"{model.VIEWS[view or 'overview']} {len(found.rows):,} of {found.matching:,} matching "
        f"tables are shown ({found.total:,} in all)."
    )
)
tables.table(
    found.rows,
    table_columns(view or "overview", pegasus_partitions.choose),
    key=f"pegasus_tables_{view}",
    alt="Tables that match the filter",
    height=min(620, tables.height_of(max(len(found.rows), 1))),
)
tables.downloads(found.rows, cluster=page.name, what="tables", moment=page.stored.taken_at)
