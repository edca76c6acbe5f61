"""One node of a Pegasus cluster: its disks, and what it carries of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import state
from dashboard.components import choice, tables, words
from dashboard.components.pegasus_past import past_of
from dashboard.presenters import pegasus_cluster_node as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PegasusPage


def choose(node: str) -> None:
    """Look at another node; for callbacks."""
    st.session_state[state.NODE] = node


def one_node(page: PegasusPage) -> None:
    """Draw the chosen node; nothing but the choice while none is."""
    names = page.facts.columns.nodes
    words.section("One node", "Its disks, and what it carries of every table.")
    node = choice.selected(
        "Node",
        ["", *names],
        key=state.NODE,
        say=lambda name: name or "choose a node",
        has_label=False,
    )
    if not node:
        return
    left, right = st.columns(2, gap="medium")
    with left:
        _disks(page, node)
    with right:
        _tables(page, node)
    past_of(page, node, key="node")


def _disks(page: PegasusPage, node: str) -> None:
    rows = presenter.disks_frame(page.facts, node)
    if rows.empty:
        st.caption(":material/help: Its disks are unknown: it did not answer, see the problems.")
    else:
        tables.table(
            rows,
            {
                "disk": tables.words("Disk"),
                "free_pct": tables.percent("Free"),
                "available_mb": tables.whole("Available MB"),
                "capacity_mb": tables.whole("Capacity MB"),
                "primaries": tables.whole("Primaries"),
                "secondaries": tables.whole("Secondaries"),
                "directory": tables.words("Directory"),
            },
            key="node_disks",
            alt=f"Disks of {node}",
        )
    st.code(f"remote_command -l {node} server-info", language="bash")


def _tables(page: PegasusPage, node: str) -> None:
    rows = presenter.carried_frame(page.facts, node)
    if rows.empty:
        st.caption(":material/inbox: It has no replica of any table that was read.")
        return
    tables.table(
        rows,
        {
            "table": tables.opener("Table", "_table_of_node", _open_table),
            "primaries": tables.whole("Primaries"),
            "even": st.column_config.NumberColumn(
                "Even", format="%.1f", help="Primaries a living node, if they were even."
            ),
            "secondaries": tables.whole("Secondaries"),
            "size_mb": tables.whole("Size MB", "Of all its replicas."),
            "reads": tables.whole("Reads/s", "Of its primaries."),
            "writes": tables.whole("Writes/s", "Of its primaries."),
        },
        key="node_tables",
        alt=f"Tables of which {node} has replicas",
        height=min(420, tables.height_of(len(rows))),
    )


def _open_table(table: str) -> None:
    state.go("pegasus_tables", table=table)
