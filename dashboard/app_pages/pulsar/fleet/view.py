"""Widgets of the fleet overview for Pulsar clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services
from dashboard.app_pages.fleet import view
from dashboard.app_pages.pulsar.fleet import model
from dashboard.components import frame, tables
from dashboard.components.activity import acting_of
from dashboard.presenters.moves import moves_sentence
from dashboard.presenters.pulsar.fleet import ClusterSummary
from dashboard.queries.pulsar import snapshots
from dashboard.queries.pulsar.snapshots import broker_history, moves_seen
from dashboard.queries.snapshots import span_minutes, thinned, within

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pulsar.page import PulsarPage
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config


class PulsarFleet:
    """Pulsar; see :class:`dashboard.app_pages.fleet.system.FleetSystem`."""

    title = "Pulsar"
    caption = "Click a cluster to open its brokers."
    subject_pages: Mapping[str, tuple[str, str]] = {
        "broker": ("broker", "broker"),
        "bundle": ("bundle", "bundle"),
        "namespace": ("bundles", "namespace"),
    }
    code_pages: Mapping[str, str] = {}

    def newest(self, saved: SavedSnapshots) -> ClusterSummary | None:
        """Return the row of what is saved."""
        return snapshots.newest_summary(saved)

    def summary(self, stored: CachedSnapshot) -> ClusterSummary:
        """Return the row of a snapshot."""
        return snapshots.cluster_summary(stored)

    def figures(self, page: PulsarPage) -> list[tuple[str, str, str]]:
        """Return label, value and help of the figures of the chosen cluster."""
        return model.key_figures(page.reading.measures, page.reading.movable)

    def clusters(
        self,
        config: Config,
        clusters: Sequence[Cluster],
        saved: Mapping[str, SavedSnapshots],
        summaries: Mapping[str, ClusterSummary | None],
    ) -> None:
        """Show one row a Pulsar cluster."""
        rows = [
            (one.name, one.environment, summaries[one.name], _trend(saved[one.name]))
            for one in clusters
        ]
        acting = [acting_of(config, one) for one in clusters]
        tables.table(
            model.clusters_table(rows, acting, services.now()),
            {
                "cluster": tables.opener(
                    "Cluster", "_open_cluster", partial(view.open_cluster, "brokers")
                ),
                "environment": tables.words("Kind"),
                "state": tables.words("State", "The worst finding; unknown is never fine."),
                "access": tables.words("Access", view.READ_ONLY_HELP),
                "run": tables.words("Run", "The run that has not ended: see Activity."),
                "deviation": tables.signed_percent(
                    "Deviation", "Busiest broker's traffic over the mean."
                ),
                "trend": st.column_config.LineChartColumn(
                    "Deviation, last hour", y_min=0, width=120
                ),
                "worst": tables.words("Busiest broker", "By weighted maximum usage."),
                "brokers": tables.whole("Brokers"),
                "bundles": tables.whole("Bundles", "With an owner, of those that can move."),
                "traffic": tables.megabytes("Traffic"),
                "findings": tables.words("Findings"),
                "balancer": tables.words(
                    "Own balancer", "Whether the cluster sheds load by itself."
                ),
                "age": tables.words("Read"),
            },
            key="clusters",
            alt="Pulsar clusters with their balance, worst broker and findings",
        )

    def moved(self, page: PulsarPage) -> None:
        """Show the bundles that changed hands in the last hour."""
        window = thinned(within(page.saved.entries, page.stored.taken_at, view.HOUR), 30)
        moves = moves_seen(window)
        st.caption(moves_sentence(moves, span_minutes(window)) + " Inferred from snapshots.")
        view.moves_table(moves, "Bundle", frame.bundle_link)


def _trend(held: SavedSnapshots) -> list[float]:
    if held.latest is None:
        return []
    return model.deviation_trend(
        broker_history(thinned(within(held.entries, held.latest.taken_at, view.HOUR), 40))
    )


PULSAR: Final = PulsarFleet()
