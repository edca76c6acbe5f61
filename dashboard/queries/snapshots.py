"""Saved snapshots of a cluster of any system, and the selected one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from core.snapshot.store import CachedSnapshot, SnapshotStore, current
from dashboard import services
from dashboard.queries.cache import cached

MAX_POINTS: Final = 90

_STEPS_S: Final = (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400)


def thinned(
    entries: Sequence[CachedSnapshot], max_points: int = MAX_POINTS
) -> list[CachedSnapshot]:
    """Return the last entry of each stretch of time, at most about ``max_points``, oldest first.

    The stretches are fixed on the clock, so that the choice among older entries stays the same
    when a newer one comes, and what was read of them is found again.
    """
    if len(entries) <= max_points:
        return list(entries)
    span_s = (entries[-1].taken_at - entries[0].taken_at).total_seconds()
    step = next((one for one in _STEPS_S if span_s / one <= max_points), _STEPS_S[-1])
    last_of = {int(entry.taken_at.timestamp()) // step: entry for entry in entries}
    return list(last_of.values())


def within(
    entries: Sequence[CachedSnapshot], end: datetime, span: timedelta
) -> list[CachedSnapshot]:
    """Return the entries taken in the ``span`` up to and including ``end``."""
    return [entry for entry in entries if end - span <= entry.taken_at <= end]


def span_minutes(entries: Sequence[CachedSnapshot]) -> float:
    """Return the minutes between the first and the last entry, 0 without two."""
    if len(entries) < 2:
        return 0.0
    return (entries[-1].taken_at - entries[0].taken_at).total_seconds() / 60


@dataclass(frozen=True, slots=True)
class SavedSnapshots:
    """Saved snapshots of a cluster, oldest first."""

    entries: tuple[CachedSnapshot, ...]

    @property
    def latest(self) -> CachedSnapshot | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    def joined_by(self, past: CachedSnapshot) -> SavedSnapshots:
        """Return the saved snapshots plus a minute of the history, ordered by time."""
        return SavedSnapshots(tuple(sorted((*self.entries, past), key=lambda one: one.taken_at)))

    def find(self, snapshot_id: str) -> CachedSnapshot | None:
        """Return the entry with that id, if it is still saved."""
        return next((entry for entry in self.entries if entry.snapshot_id == snapshot_id), None)


def _listed(key: tuple[Path, str, int]) -> SavedSnapshots:
    root, cluster, _ = key
    return SavedSnapshots(tuple(SnapshotStore(root).entries(cluster)))


_listings = cached(_listed, max_entries=64)


def saved_snapshots(snapshot_store: SnapshotStore, cluster: str) -> SavedSnapshots:
    """Return the saved snapshots; the directory is read only after it changed."""
    try:
        changed = (snapshot_store.root / cluster).stat().st_mtime_ns
    except OSError:
        return SavedSnapshots(())
    listed = _listings((snapshot_store.root, cluster, changed))
    entries = current(listed.entries, services.now())
    return listed if len(entries) == len(listed.entries) else SavedSnapshots(tuple(entries))


def collector_status(path: Path) -> dict[str, object]:
    """Return the collector's own status; empty if it never ran here."""
    try:
        status = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return status if isinstance(status, dict) else {}
