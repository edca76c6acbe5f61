"""Contract of a system with the fleet overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.fleet.model import FleetRow
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config


class FleetPageSystem(Protocol):
    """One system, as the fleet overview uses it."""

    @property
    def title(self) -> str:
        """Its name, as people write it."""

    @property
    def overview(self) -> str:
        """The page that a click on a cluster opens."""

    def row(
        self, config: Config, cluster: Cluster, saved: SavedSnapshots, stored: CachedSnapshot
    ) -> FleetRow:
        """Return the row of a snapshot.

        Args:
            config: The configuration.
            cluster: Of the system.
            stored: The snapshot that is shown.
        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """
