"""Past minutes as snapshot directories: what the pages read when no collector keeps them any more.

A minute is written out of the history once, whole, and cached with the few that were read last.
"""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.errors import SnapshotError
from core.snapshot.store import CachedSnapshot, SnapshotStore
from core.units import datetime_to_ms

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

MAX_COUNT: Final = 40
MAX_BYTES: Final = 2 * 1024**3


class PastMinutes:
    """Recorded minutes as snapshot directories, the ones looked at last.

    Args:
        root: Directory of the cached ones; made when first needed.
        max_count: At most so many of one cluster are cached.
        max_bytes: Of one cluster, on disk; the requested one always stays.
    """

    def __init__(
        self,
        store: HistoryStore,
        root: Path,
        *,
        max_count: int = MAX_COUNT,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._store = store
        self._snapshot_store = SnapshotStore(root)
        self._max_count = max_count
        self._max_bytes = max_bytes

    def cached(self, cluster: str, taken_at: datetime) -> CachedSnapshot | None:
        """Return the snapshot of exactly that minute where it is written out already."""
        wanted = datetime_to_ms(taken_at)
        # a directory's name is cut to the millisecond, a recorded time is rounded
        return next(
            (
                one
                for one in self._snapshot_store.entries(cluster)
                if 0 <= wanted - datetime_to_ms(one.taken_at) <= 1
            ),
            None,
        )

    def at(self, cluster: str, taken_at: datetime) -> CachedSnapshot:
        """Return the recorded snapshot of a minute, written out when it is not yet.

        Args:
            cluster: Its name.
            taken_at: When it was recorded; between two minutes: the earlier one.
        Raises:
            SnapshotError: Nothing was recorded until then, the history is damaged, or the
                directory cannot be written.
        """
        found = self.cached(cluster, taken_at)
        if found is None:
            found = self._written(cluster, taken_at)
        self._touch(found)
        self._drop_others(cluster, found)
        return found

    def _written(self, cluster: str, taken_at: datetime) -> CachedSnapshot:
        snapshot = self._store.snapshot_at(cluster, taken_at)
        exact = self.cached(cluster, snapshot.manifest.taken_at)
        if exact is not None:
            return exact
        try:
            return self._snapshot_store.put(snapshot)
        except SnapshotError:
            exact = self.cached(cluster, snapshot.manifest.taken_at)  # another session wrote it
            if exact is None:
                raise
            return exact

    @staticmethod
    def _touch(entry: CachedSnapshot) -> None:
        """Note that it was looked at: the others go first."""
        try:
            os.utime(entry.path)
        except OSError:
            return  # of another user: it is dropped in its turn

    def _drop_others(self, cluster: str, wanted: CachedSnapshot) -> None:
        """Drop those that were not looked at for longest, until the rest is small enough."""
        held = 0
        entries = sorted(
            self._snapshot_store.entries(cluster), key=lambda one: -_looked_at(one.path)
        )
        for rank, entry in enumerate(entries):
            held += _size_bytes(entry.path)
            if entry.path == wanted.path:
                continue
            if rank >= self._max_count or held > self._max_bytes:
                shutil.rmtree(entry.path, ignore_errors=True)


def _looked_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size_bytes(directory: Path) -> int:
    try:
        return sum(part.stat().st_size for part in directory.iterdir())
    except OSError:
        return 0
