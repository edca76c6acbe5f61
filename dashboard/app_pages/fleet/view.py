"""Widgets of the fleet overview: clusters, recent activity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services, state
from dashboard.app_pages.fleet import model
from dashboard.components import tables, words

if TYPE_CHECKING:
    from core.actions.views import RunView
    from dashboard.app_pages.fleet.model import FleetRow

HOUR: Final = timedelta(hours=1)
TREND: Final = timedelta(hours=6)
TREND_POINTS: Final = 36
"""Snapshots behind a sparkline; each is read once."""

_MAX_ROWS: Final = 12


def clusters(rows: Sequence[FleetRow], overviews: Mapping[str, str]) -> None:
    """Show one row a cluster.

    Args:
        rows: Every cluster.
        overviews: Page that each cluster opens.
    """

    def open_cluster(name: str) -> None:
        st.session_state[state.CLUSTER] = name
        state.go(overviews[name], cluster=name)

    frame = model.clusters_table(rows, services.now())
    frame["bar"] = tables.deviation_bars([one.deviation_ratio for one in rows], model.TOLERANCE)
    tables.table(
        frame,
        {
            "cluster": tables.opener("Cluster", "_open_cluster", open_cluster),
            "state": tables.status(
                "State",
                [*model.STATE_WORDS.values(), model.NO_SNAPSHOT],
                "The worst finding; unknown is never healthy.",
            ),
            "system": tables.words("System", width_px=96),
            "bar": tables.deviation("Deviation from mean", "Grey: the target band of ±20%."),
            "deviation": tables.signed_percent("Max"),
            "trend": tables.sparkline("Last 6 h", "Max deviation."),
            "usage": tables.percent("Usage", "Weighted maximum of the fullest broker."),
            "nodes": st.column_config.TextColumn("Nodes", alignment="right", width=58),
            "parts": tables.whole("Units", "Bundles or partitions: what the balancer moves."),
            "load": st.column_config.TextColumn("Load", alignment="right", width=76),
            "findings": st.column_config.TextColumn(
                "Findings", help="Errors / warnings / notes.", alignment="right", width=80
            ),
            "balancer": tables.words("Balancer", "What the cluster itself does.", width_px=96),
            "run": tables.words(
                "Access", "Read-only, may act, or the run in progress.", width_px=76
            ),
            "age": tables.words("Read", "When the snapshot was taken.", width_px=80),
        },
        key="clusters",
        alt="Clusters with their deviation from the mean, usage, load and findings",
        height=tables.height_of(min(len(frame), _MAX_ROWS)),
    )


def activity(rows: Sequence[FleetRow], runs: Sequence[RunView]) -> None:
    """Show what happened last."""
    words.section("Activity")
    frame = model.recent(rows, runs)
    if frame.empty:
        st.caption("No run yet, and no move in the last hour.")
        return

    def open_row() -> None:
        click = st.session_state.get("_open_event")
        if click is None:
            return
        one = frame.iloc[click["row"]]
        if one["run"]:
            state.go("run", run=one["run"])
        else:
            state.go("history", **{state.CLUSTER: one["cluster"]})

    tables.table(
        frame,
        {
            "at": st.column_config.DatetimeColumn("UTC", format="HH:mm", width=52),
            "what": st.column_config.ButtonColumn(
                "What", type="tertiary", alignment="left", on_click=open_row, key="_open_event"
            ),
            "cluster": tables.words("Cluster"),
        },
        key="fleet_activity",
        alt="Latest runs and moves, the newest first",
        height=tables.height_of(min(len(frame), _MAX_ROWS)),
    )
