"""Which clusters are too large for one task; the one place that decides it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.pulsar.shedding.what_if import MOST_TRIED
from core.snapshot.store import load_manifest

MOST_BUNDLES: Final = MOST_TRIED
"""Up to so many, turning points of a shedding decision are sought, which looks at all of them."""


def is_large(directory: Path) -> bool:
    """Return whether the snapshot in a directory is better spread over tasks.

    Raises:
        SnapshotError: There is none.
    """
    bundles = load_manifest(directory)[1].tables.get("bundles")
    return bundles is not None and bundles.rows > MOST_BUNDLES
