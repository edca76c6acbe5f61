"""What the rules of Pegasus read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot


@dataclass(frozen=True, eq=False)
class PegasusContext:
    """What every rule may look at, computed once."""

    facts: PegasusFacts

    @property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot."""
        return self.facts.snapshot

    @cached_property
    def ill_count(self) -> int:
        """Partitions that the guardian does not call healthy, of those that were read."""
        return int((~self.facts.columns.is_guardian_healthy).sum())
