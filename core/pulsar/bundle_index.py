"""Where each bundle is in a snapshot, by its name: built once, cached with the snapshot."""

from __future__ import annotations

from functools import partial
from typing import Any, Final
from weakref import ref

from core.pulsar.bundle_counts import row_index
from core.snapshot import PulsarSnapshot

_KEY: Final = ("bundle index",)


def bundle_index(snapshot: PulsarSnapshot) -> dict[str, int]:
    """Return the row of each bundle."""
    return snapshot.derived.get(_KEY, lambda: row_index(snapshot.bundles["bundle"]))


class IndexLater:
    """Builds the index on first use.

    It holds no snapshot: what a snapshot holds would then hold it, and neither would go in time.
    """

    def __init__(self, snapshot: PulsarSnapshot) -> None:
        self._names, self._snapshot = snapshot.bundles["bundle"], ref(snapshot)

    def __call__(self) -> dict[str, int]:
        """Return the row of each bundle."""
        held = self._snapshot()
        return row_index(self._names) if held is None else bundle_index(held)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the names alone."""
        return partial, (row_index, self._names)


def share_bundle_index(snapshot: PulsarSnapshot, other: PulsarSnapshot) -> None:
    """Give the index of a snapshot to another one that has the same bundles in the same rows."""
    index = bundle_index(snapshot)
    other.derived.get(_KEY, lambda: index)
