"""What a system declares to the fleet overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.fleet.model import Judged
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config


class FleetSystem(Protocol):
    """One system, as the fleet overview uses it."""

    @property
    def title(self) -> str:
        """Its name, as people write it."""

    @property
    def caption(self) -> str:
        """What a click on a cluster opens."""

    @property
    def subject_pages(self) -> Mapping[str, tuple[str, str]]:
        """By kind of subject: the page that shows it, and the parameter that names it there."""

    @property
    def code_pages(self) -> Mapping[str, str]:
        """Of findings on a whole cluster: the page on which something can be done about them."""

    def newest(self, saved: SavedSnapshots) -> Judged | None:
        """Return the row of what is saved; ``None`` where nothing is, or it is damaged."""

    def summary(self, stored: CachedSnapshot) -> Judged:
        """Return the row of a snapshot.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """

    def clusters(
        self,
        config: Config,
        clusters: Sequence[Cluster],
        saved: Mapping[str, SavedSnapshots],
        summaries: Mapping[str, Any],
    ) -> None:
        """Show one row a cluster.

        Args:
            config: The configuration.
            clusters: Those of the system.
            saved: What is saved of each.
            summaries: What :meth:`newest` or :meth:`summary` returned for each.
        """

    def figures(self, page: Any) -> list[tuple[str, str, str]]:
        """Return label, value and help of the figures of the chosen cluster."""

    def moved(self, page: Any) -> None:
        """Show what changed hands in the last hour."""
