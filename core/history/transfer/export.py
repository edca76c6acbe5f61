"""A time range of a history in one file: a support bundle, or a fixture for tests.

The file is a zip archive of Parquet members, ``<kind>/<hour>.parquet``, and ``history.json``, which
names each member with its size and SHA-256. A range begins with the hour in which it starts: what
is recorded of a minute are changes since the beginning of its hour. Rows go from the tables into
the file a row group at a time, so that a long range takes no more memory than a short one.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.files import make_private, whole_file
from core.history.store.encoding import ROW_GROUP
from core.history.store.layout import (
    HOUR_MS,
    MINUTES,
    SCHEMA_VERSION,
    HistoryError,
    Kinds,
)
from core.history.store.reading import TimeRange, between, is_committed, where
from core.history.store.store import KINDS, HistoryStore
from core.history.store.tables import Tables
from core.progress import NoProgress, Progress
from core.snapshot.record import (
    CLUSTER,
    DAY,
    SEGMENT,
    TAKEN_AT,
    Kind,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FORMAT: Final = "trimtab-history"
CONTENTS: Final = "history.json"
_MOST_BYTES: Final = 2 * 1024**3
"""A member that says it is larger is refused: nothing that we write comes near."""


class Member(msgspec.Struct, frozen=True):
    """One Parquet file of an export.

    Attributes:
        name: In the archive.
        kind: Of its rows.
        hour: Whole hours since the epoch, UTC.
        rows: Number of rows.
        sha256: Of its bytes, as hex digits.
    """

    name: str
    kind: str
    hour: int
    rows: int
    sha256: str


class Contents(msgspec.Struct, frozen=True):
    """Contents of an export.

    Attributes:
        format: :data:`FORMAT`.
        schema_version: Form of the rows.
        cluster: Where they are from.
        first: First minute, ms.
        last: Last minute, ms.
        minutes: Number of minutes.
        members: The files.
    """

    format: str
    schema_version: int
    cluster: str
    first: int
    last: int
    minutes: int
    members: tuple[Member, ...]


def export(
    store: HistoryStore,
    cluster: str,
    start: datetime | None,
    end: datetime | None,
    file: Path,
    progress: Progress | None = None,
) -> int:
    """Write a time range into one file, which appears when it is whole.

    Args:
        cluster: Its name there.
        start: The range begins with the hour of this moment; ``None`` for the first minute.
        end: Its end; ``None`` for the last minute.
        file: The file to write.
        progress: Reports how far it is.
    Returns:
        The number of minutes in it.
    Raises:
        HistoryError: Nothing was recorded then, or the file is there already or cannot be written.
    """
    tables, span = store.tables, between(start, end)
    if span.start is not None:
        span = TimeRange(span.start - span.start % HOUR_MS, span.end)
    minutes = tables.scan(MINUTES, (TAKEN_AT, SEGMENT), where(cluster, span)).sort_by(TAKEN_AT)
    if not minutes.num_rows:
        raise HistoryError(
            f"No history of {cluster!r} is recorded in that period.",
            hint="List the recorded minutes with `trimtab history minutes CLUSTER`.",
        )
    if file.exists():
        raise HistoryError(f"{file} already exists.", hint="Specify a new file.")
    try:
        make_private(file.parent)
        with whole_file(file, is_new=True) as raw:
            _write(raw, tables, minutes, (cluster, span), progress or NoProgress())
    except OSError as exc:
        raise HistoryError(f"{file} cannot be written: {exc.strerror or exc}.") from exc
    return int(minutes.num_rows)


def _write(
    raw: BinaryIO,
    tables: Tables,
    minutes: pa.Table,
    of: tuple[str, TimeRange],
    progress: Progress,
) -> None:
    cluster, span = of
    members: list[Member] = []
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        for done, kind in enumerate(tables.kinds):
            progress.step(done, len(tables.kinds), f"writing {kind.name}")
            for hour in _hours(tables, kind, cluster, span):
                part = TimeRange(hour * HOUR_MS, _end_of(hour, span))
                rows = _committed(tables, kind, where(cluster, part), minutes)
                member = write_member(archive, kind, hour, rows)
                if member is not None:
                    members.append(member)
        contents = Contents(
            FORMAT,
            SCHEMA_VERSION,
            cluster,
            minutes[TAKEN_AT][0].as_py(),
            minutes[TAKEN_AT][-1].as_py(),
            minutes.num_rows,
            tuple(members),
        )
        archive.writestr(CONTENTS, msgspec.json.format(msgspec.json.encode(contents), indent=1))


def _hours(tables: Tables, kind: Kind, cluster: str, span: TimeRange) -> list[int]:
    """Hours of which rows of a kind may be there, oldest first."""
    found: set[int] = set()
    for batch in tables.batches(kind, [TAKEN_AT], where(cluster, span)):
        found.update(pc.unique(pc.divide(batch[TAKEN_AT], HOUR_MS)).to_pylist())
    return sorted(found)


def _end_of(hour: int, span: TimeRange) -> int:
    end = (hour + 1) * HOUR_MS - 1
    return end if span.end is None else min(end, span.end)


def _committed(tables: Tables, kind: Kind, predicate: str, minutes: pa.Table) -> Iterator[pa.Table]:
    """A kind's rows that count, without cluster and day, as they are read."""
    for batch in tables.batches(kind, kind.stored.names, predicate):
        committed = batch
        if kind is not MINUTES:
            committed = batch.filter(pa.array(is_committed(batch, minutes)))
        if committed.num_rows:
            yield committed.drop_columns([CLUSTER, DAY])


