"""Taking in what is recorded elsewhere: exported files, and snapshot directories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.errors import SnapshotError
from core.history.store.layout import (
    HOUR_MS,
    MINUTES,
    HistoryError,
    Kinds,
    new_segment,
)
from core.history.store.reading import TimeRange, snapshot_at, where
from core.history.store.store import KINDS, HistoryLocation, HistoryStore
from core.history.store.tables import Tables, booked
from core.history.store.writer import Recorder
from core.history.transfer.export import Archive, Member, export
from core.progress import NoProgress, Progress
from core.snapshot.record import SEGMENT, TAKEN_AT
from core.snapshot.store import load_manifest

_MANIFEST: Final = "manifest.json"


def import_file(
    store: HistoryStore,
    file: Path,
    as_cluster: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Take in an export, hour by hour; minutes that are here already are left alone.

    Args:
        file: Made by :func:`core.history.transfer.export.export`.
        as_cluster: The cluster's name here; ``None`` to keep it.
        progress: Gets how far it is.
    Returns:
        The number of minutes that are new.
    Raises:
        HistoryError: The file is no such file or damaged (then nothing is taken in), or the history
            cannot be written.
    """
    reporting = progress or NoProgress()
    with Archive(file, store.tables.kinds) as archive:
        archive.check()
        cluster = as_cluster or archive.contents.cluster
        by_hour: dict[int, list[Member]] = {}
        for member in archive.contents.members:
            by_hour.setdefault(member.hour, []).append(member)
        added = 0
        for done, (hour, members) in enumerate(sorted(by_hour.items())):
            reporting.step(done, len(by_hour), "importing")
            rows = {member.kind: archive.rows(member) for member in members}
            added += _take_hour(store, cluster, hour, rows)
    return added


