"""A snapshot of a Pegasus cluster with what follows from it, as operations take it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from core.facts import NOTHING_ASSUMED, Assumed
from core.pegasus.snapshot import PegasusFacts
from core.snapshot.pegasus import PegasusSnapshot, load_pegasus_snapshot


def load(directory: Path) -> PegasusSnapshot:
    """Read a snapshot directory.

    Raises:
        SnapshotError: It is damaged.
    """
    return load_pegasus_snapshot(directory)


def assumed(settings: Iterable[str], release: str | None) -> Assumed:
    """Return no assumptions: no answer depends on a setting."""
    del settings, release
    return NOTHING_ASSUMED


def facts(
    snapshot: PegasusSnapshot,
    _: Assumed = NOTHING_ASSUMED,
    earlier: Sequence[PegasusSnapshot] = (),
) -> PegasusFacts:
    """Return the facts of a snapshot."""
    return PegasusFacts(snapshot, earlier)
