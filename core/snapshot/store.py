"""Snapshot directories, and the store in which a collector saves the recent ones.

A snapshot directory holds ``manifest.json`` and ``<table>.parquet`` for every table. It is written
aside and renamed, so a reader never sees half of one. The store is ``<root>/<cluster>/<name>/``
with names that sort by time: ``20261121T140305123Z-<snapshot id>``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from core.bounds import TooLargeError, checked_json, read_file
from core.errors import SnapshotError
from core.files import make_private, open_private
from core.ids import SnapshotId
from core.schemas import OPTIONAL_TABLES, PULSAR_TABLES
from core.snapshot.clock import ClockJump, clock_jump, is_ahead
from core.snapshot.misfit import MANIFEST, no_snapshot
from core.snapshot.model import FORMAT_VERSION, Manifest, PulsarSnapshot

PULSAR: Final = "pulsar"
EARLIER: Final = 6
"""Snapshots before one that show what lasts."""
Selection = Literal["last", "marks"]
"""Snapshots before one: the last few, or the first ones of its hour and of its ten minutes."""
_MARKS: Final = (timedelta(hours=1), timedelta(minutes=10))
_STAMP: Final = "%Y%m%dT%H%M%S"
_PARTIAL: Final = ".partial-"
_DROPPED: Final = ".dropped-"
_LEFT_BEHIND_AFTER_S: Final = 3_600.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REMEMBERED: Final = 32_768
"""Saved snapshots whose time and size are remembered: a collector needs all in each turn."""
_ROW_GROUP: Final = 8_192
"""Rows a group: a reader that wants one bundle passes over the groups that cannot hold it."""


class _StoredManifest(msgspec.Struct):
    snapshot_id: str
    manifest: Manifest


class Storable(Protocol):
    """A snapshot of either kind of cluster."""

    @property
    def manifest(self) -> Manifest:
        """Its metadata."""

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Its content."""

    @property
    def snapshot_id(self) -> SnapshotId:
        """Hash of the content."""


def save_snapshot(snapshot: Storable, directory: Path) -> None:
    """Write ``snapshot`` as ``directory``; all of it appears at once.

    Raises:
        SnapshotError: The directory exists already and is not empty, or cannot be written.
    """
    try:
        if directory.exists() and any(directory.iterdir()):
            raise SnapshotError(
                f"{directory} already exists and is not empty.",
                hint="Specify a new directory.",
            )
        make_private(directory.parent)
        aside = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=directory.parent))
    except OSError as exc:
        raise SnapshotError(f"{directory} cannot be written: {exc.strerror or exc}.") from exc
    try:
        for name, table in snapshot.tables.items():
            if name in OPTIONAL_TABLES and not table.num_rows:
                continue
            with open_private(aside / f"{name}.parquet") as out:
                pq.write_table(table, out, compression="zstd", row_group_size=_ROW_GROUP)
        stored = _StoredManifest(snapshot_id=snapshot.snapshot_id, manifest=snapshot.manifest)
        text = msgspec.json.format(msgspec.json.encode(stored), indent=1)
        with open_private(aside / MANIFEST) as out:
            out.write(text)
        if directory.exists():
            directory.rmdir()
        aside.replace(directory)
    except OSError as exc:
        raise SnapshotError(f"{directory} cannot be written: {exc.strerror or exc}.") from exc
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def load_manifest(directory: Path) -> tuple[SnapshotId, Manifest]:
    """Read ``manifest.json`` of a snapshot directory.

    Raises:
        SnapshotError: There is no snapshot there, it is damaged, or its form is of another version.
    """
    path = directory / MANIFEST
    try:
        stored = msgspec.json.decode(checked_json(read_file(path)), type=_StoredManifest)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise no_snapshot(directory) from exc
    except OSError as exc:
        raise SnapshotError(f"{path} cannot be read: {exc.strerror}.") from exc
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TooLargeError) as exc:
        raise SnapshotError(
            f"{path} is damaged: {str(exc).rstrip('.')}.", hint="Capture the snapshot again."
        ) from exc
    if stored.manifest.format_version != FORMAT_VERSION:
        raise SnapshotError(
            f"{directory} has format version {stored.manifest.format_version}; this version of "
            f"Trimtab reads {FORMAT_VERSION}.",
            hint="Read it with the version of Trimtab that wrote it.",
        )
    return SnapshotId(stored.snapshot_id), stored.manifest


