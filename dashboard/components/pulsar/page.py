"""Context of a page about a Pulsar cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.components.page import ClusterPage
from dashboard.queries.pulsar.snapshots import Reading, reading

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot


@dataclass(frozen=True, eq=False)
class PulsarPage(ClusterPage[Reading]):
    """Context of a page about a Pulsar cluster."""

    @staticmethod
    def read(stored: CachedSnapshot) -> Reading:
        """Return a saved snapshot with its derived data."""
        return reading(stored)
