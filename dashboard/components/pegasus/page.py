"""Context of a page about a Pegasus cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard import state
from dashboard.components.page import ClusterPage
from dashboard.queries.pegasus.snapshots import PegasusReading, pegasus_reading

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def partition_link(gpid: str, tables: Mapping[int, str]) -> None:
    """Open the page of the table of a partition.

    Args:
        gpid: ``app.index``.
        tables: Names by id.
    """
    app_id, _, index = gpid.partition(".")
    state.go("pegasus_tables", table=tables.get(int(app_id), ""), partition=index)
