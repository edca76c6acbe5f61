"""Context of a page about a Pegasus cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.components.page import ClusterPage
from dashboard.queries.pegasus.snapshots import PegasusReading, pegasus_reading

if TYPE_CHECKING:
    from core.pegasus.snapshot import PegasusFacts
    from core.snapshot.pegasus import PegasusSnapshot
    from core.snapshot.store import CachedSnapshot


@dataclass(frozen=True, eq=False)
class PegasusPage(ClusterPage[PegasusReading]):
    """Context of a page about a Pegasus cluster."""

    @staticmethod
    def read(stored: CachedSnapshot) -> PegasusReading:
        """Return a saved snapshot with its derived data."""
        return pegasus_reading(stored)

    @property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot itself."""
        return self.reading.snapshot

    @property
    def facts(self) -> PegasusFacts:
        """The snapshot in the form that the kernels take."""
        return self.reading.facts
