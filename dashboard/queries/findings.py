"""Since when findings are known, by the snapshots that are saved: each is judged once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from core.errors import OpsError, SnapshotError
from core.findings.finding import Finding
from core.snapshot.store import CachedSnapshot
from dashboard.queries.background import BackgroundResults
from dashboard.queries.cache import cached
from dashboard.queries.snapshots import SavedSnapshots, thinned, within
from dashboard.systems import SYSTEMS

LOOKED_BACK: Final = timedelta(hours=6)
_LOOKED_AT: Final = 12
_MAX_JUDGED: Final = 2_000

Identity = tuple[str, str]
"""Code and subject: what stays the same from one snapshot to the next."""
Judged = tuple[tuple[datetime, frozenset[Identity]], ...]
"""Moment and findings of earlier snapshots, oldest first."""


def _judge(key: tuple[str, CachedSnapshot]) -> frozenset[Identity] | None:
    """Return the findings of a snapshot; ``None`` if it was dropped meanwhile, or is damaged."""
    kind, stored = key
    try:
        return identities(resolve_name(SYSTEMS[kind].reading)(stored).findings)
    except SnapshotError:
        return None


_judged = cached(_judge, max_entries=_MAX_JUDGED)


def identities(findings: Sequence[Finding]) -> frozenset[Identity]:
    """Return the code and the subject of each finding."""
    return frozenset((finding.code, finding.subject) for finding in findings)


def _look_back(
    key: tuple[str, tuple[CachedSnapshot, ...]],
) -> Judged:
    kind, entries = key
    found = [(entry.taken_at, _judged((kind, entry))) for entry in entries]
    return tuple((at, held) for at, held in found if held is not None)


_looked_back = BackgroundResults(_look_back, max_entries=64, max_waiting=16)
_latest: Final[dict[Path, Judged]] = {}
"""By directory of a cluster's snapshots: what is shown until a newer one is judged as well."""


def first_seen(
    kind: str, saved: SavedSnapshots, stored: CachedSnapshot, findings: Sequence[Finding]
) -> dict[Identity, datetime]:
    """Return the time since when each finding is known, as far as snapshots are saved.

    Earlier snapshots are judged in the background: at first nothing is known, then what was known
    at the snapshot before.

    Args:
        kind: Of the cluster's system.
        saved: What is saved of the cluster.
        stored: The snapshot that is shown.
        findings: Of that snapshot.
    """
    earlier = thinned(within(saved.entries, stored.taken_at, LOOKED_BACK), _LOOKED_AT)
    entries = tuple(one for one in earlier if one.taken_at < stored.taken_at)
    if not entries:
        return {}
    try:
        found = _looked_back((kind, entries))
    except OpsError:
        return {}  # the log has the details
    if found is None:
        former = _latest.get(stored.path.parent, ())
        # a break after the newest of them would not be seen if that was long before
        is_near = former and entries[-2:][0].taken_at <= former[-1][0] < stored.taken_at
        found = former if is_near else ()
    elif found and found[-1][0] >= _latest.get(stored.path.parent, found)[-1][0]:
        _latest[stored.path.parent] = found
    return since_of(found, identities(findings))


def since_of(past: Judged, shown: frozenset[Identity]) -> dict[Identity, datetime]:
    """Return the start of each finding's unbroken presence up to now.

    Args:
        past: Moment and findings of earlier snapshots, oldest first.
        shown: Findings of the snapshot that is shown.
    """
    since: dict[Identity, datetime] = {}
    going = set(shown)
    for at, held in reversed(past):
        going &= held
        since.update(dict.fromkeys(going, at))
    return since
