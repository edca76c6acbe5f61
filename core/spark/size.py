"""Which clusters are too large for one task; the one place that decides it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.pulsar.shedding.what_if import MAX_TRIED
from core.snapshot.store import load_manifest

MAX_BUNDLES: Final = MAX_TRIED
"""Up to so many, turning points of a shedding decision are sought, which looks at all of them."""

MAX_PARTITIONS: Final = 50_000
"""Up to so many partitions, one task is done before several would have begun."""

MAX_PLACED: Final = 100_000
"""Up to so many bundles that lose their broker are brought to one process, some 60 MB, which places
them one after the other as the leader does."""


def is_large(directory: Path) -> bool:
    """Return whether a snapshot directory is better distributed over tasks.

    Raises:
        SnapshotError: There is none.
    """
    tables = load_manifest(directory)[1].tables
    limits = {"bundles": MAX_BUNDLES, "partitions": MAX_PARTITIONS}
    return any(name in tables and tables[name].rows > limit for name, limit in limits.items())
