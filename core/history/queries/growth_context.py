"""What a snapshot adds to growth: the limit of a server's usage, and where everything is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.history.tiers.model import GrowthContext
from core.history.tiers.registry import SYSTEM_TIERS

if TYPE_CHECKING:
    from core.snapshot.store import Storable


def growth_context(snapshot: Storable | None) -> GrowthContext:
    """Return limit and owners as a snapshot has them; ``None``: nothing is known."""
    if snapshot is None:
        return GrowthContext()
    return SYSTEM_TIERS[snapshot.manifest.kind].context(snapshot)
