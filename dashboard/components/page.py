"""Context of a page about one cluster of any system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from core.findings.finding import Finding
    from core.snapshot.store import CachedSnapshot, Storable
    from dashboard.queries.snapshots import SavedSnapshots
    from dashboard.services import Cluster, Config


class ClusterReading(Protocol):
    """A saved snapshot with its derived data, computed at first use."""

    @property
    def snapshot(self) -> Storable:
        """The snapshot itself.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Its findings, worst first."""


R_co = TypeVar("R_co", bound=ClusterReading, covariant=True)


@dataclass(frozen=True, eq=False)
class ClusterPage(ABC, Generic[R_co]):
    """Context of a page about a cluster; each system has a subclass.

    Attributes:
        config: The configuration.
        cluster: The chosen cluster.
        saved: Its saved snapshots.
        stored: The one that is shown.
        reading: That snapshot with everything derived from it.
        is_past: It was chosen by hand and is not followed by newer ones.
        now: When the page was drawn.
    """

    config: Config
    cluster: Cluster
    saved: SavedSnapshots
    stored: CachedSnapshot
    reading: R_co
    is_past: bool
    now: datetime

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name

    @staticmethod
    @abstractmethod
    def read(stored: CachedSnapshot) -> Any:
        """Return a saved snapshot with its derived data."""


AnyPage = ClusterPage[Any]
"""The page of a cluster of some system, for code that knows none."""
