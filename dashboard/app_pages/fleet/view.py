"""Widgets of the fleet overview: clusters, recent activity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.history.queries.sql import Period
from dashboard import services, state
from dashboard.app_pages.fleet import model
from dashboard.components import tables, words
from dashboard.presenters.fleet import ACTS
from dashboard.services import processes as services_processes

if TYPE_CHECKING:
    from core.actions.views import RunView
    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.fleet.model import FleetRow
    from dashboard.services import Config

HOUR: Final = timedelta(hours=1)
TREND: Final = timedelta(hours=6)
_TREND_STEP_S: Final = 300
TREND_POINTS: Final = 36
"""Snapshots behind a sparkline; each is read once."""

_HEADROOM: Final = 1.2
_LOOK_EVERY_S: Final = 5
_MAX_ROWS: Final = 12


def last_hours(stored: CachedSnapshot) -> Period:
    """Return the period of a sparkline; its end moves on every few minutes, so it is read once."""
    end_s = stored.taken_at.timestamp() // _TREND_STEP_S * _TREND_STEP_S
    end = datetime.fromtimestamp(end_s, UTC)
    return Period(end - TREND, end)


def processes(config: Config) -> None:
    """Render Trimtab's own processes that are down or were restarted; refreshes itself."""
    st.fragment(partial(_processes, config), run_every=state.ticking(_LOOK_EVERY_S))()


def _processes(config: Config) -> None:
    now = services.now()
    known = {(one.name, one.cluster): one for one in services_processes.supervised()}
    known |= {(one.name, one.cluster): one for one in services_processes.down(config)}
    news = model.process_news(list(known.values()), now)
    if not news:
        return
    down = sum(not one.is_up for one in news)
    words.section("Processes", f"{down} down" if down else "All running again.")
    tables.table(
        model.processes_table(news, now),
        {
            "process": tables.words("Process", width_px=108),
            "cluster": tables.words("Cluster"),
            "state": tables.status("State", (model.UP, model.DOWN)),
            "since": st.column_config.DatetimeColumn("Since (UTC)", format="YYYY-MM-DD HH:mm:ss"),
            "restarts": st.column_config.TextColumn(
                "Restarts", help="Restarts by the supervising command.", alignment="right"
            ),
            "end": tables.words("Last exit", "Exit code or signal of the last process."),
            "next": tables.words("Next start (UTC)"),
            "log": tables.words("Log", "File in the state directory."),
        },
        key="processes",
        alt="Trimtab processes that are down or restarted",
        height=tables.height_within(len(news), _MAX_ROWS),
    )


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
    highest = max((max(row.trend, default=0.0) for row in rows), default=0.0)
    frame["bar"] = tables.deviation_bars(
        [row.deviation_ratio for row in rows], [row.target_ratio for row in rows]
    )
    trend = tables.sparkline(
        "Last 6 h",
        "Max deviation, same scale for all clusters.",
        y_max=max(highest, 1.0) * _HEADROOM,
    )
    has_groups = any(row.group for row in rows)
    has_news = any(row.acting.access != ACTS or row.acting.run for row in rows)
    tables.table(
        frame,
        {
            "cluster": tables.opener("Cluster", "_open_cluster", open_cluster, width_px=108),
            **({"group": tables.words("Group", width_px=92)} if has_groups else {}),
            "state": tables.status(
                "State",
                sorted({one[0] for one in frame["state"]}),
                "Worst severity and number of findings.",
                width_px=100,
            ),
            "bar": tables.deviation("Deviation from mean", "Grey: target band."),
            "deviation": tables.signed_percent("Max", width_px=66),
            "usage": tables.percent(
                "Usage",
                "Highest weighted broker usage or node disk usage.",
                width_px=58,
            ),
            **({} if has_news else {"trend": trend}),  # there is no room for both
            "load": st.column_config.TextColumn("Load", alignment="right", width=70),
            "nodes": st.column_config.TextColumn("Nodes", alignment="right", width=54),
            "balancer": tables.words(
                "Balancer", "State of the cluster's own balancer.", width_px=104
            ),
            **(
                {"run": tables.words("Access", "Read-only, or the active run.", width_px=92)}
                if has_news
                else {}
            ),
            "age": tables.words("Age", "Age of the snapshot.", width_px=62),
        },
        key="clusters",
        alt="Clusters with their deviation from the mean, usage, load and findings",
        missing=model.NONE,
        height=tables.height_within(len(frame), _MAX_ROWS),
    )


def activity(rows: Sequence[FleetRow], runs: Sequence[RunView]) -> None:
    """Render the latest events."""
    words.section("Activity")
    frame = model.recent(rows, runs)
    if frame.empty:
        st.caption("No runs, and no moves in the last hour.")
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
                "Event",
                type="tertiary",
                alignment="left",
                on_click=open_row,
                key="_open_event",
                width=118,
            ),
            **({"cluster": tables.words("Cluster")} if len(rows) > 1 else {}),
        },
        key="fleet_activity",
        alt="Latest runs and moves, newest first",
        height=tables.height_within(len(frame), _MAX_ROWS),
    )