def import_snapshots(
    store: HistoryStore,
    root: Path,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Record saved snapshots afterwards, each as a minute of its own time, oldest first.

    Args:
        root: A snapshot directory, a directory of them, or a store (a directory by cluster).
        cluster: Their name in the history; of a store, the one cluster to be taken. ``None``:
            each snapshot's own.
        progress: Gets how far it is.
    Returns:
        The number of minutes that are new.
    Raises:
        HistoryError: There is no snapshot, or the history cannot be written.
        SnapshotError: One of them is damaged.
    """
    reporting = progress or NoProgress()
    found = sorted((load_manifest(path)[1].taken_at, path) for path in _directories(root, cluster))
    if not found:
        raise HistoryError(
            f"No snapshot in {root}.",
            hint="Specify a snapshot directory, or a directory of snapshots.",
        )
    recorders: dict[str, Recorder] = {}
    added = 0
    for done, (_, path) in enumerate(found):
        reporting.step(done, len(found), "recording snapshots")
        snapshot = load_any(path, store.tables.kinds)
        name = cluster or snapshot.manifest.cluster
        recorder = recorders.setdefault(name, Recorder(store, name))
        added += recorder.record(snapshot).is_new
    return added


def export_snapshots(root: Path, cluster: str | None, file: Path, kinds: Kinds = KINDS) -> int:
    """Put saved snapshots into one file, as :func:`import_file` takes it.

    Returns:
        The number of minutes in it.
    Raises:
        HistoryError: They are of several clusters, or the file cannot be written.
        SnapshotError: One of them is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-history-") as folder:
        store = HistoryStore(HistoryLocation(folder, kinds=kinds))
        import_snapshots(store, root, cluster)
        names = store.clusters()
        if len(names) > 1:
            raise HistoryError(
                f"{root} holds snapshots of {', '.join(names)}.", hint="Import them one by one."
            )
        return export(store, names[0], None, None, file)


def load_any(directory: Path, kinds: Kinds = KINDS) -> Any:
    """Read a snapshot directory of any system that ``kinds`` knows.

    Raises:
        SnapshotError: It is missing or damaged.
    """
    _, manifest = load_manifest(directory)
    return kinds.system(manifest.kind).load(directory)


def _directories(root: Path, cluster: str | None) -> Iterator[Path]:
    """Snapshot directories at, in, or two below a place; hidden ones are not whole."""
    if (root / _MANIFEST).is_file():
        yield root
        return
    try:
        inside = sorted(one for one in root.iterdir() if one.is_dir() and one.name[0] != ".")
    except OSError as exc:
        raise SnapshotError(f"{root} cannot be read: {exc.strerror or exc}.") from exc
    for one in inside:
        if (one / _MANIFEST).is_file():
            yield one
        elif cluster is None or one.name == cluster:
            yield from sorted(
                two for two in one.iterdir() if two.name[0] != "." and (two / _MANIFEST).is_file()
            )


def _take_hour(store: HistoryStore, cluster: str, hour: int, rows: dict[str, pa.Table]) -> int:
    """Take in one hour; return its new minutes."""
    span = TimeRange(hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
    tables = store.tables
    here = tables.scan(MINUTES, [TAKEN_AT], where(cluster, span))[TAKEN_AT]
    minutes = rows.get(MINUTES.name, MINUTES.stored.empty_table())
    is_new = pc.invert(pc.is_in(minutes[TAKEN_AT], value_set=here.combine_chunks()))
    fresh = minutes.filter(is_new)
    if fresh.num_rows == minutes.num_rows:
        _append_hour(tables, cluster, rows)
    elif fresh.num_rows:
        _record_hour(store, cluster, rows, fresh[TAKEN_AT].to_pylist())
    for kind, found in rows.items():
        alone = found.filter(pc.is_null(found[SEGMENT]))
        missing = _not_here(tables, kind, cluster, span, alone)
        if missing.num_rows:
            tables.append(
                tables.kinds.of(kind), booked(tables.kinds.of(kind), cluster, missing, segment=None)
            )
    return int(fresh.num_rows)


def _append_hour(tables: Tables, cluster: str, rows: dict[str, pa.Table]) -> None:
    """Write an hour's rows under new segment numbers, and its minutes last."""
    minutes = rows.get(MINUTES.name)
    if minutes is None:
        return
    old = pc.unique(minutes[SEGMENT])
    first = new_segment()
    kinds = [kind for kind in rows if kind != MINUTES.name]
    for name in [*kinds, MINUTES.name]:
        kind, found = tables.kinds.of(name), rows[name]
        places = pc.index_in(found[SEGMENT], value_set=old)
        mine = found.filter(pc.is_valid(places))
        if mine.num_rows:
            numbers = pc.add(places.drop_null().cast(pa.int64()), first)
            whole = booked(kind, cluster, mine.drop_columns([SEGMENT]), segment=None)
            at = whole.schema.get_field_index(SEGMENT)
            only_one = cluster if kind is MINUTES else ""
            tables.append(
                kind, whole.set_column(at, SEGMENT, numbers), only_one=only_one, version=first
            )


def _record_hour(
    store: HistoryStore, cluster: str, rows: dict[str, pa.Table], new: list[int]
) -> None:
    """Record single minutes of an hour of which others are here: snapshot by snapshot."""
    # rows of an hour build on each other: tables of their own put the snapshots together again
    with tempfile.TemporaryDirectory(prefix="trimtab-history-") as folder:
        aside = Tables(folder, {}, store.tables.kinds)
        _append_hour(aside, cluster, rows)
        recorder = Recorder(store, cluster)
        for moment in sorted(new):
            recorder.record(snapshot_at(aside, cluster, moment))


def _not_here(tables: Tables, kind: str, cluster: str, span: TimeRange, rows: pa.Table) -> pa.Table:
    """Rows without a segment that the history does not have yet."""
    if not rows.num_rows:
        return rows
    have = tables.scan(
        tables.kinds.of(kind), rows.schema.names, where(cluster, span, f"{SEGMENT} IS NULL")
    )
    if not have.num_rows:
        return rows
    known = {repr(row) for row in have.to_pylist()}
    is_new = np.array([repr(row) not in known for row in rows.to_pylist()], dtype=np.bool_)
    return rows.filter(pa.array(is_new))
