"""Pulsar clusters in the fleet overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.units import format_bytes_per_s
from dashboard.app_pages.fleet.model import FleetRow
from dashboard.app_pages.fleet.system import FleetPageSystem
from dashboard.app_pages.fleet.view import HOUR, TREND, TREND_POINTS, last_hours
from dashboard.app_pages.pulsar.fleet import model
from dashboard.components.activity import acting_of
from dashboard.queries.pulsar.broker_load import brokers_over
from dashboard.queries.pulsar.snapshots import cluster_summary, moves_seen
from dashboard.queries.snapshots import thinned, within

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config

_MOVE_POINTS: Final = 60
"""One a minute, as the history records them."""


class PulsarFleet:
    """Pulsar; see :class:`dashboard.app_pages.fleet.system.FleetPageSystem`."""

    title = "Pulsar"
    overview = "brokers"

    def row(
        self, config: Config, cluster: Cluster, saved: SavedSnapshots, stored: CachedSnapshot
    ) -> FleetRow:
        """Return the row of a snapshot."""
        one = cluster_summary(stored)
        past = thinned(within(saved.entries, stored.taken_at, TREND), TREND_POINTS)
        deviations, traffic = model.trends(brokers_over(config, cluster, past, last_hours(stored)))
        moves = moves_seen(thinned(within(saved.entries, stored.taken_at, HOUR), _MOVE_POINTS))
        return FleetRow(
            cluster=cluster.name,
            acting=acting_of(config, cluster),
            verdict=one.verdict,
            deviation_ratio=one.deviation_ratio,
            measure="traffic",
            target_ratio=one.target_ratio,
            trend=deviations,
            usage_ratio=one.usage_ratio,
            hottest=one.hottest,
            nodes=f"{one.brokers:,}",
            load=format_bytes_per_s(one.traffic_bytes_per_s),
            traffic=one.traffic_bytes_per_s,
            traffic_trend=traffic,
            balancer=one.balancer,
            moves=moves,
            taken_at=one.taken_at,
        )


PULSAR: Final[FleetPageSystem] = PulsarFleet()