class _HashedMember(io.RawIOBase):
    """A member that is written: what goes through it is hashed."""

    def __init__(self, member: IO[bytes]) -> None:
        super().__init__()
        self._member = member
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        self.sha256.update(content)
        return self._member.write(content)


def write_member(
    archive: zipfile.ZipFile, kind: Kind, hour: int, batches: Iterable[pa.Table]
) -> Member | None:
    """Write rows as one Parquet member, a row group at a time.

    Args:
        archive: Open for writing.
        kind: Of the rows.
        hour: Theirs.
        batches: The rows; each is released before many more are requested.
    Returns:
        What was written; ``None`` without a row.
    """
    groups = _groups(batches)
    first = next(groups, None)
    if first is None:
        return None
    name, rows = f"{kind.name}/{hour}.parquet", 0
    with archive.open(name, "w", force_zip64=True) as raw:
        hashed = _HashedMember(raw)
        with pq.ParquetWriter(hashed, first.schema, compression="zstd") as writer:
            for group in itertools.chain([first], groups):
                rows += group.num_rows
                writer.write_table(group)
    return Member(name, kind.name, hour, rows, hashed.sha256.hexdigest())


def _groups(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put batches together to tables of :data:`ROW_GROUP` rows or a few more."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= ROW_GROUP:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


class Archive:
    """An export that is open for reading; a context manager.

    Args:
        kinds: The kinds of rows that it may hold.
    Raises:
        HistoryError: It is no such file, of another form, or damaged.
    """

    def __init__(self, file: Path, kinds: Kinds = KINDS) -> None:
        self.file = file
        self._kinds = kinds
        try:
            self._zip = zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile) as exc:
            why = getattr(exc, "strerror", None) or "it is not an archive, or is truncated"
            raise HistoryError(
                f"{file} cannot be opened: {why}.",
                hint="Specify a file written by `trimtab history export`.",
            ) from exc
        try:
            self.contents = self._contents()
        except HistoryError:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def rows(self, member: Member) -> pa.Table:
        """Return a member's rows, with every stored column but cluster and day.

        Raises:
            HistoryError: It is damaged.
        """
        content = self._read(member.name)
        if hashlib.sha256(content).hexdigest() != member.sha256:
            raise self._damaged(f"{member.name} was altered")
        stored = self._kinds.of(member.kind).stored
        wanted = pa.schema([one for one in stored if one.name not in (CLUSTER, DAY)])
        try:
            with pq.ParquetFile(io.BytesIO(content)) as parquet:
                return parquet.read().select(wanted.names).cast(wanted)
        except (pa.ArrowException, OSError, KeyError) as exc:
            raise self._damaged(f"{member.name} cannot be read") from exc

    def check(self) -> None:
        """Read every member once, so that nothing is taken in of a damaged file.

        Raises:
            HistoryError: One of them is damaged.
        """
        for member in self.contents.members:
            rows = self.rows(member)
            hours = pc.divide(rows[TAKEN_AT], HOUR_MS)
            if rows[TAKEN_AT].null_count or pc.any(pc.not_equal(hours, member.hour)).as_py():
                raise self._damaged(f"{member.name} has rows of another hour")
            if member.kind == MINUTES.name and rows[SEGMENT].null_count:
                raise self._damaged(f"{member.name} has minutes without a segment")

    def _contents(self) -> Contents:
        try:
            found = msgspec.json.decode(self._read(CONTENTS), type=Contents)
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise self._damaged(f"{CONTENTS} cannot be read") from exc
        if found.format != FORMAT or found.schema_version != SCHEMA_VERSION:
            raise HistoryError(
                f"{self.file} has format {found.format} {found.schema_version}; this version of "
                f"Trimtab reads {FORMAT} {SCHEMA_VERSION}.",
                hint="Read it with the version of Trimtab that wrote it.",
            )
        unknown = sorted({one.kind for one in found.members} - set(self._kinds.names))
        if unknown:
            raise self._damaged(f"rows of unknown kind {unknown[0]!r}")
        return found

    def _read(self, name: str) -> bytes:
        """Read a member into memory: nothing is ever unpacked to a path that the file names."""
        try:
            if self._zip.getinfo(name).file_size > _MOST_BYTES:
                raise self._damaged(f"{name} is larger than any file that Trimtab writes")
            return self._zip.read(name)
        except KeyError as exc:
            raise self._damaged(f"{name} is missing") from exc
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as exc:
            raise self._damaged(f"{name} cannot be read") from exc
        except zlib.error as exc:
            raise self._damaged(f"{name} cannot be unpacked") from exc

    def _damaged(self, what: str) -> HistoryError:
        return HistoryError(
            f"{self.file} is not a complete export: {what}.",
            hint="Export or copy it again.",
        )
