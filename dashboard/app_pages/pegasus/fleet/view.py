"""Widgets of the fleet overview for Pegasus clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import streamlit as st

from dashboard import services
from dashboard.app_pages.fleet import view
from dashboard.app_pages.pegasus.fleet import model
from dashboard.components import tables
from dashboard.components.activity import acting_of
from dashboard.components.pegasus.page import partition_link
from dashboard.presenters.moves import moves_sentence
from dashboard.presenters.pegasus.fleet import PegasusSummary
from dashboard.queries.pegasus import snapshots
from dashboard.queries.snapshots import span_minutes, thinned, within

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.components.pegasus.page import PegasusPage
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config


class PegasusFleet:
    """Pegasus; see :class:`dashboard.app_pages.fleet.system.FleetSystem`."""

    title = "Pegasus"
    caption = "Click a cluster to open its level, nodes and settings."
    subject_pages: Mapping[str, tuple[str, str]] = {
        "node": ("pegasus", "node"),
        "pegasus_table": ("pegasus_tables", "table"),
    }
    code_pages: Mapping[str, str] = {
        "not_balanced": "pegasus_balance",
        "balance_unknown": "pegasus_balance",
        "level_low": "pegasus",
        "level_unknown": "pegasus",
    }

    def newest(self, saved: SavedSnapshots) -> PegasusSummary | None:
        """Return the row of what is saved."""
        return snapshots.newest_summary(saved)

    def summary(self, stored: CachedSnapshot) -> PegasusSummary:
        """Return the row of a snapshot."""
        return snapshots.cluster_summary(stored)

    def figures(self, page: PegasusPage) -> list[tuple[str, str, str]]:
        """Return label, value and help of the figures of the chosen cluster."""
        return model.key_figures(page.facts)

    def clusters(
        self,
        config: Config,
        clusters: Sequence[Cluster],
        saved: Mapping[str, SavedSnapshots],
        summaries: Mapping[str, PegasusSummary | None],
    ) -> None:
        """Show one row a Pegasus cluster."""
        del saved  # no trend is shown
        rows = [(one.name, one.environment, summaries[one.name]) for one in clusters]
        acting = [acting_of(config, one) for one in clusters]
        tables.table(
            model.clusters_table(rows, acting, services.now()),
            {
                "cluster": tables.opener(
                    "Cluster", "_open_pegasus", partial(view.open_cluster, "pegasus")
                ),
                "environment": tables.words("Kind"),
                "state": tables.words("State", "The worst finding; unknown is never fine."),
                "access": tables.words("Access", view.READ_ONLY_HELP),
                "run": tables.words("Run", "The run that has not ended: see Activity."),
                "balance": tables.words("Balance", "By what the meta server counts."),
                "unhealthy": tables.whole("Unhealthy", "Partitions that miss replicas, by state."),
                "partitions": tables.whole("Partitions"),
                "level": tables.words(
                    "Level", "Effective level; the stored one too if it differs."
                ),
                "nodes": tables.words("Nodes alive"),
                "tables": tables.whole("Tables"),
                "findings": tables.words("Findings"),
                "age": tables.words("Read"),
            },
            key="pegasus_clusters",
            alt="Pegasus clusters with their health, balance, level and findings",
        )

    def moved(self, page: PegasusPage) -> None:
        """Show the partitions whose primary changed in the last hour."""
        window = thinned(within(page.saved.entries, page.stored.taken_at, view.HOUR), 30)
        moves = snapshots.primary_moves(window)
        said = moves_sentence(moves, span_minutes(window), "node")
        st.caption(f"Primaries: {said} Inferred from snapshots.")
        names = {app_id: table.name for app_id, table in page.facts.tables.items()}
        view.moves_table(moves, "Partition", partial(partition_link, tables=names))


PEGASUS: Final = PegasusFleet()
