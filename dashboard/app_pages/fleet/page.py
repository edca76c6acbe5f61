"""Fleet overview: every cluster in one row, what is wrong on any of them, what happened last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from core.errors import OpsError, SnapshotError
from core.findings.starts import with_starts
from core.fleet_views import clusters_of
from dashboard import services
from dashboard.app_pages.fleet import days, model, view
from dashboard.app_pages.fleet.system import FleetPageSystem
from dashboard.components import figures, findings, first_steps, fleet_views, frame, words
from dashboard.components.activity import acting_of
from dashboard.components.systems import system_of
from dashboard.components.waiting import no_snapshots
from dashboard.presenters.findings import FindingRow, listed
from dashboard.queries import runs
from dashboard.services import alerts
from dashboard.systems import page_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.actions.views import RunView
    from core.snapshot.store import CachedSnapshot
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster

page = frame.open_fleet("Fleet", needs_snapshot=False)
shown = page.page
saved = frame.saved_by_cluster(page.config)
if not page.choice.is_past:
    view.processes(page.config)
unread = [name for name, one in saved.items() if one.latest is None]
if shown is None and len(unread) == len(saved):
    no_snapshots(page.config, page.choice, unread)
    st.stop()


def stored_of(cluster: Cluster, snapshots: SavedSnapshots) -> CachedSnapshot | None:
    """Return the snapshot of a cluster; of the chosen cluster the one selected in the header."""
    is_chosen = cluster.name == page.choice.cluster.name
    return shown.stored if is_chosen and shown is not None else snapshots.latest


def part_of(cluster: Cluster) -> FleetPageSystem:
    """Return what the system of a cluster shows here."""
    part: FleetPageSystem = page_part(cluster.kind, "fleet")
    return part


def row_of(cluster: Cluster) -> model.FleetRow:
    """Return a cluster's row; without numbers where nothing is saved, or it is damaged."""
    system, held = part_of(cluster), saved[cluster.name]
    stored = stored_of(cluster, held)
    try:
        if stored is not None:
            return system.row(page.config, cluster, held, stored)
    except SnapshotError:
        pass  # its own pages say why
    return model.FleetRow(cluster=cluster.name, acting=acting_of(page.config, cluster))


def listed_of(cluster: Cluster, row: model.FleetRow) -> list[FindingRow]:
    """Return a cluster's findings for the table."""
    system, stored = system_of(cluster.kind), stored_of(cluster, saved[cluster.name])
    found = tuple(row.findings)
    if stored is not None:
        spans = services.finding_spans(page.config, cluster.name)
        found = with_starts(found, spans, stored.taken_at)
    return listed(cluster.name, found, system.finding_links)


def draw_now() -> None:
    """Draw the clusters, their findings and what happened last."""
    view.clusters(rows, {one.name: part_of(one).overview for one in page.config.clusters})
    in_view = {page.choice.cluster.name, *(row.cluster for row in rows)}
    no_snapshots(
        page.config, page.choice, [one for one in unread if one in in_view], is_answer=False
    )
    left, right = frame.columns([0.75, 0.25], key="fleet")
    with right:
        panel = st.container()
        view.activity(rows, known_runs or ())
    with left:
        findings.show(
            [one for row in rows for one in listed_of(by_name[row.cluster], row)],
            key="fleet",
            moment=page.now,
            title="Findings",
            panel=panel,
            scope=model.scope_words(rows),
        )


known_alerts: Mapping[str, int] | None
limits = None
try:
    limits = alerts.limits(page.config)
    known_alerts = alerts.counts(page.config)
    firing = Counter(
        one.key.cluster for one in alerts.firing(page.config) if one.severity != "info"
    )
except OpsError:
    known_alerts, firing = None, Counter()  # the figure says so
by_name = {one.name: one for one in page.config.clusters}
fleet_view = fleet_views.draw(page.config)
rows = model.in_order(
    [
        replace(
            row_of(one),
            alerts=firing[one.name],
            group=" ".join(filter(None, (one.group, *one.tags))),
        )
        for one in clusters_of(fleet_view, page.config.clusters)
    ],
    fleet_view.sort,
)
known_runs: Sequence[RunView] | None
try:
    known_runs = [
        one for one in runs.every(page.config) if one.cluster in {row.cluster for row in rows}
    ]
except OpsError:
    known_runs = None  # the figure says so
words.title("Fleet", model.subtitle(rows))
if not rows:
    st.info("No cluster matches these filters.", icon=":material/filter_alt_off:")
    st.stop()
first_steps.draw(page)
figures.key_figures(
    model.key_figures(rows, known_runs, known_alerts, page.now, limits),
    key="fleet",
)
now_tab, days_tab = st.tabs(
    ["Now", "By day"], key="fleet_tab", on_change="rerun", bind="query-params"
)
if days_tab.open:
    with days_tab:
        days.draw(page.config, [row.cluster for row in rows], page.now)
if now_tab.open:
    with now_tab:
        draw_now()
