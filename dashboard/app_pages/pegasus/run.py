"""Predicted vs. actual of a run on a Pegasus cluster: each touched node."""

from __future__ import annotations

from functools import partial

import streamlit as st

from core.actions.views import RunView
from dashboard import state
from dashboard.components import tables, words
from dashboard.presenters.pegasus import outcome


def draw_outcome(view: RunView) -> None:
    """Show each touched node before, as expected and as counted."""
    rows = outcome.nodes_table(view)
    if rows.empty:
        return
    words.section("Predicted vs. actual", "Partitions that a node leads, and that it keeps.")
    st.caption(words.plain(outcome.nodes_sentence(view)))
    tables.table(
        rows,
        {
            "node": tables.opener("Node", "_run_node", partial(_open_node, view)),
            **{
                f"{what}_{when}": tables.whole(f"{what.capitalize()} {label}")
                for what in ("primaries", "replicas")
                for when, label in (
                    ("before", "before"),
                    ("expected", "expected"),
                    ("came", "counted"),
                )
            },
            "received_mb": tables.whole("Copied onto it MB"),
        },
        key="run_nodes",
        alt="Touched nodes before, as expected and as counted",
        height=min(300, tables.height_of(len(rows))),
    )


def _open_node(view: RunView, node: str) -> None:
    st.session_state[state.CLUSTER] = view.cluster
    state.go("pegasus", cluster=view.cluster, node=node)
