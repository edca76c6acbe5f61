"""Where each bundle is in a snapshot, by its name: made once, kept with the snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import ref

from core.pulsar.ranges import row_index
from core.snapshot import PulsarSnapshot

_KEY: Final = ("bundle index",)


def bundle_index(snapshot: PulsarSnapshot) -> dict[str, int]:
    """Return the row of each bundle."""
    return snapshot.derived.get(_KEY, lambda: row_index(snapshot.bundles["bundle"]))


def bundle_index_later(snapshot: PulsarSnapshot) -> Callable[[], dict[str, int]]:
    """Return what gives the index when somebody asks.

    It holds no snapshot: what a snapshot holds would then hold it, and neither would go in time.
    """
    names, known = snapshot.bundles["bundle"], ref(snapshot)

    def index() -> dict[str, int]:
        held = known()
        return row_index(names) if held is None else bundle_index(held)

    return index


def share_bundle_index(snapshot: PulsarSnapshot, other: PulsarSnapshot) -> None:
    """Give the index of a snapshot to another one that has the same bundles in the same rows."""
    index = bundle_index(snapshot)
    other.derived.get(_KEY, lambda: index)