def load_snapshot(directory: Path) -> PulsarSnapshot:
    """Read a snapshot directory whole.

    Raises:
        SnapshotError: It is missing, damaged, or does not have the content its manifest names.
    """
    snapshot_id, manifest = load_manifest(directory)
    if manifest.kind != PULSAR:
        raise SnapshotError(
            f"{directory} is a snapshot of a {manifest.kind.title()} cluster, "
            "not of a Pulsar cluster.",
            hint="`trimtab health` reads snapshots of every system.",
        )
    tables = {
        name: read_table(directory, name)
        for name in PULSAR_TABLES
        if name not in OPTIONAL_TABLES
        or name in manifest.tables
        or (directory / f"{name}.parquet").exists()
    }
    snapshot = PulsarSnapshot.build(manifest, tables)
    if snapshot.snapshot_id != snapshot_id:
        raise SnapshotError(
            f"{directory} does not match its manifest: content {snapshot.snapshot_id}, manifest "
            f"{snapshot_id}.",
            hint="It was changed, or a newer version of Trimtab wrote it. Read it with that "
            "version, or capture again.",
        )
    return snapshot


def read_table(directory: Path, name: str) -> pa.Table:
    """Read one table of a snapshot directory.

    Raises:
        SnapshotError: It is missing or damaged.
    """
    path = directory / f"{name}.parquet"
    try:
        # pq.read_table would import pyarrow.dataset, and with it pandas: a second at start-up
        with pq.ParquetFile(path) as file:
            return file.read()
    except FileNotFoundError as exc:
        raise SnapshotError(f"{path} is missing.", hint="Capture the snapshot again.") from exc
    except (OSError, pa.ArrowException) as exc:
        raise SnapshotError(
            f"{path} is damaged: {str(exc).rstrip('.')}.", hint="Capture the snapshot again."
        ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention of a store; the newest snapshot always stays.

    Attributes:
        max_count: Snapshots of one cluster.
        max_age_s: Seconds.
        max_bytes: Size on disk of one cluster's snapshots.
    """

    max_count: int = 1_500
    max_age_s: float = 86_400.0
    max_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    """One saved snapshot: when it was taken, which it is, where it is."""

    taken_at: datetime
    snapshot_id: SnapshotId
    path: Path


class SnapshotStore:
    """The recent snapshots of every cluster under one root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def clusters(self) -> list[str]:
        """Names of the clusters that have a snapshot here, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(
            entry.name for entry in self.root.iterdir() if entry.is_dir() and any(_saved_in(entry))
        )

    def entries(self, cluster: str) -> list[CachedSnapshot]:
        """Saved snapshots of the cluster, oldest first; empty when there are none."""
        return sorted(_saved_in(self.root / cluster), key=lambda stored: stored.path.name)

    def latest(self, cluster: str, now: datetime) -> CachedSnapshot | None:
        """The newest saved snapshot of the cluster; see :func:`current`."""
        entries = current(self.entries(cluster), now)
        return entries[-1] if entries else None

    def before(self, cluster: str, moment: datetime, count: int = EARLIER) -> list[CachedSnapshot]:
        """Return the newest saved snapshots of the cluster before a moment, oldest first."""
        return [one for one in self.entries(cluster) if one.taken_at < moment][-count:]

    def marks(self, cluster: str, moment: datetime) -> list[CachedSnapshot]:
        """Return the first snapshots of the moment's hour and ten minutes, oldest first.

        Whoever asks in these ten minutes gets the same ones.
        """
        entries = [one for one in self.entries(cluster) if one.taken_at < moment]
        starts = (moment - (moment - _EPOCH) % span for span in _MARKS)
        first = (next((one for one in entries if one.taken_at >= at), None) for at in starts)
        return list(dict.fromkeys(one for one in first if one is not None))

    def earlier(self, cluster: str, moment: datetime, which: Selection) -> list[CachedSnapshot]:
        """Return a selection of the snapshots before a moment, oldest first."""
        return self.marks(cluster, moment) if which == "marks" else self.before(cluster, moment)

    def jump(self, cluster: str, now: datetime, retention: Retention) -> ClockJump | None:
        """Return the jump of the clock for which age retention of the cluster is paused."""
        return _jump(self.entries(cluster), now, retention)

    def put(self, snapshot: Storable, retention: Retention | None = None) -> CachedSnapshot:
        """Save ``snapshot`` and remove what the retention no longer allows.

        Raises:
            SnapshotError: It cannot be written.
        """
        taken_at = snapshot.manifest.taken_at.astimezone(UTC)
        stamp = f"{taken_at.strftime(_STAMP)}{taken_at.microsecond // 1000:03d}Z"
        path = self.root / snapshot.manifest.cluster / f"{stamp}-{snapshot.snapshot_id}"
        save_snapshot(snapshot, path)
        if retention is not None:
            for stored in expired(self.entries(snapshot.manifest.cluster), taken_at, retention):
                _drop(stored.path)
            _sweep(path.parent, taken_at)
        return CachedSnapshot(taken_at, snapshot.snapshot_id, path)


RUN_STARTS: Final = Retention(max_count=100, max_age_s=30 * 86_400.0)
"""How much is retained of the snapshots on which runs began."""


def run_starts(state_dir: Path) -> SnapshotStore:
    """Return the store of the snapshots on which runs began; an undo compares with them."""
    return SnapshotStore(state_dir / "runs")


def current(entries: Sequence[CachedSnapshot], now: datetime) -> list[CachedSnapshot]:
    """Return the entries (oldest first) without those that a wrong clock put into the future.

    Where there are no others, the first of them stays: it is the least wrong one.
    """
    past = [one for one in entries if not is_ahead(one.taken_at, now)]
    return past or list(entries[:1])


def _jump(
    entries: Sequence[CachedSnapshot], now: datetime, retention: Retention
) -> ClockJump | None:
    max_age = timedelta(seconds=retention.max_age_s)
    return clock_jump([one.taken_at for one in entries], now, max_age, usual=timedelta(0))


def expired(
    entries: Sequence[CachedSnapshot], now: datetime, retention: Retention
) -> list[CachedSnapshot]:
    """Return the entries (oldest first) that the retention no longer allows; never the newest.

    Entries from the future count as the oldest ones. Until the clock is believed after a jump, age
    does not count, and what was taken since may be from the future: it has a count of its own, and
    half of the bytes at most, so that it does not push out what was taken before.
    """
    past = [one for one in entries if not is_ahead(one.taken_at, now)]
    ahead = [one for one in entries if is_ahead(one.taken_at, now)]
    jump = _jump(entries, now, retention)
    if jump is None:
        return _over_limit([*ahead, *past], now, retention)
    since = [one for one in past if one.taken_at >= jump.after]
    before = [one for one in past if one.taken_at < jump.after]
    ageless = replace(retention, max_age_s=float("inf"))
    doubted = _over_limit(since, now, replace(ageless, max_bytes=retention.max_bytes // 2))
    left = set(since) - set(doubted)
    free_bytes = retention.max_bytes - sum(_size_bytes(one.path) for one in left)
    older = _over_limit(
        [*ahead, *before], now, replace(ageless, max_bytes=free_bytes), has_newest=not since
    )
    gone = {*doubted, *older}
    return [one for one in entries if one in gone]


def _over_limit(
    entries: Sequence[CachedSnapshot],
    now: datetime,
    retention: Retention,
    *,
    has_newest: bool = True,
) -> list[CachedSnapshot]:
    """Return the entries over one of the limits, the first to go first.

    Args:
        entries: The first to go first.
        now: The clock.
        retention: The limits.
        has_newest: Whether the last entry is the newest of all, which always stays.
    """
    kept_bytes = 0
    gone: list[CachedSnapshot] = []
    for rank, entry in enumerate(reversed(entries)):
        kept_bytes += _size_bytes(entry.path)
        age_s = (now - entry.taken_at).total_seconds()
        over = rank >= retention.max_count or age_s > retention.max_age_s
        if (rank or not has_newest) and (over or kept_bytes > retention.max_bytes):
            gone.append(entry)
    return gone[::-1]


def _size_bytes(directory: Path) -> int:
    """Return the size of a snapshot on disk; 0 when it was removed meanwhile."""
    try:
        return _saved_bytes(str(directory))
    except OSError:
        return 0


@lru_cache(_REMEMBERED)
def _saved_bytes(directory: str) -> int:
    """Return the size of a saved snapshot, which never changes.

    Raises:
        OSError: It was removed.
    """
    with os.scandir(directory) as parts:
        return sum(part.stat().st_size for part in parts)


def _drop(directory: Path) -> None:
    """Hide a snapshot in one step, so that a reader finds all of it or nothing."""
    aside = directory.with_name(f"{_DROPPED}{directory.name}")
    try:
        directory.replace(aside)
    except OSError:
        return  # another process dropped it
    shutil.rmtree(aside, ignore_errors=True)


def _sweep(folder: Path, now: datetime) -> None:
    """Remove what a process that was killed while writing or dropping left behind."""
    for left in (*folder.glob(f"{_PARTIAL}*"), *folder.glob(f"{_DROPPED}*")):
        try:
            age_s = now.timestamp() - left.stat().st_mtime
        except OSError:
            continue
        if age_s > _LEFT_BEHIND_AFTER_S:
            shutil.rmtree(left, ignore_errors=True)


def _saved_in(directory: Path) -> Iterator[CachedSnapshot]:
    if not directory.is_dir():
        return
    for name in os.listdir(directory):  # noqa: PTH208  # thousands of names, and no need of paths
        saved = _saved(directory, name)
        if saved is not None:
            yield saved


@lru_cache(_REMEMBERED)
def _saved(directory: Path, name: str) -> CachedSnapshot | None:
    """Return the snapshot of a name; ``None``: it is the name of something else."""
    stamp, _, snapshot_id = name.partition("-")
    if name.startswith(".") or not snapshot_id or not stamp.endswith("Z"):
        return None
    try:
        moment = datetime.fromisoformat(f"{stamp[:15]}.{stamp[15:]}").astimezone(UTC)
    except ValueError:
        return None
    return CachedSnapshot(moment, SnapshotId(snapshot_id), directory / name)
