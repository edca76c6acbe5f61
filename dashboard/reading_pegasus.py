"""What the pages of Pegasus clusters read: a kept snapshot with what follows from it, once."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from core.pegasus.snapshot import PegasusFacts
from core.pegasus.summary import NodeSummary, TableSummary, summarize_nodes, summarize_tables
from core.pegasus.verdict import BalanceVerdict
from core.snapshot import Manifest
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot
from core.snapshot.store import Shelved
from dashboard.memo import Memo
from dashboard.reading import reading

MAX_READINGS: Final = 4
PEGASUS: Final = "pegasus"
"""Kind of these clusters in the configuration."""


class PegasusReading:
    """One kept snapshot and what follows from it; every part is computed when first asked for."""

    def __init__(self, shelved: Shelved) -> None:
        self.shelved = shelved

    @cached_property
    def snapshot(self) -> PegasusSnapshot:
        """The snapshot itself.

        Raises:
            SnapshotError: It is damaged, or was dropped meanwhile.
        """
        return load_pegasus_snapshot(self.shelved.path)

    @cached_property
    def facts(self) -> PegasusFacts:
        """The snapshot in the form that the kernels take; its tables are read once."""
        return PegasusFacts(self.snapshot)

    @cached_property
    def verdict(self) -> BalanceVerdict:
        """Balanced, not balanced, or unknown."""
        return self.facts.verdict()

    @cached_property
    def nodes(self) -> list[NodeSummary]:
        """Every node in sums, by host and port."""
        return summarize_nodes(self.facts)

    @cached_property
    def tables(self) -> list[TableSummary]:
        """Every available table in sums, by id."""
        return summarize_tables(self.facts)


pegasus_reading = Memo(PegasusReading, max_entries=MAX_READINGS)
"""The reading of a kept snapshot of a Pegasus cluster."""


def manifest_of(kind: str, shelved: Shelved) -> Manifest:
    """Return what a kept snapshot is about, whichever system it is of.

    Args:
        kind: Of its cluster.
        shelved: The snapshot.
    Raises:
        SnapshotError: It is damaged, or was dropped meanwhile.
    """
    if kind == PEGASUS:
        return pegasus_reading(shelved).snapshot.manifest
    return reading(shelved).snapshot.manifest
