"""Pegasus clusters in the fleet overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.units import format_per_s
from dashboard.app_pages.fleet.model import FleetRow
from dashboard.app_pages.fleet.system import FleetPageSystem
from dashboard.app_pages.fleet.view import HOUR, last_hours
from dashboard.components.activity import acting_of
from dashboard.queries.pegasus.node_load import node_trends
from dashboard.queries.pegasus.snapshots import cluster_summary, primary_moves
from dashboard.queries.snapshots import thinned, within

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config

_MOVE_POINTS: Final = 60
"""One a minute, as the history records them."""


class PegasusFleet:
    """Pegasus; see :class:`dashboard.app_pages.fleet.system.FleetPageSystem`."""

    title = "Pegasus"
    overview = "pegasus"

    def row(
        self, config: Config, cluster: Cluster, saved: SavedSnapshots, stored: CachedSnapshot
    ) -> FleetRow:
        """Return the row of a snapshot."""
        one = cluster_summary(stored)
        trends = node_trends(config, cluster, last_hours(stored))
        past = thinned(within(saved.entries, stored.taken_at, HOUR), _MOVE_POINTS)
        return FleetRow(
            cluster=cluster.name,
            acting=acting_of(config, cluster),
            verdict=one.verdict,
            deviation_ratio=one.deviation_ratio,
            measure="primaries",
            target_ratio=one.target_ratio,
            trend=[ratio * 100 for ratio in trends.primaries],
            usage_ratio=one.disk_ratio,
            hottest=one.fullest,
            nodes=f"{one.nodes}" if one.alive == one.nodes else f"{one.alive} of {one.nodes}",
            load=format_per_s(one.requests_per_s, "op"),
            balancer=one.level,
            moves=primary_moves(past),
            taken_at=one.taken_at,
        )


PEGASUS: Final[FleetPageSystem] = PegasusFleet()
