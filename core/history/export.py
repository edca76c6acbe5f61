"""A time range of a history in one file: a support bundle, or a fixture for tests.

The file is a zip archive of Parquet members, ``<kind>/<hour>.parquet``, and ``history.json``, which
names each member with its size and SHA-256. A range begins with the hour in which it starts: what
is recorded of a minute are changes since the beginning of its hour.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.history.layout import (
    CLUSTER,
    DAY,
    HOUR_MS,
    KINDS,
    MINUTES,
    SCHEMA_VERSION,
    SEGMENT,
    TAKEN_AT,
    HistoryError,
    Kind,
)
from core.history.reading import Between, is_committed, where
from core.history.tables import Tables
from core.progress import Progress, Untold

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
    """What an export holds.

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
    tables: Tables, cluster: str, span: Between, file: Path, progress: Progress | None = None
) -> int:
    """Write a time range into one file, which appears when it is whole.

    Returns:
        The number of minutes in it.
    Raises:
        HistoryError: Nothing was recorded then, or the file is there already or cannot be written.
    """
    if span.start is not None:
        span = Between(span.start - span.start % HOUR_MS, span.end)
    minutes = tables.scan(MINUTES, MINUTES.stored.names, where(cluster, span)).sort_by(TAKEN_AT)
    if not minutes.num_rows:
        raise HistoryError(
            f"Nothing of {cluster!r} was recorded in that time.",
            hint="`trimtab history minutes CLUSTER` says what there is.",
        )
    if file.exists():
        raise HistoryError(f"{file} exists already.", hint="Name a file that is not there.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=".partial-", dir=file.parent)
        aside = Path(name)
        try:
            with os.fdopen(number, "wb") as raw:
                _write(raw, tables, minutes, (cluster, span), progress or Untold())
            aside.chmod(0o644)
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as exc:
        raise HistoryError(f"{file} cannot be written: {exc.strerror or exc}.") from exc
    return int(minutes.num_rows)


def _write(
    raw: io.BufferedWriter,
    tables: Tables,
    minutes: pa.Table,
    of: tuple[str, Between],
    progress: Progress,
) -> None:
    cluster, span = of
    members: list[Member] = []
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        for done, kind in enumerate(KINDS.values()):
            progress.step(done, len(KINDS), f"writing {kind.name}")
            for hour, rows in _hours(tables, kind, cluster, span, minutes):
                name = f"{kind.name}/{hour}.parquet"
                content = _parquet(rows)
                archive.writestr(name, content)
                digest = hashlib.sha256(content).hexdigest()
                members.append(Member(name, kind.name, hour, rows.num_rows, digest))
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


def _hours(
    tables: Tables, kind: Kind, cluster: str, span: Between, minutes: pa.Table
) -> Iterator[tuple[int, pa.Table]]:
    """A kind's committed rows, hour by hour: never more than one hour is held."""
    times = tables.scan(kind, [TAKEN_AT], where(cluster, span))[TAKEN_AT]
    for hour in sorted(pc.unique(pc.divide(times, HOUR_MS)).to_pylist()):
        start, end = hour * HOUR_MS, (hour + 1) * HOUR_MS - 1
        part = Between(start, end if span.end is None else min(end, span.end))
        rows = tables.scan(kind, kind.stored.names, where(cluster, part))
        if kind is not MINUTES:
            rows = rows.filter(pa.array(is_committed(rows, minutes)))
        if rows.num_rows:
            yield hour, rows.drop_columns([CLUSTER, DAY])


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()


class Archive:
    """An export that is open for reading; a context manager.

    Args:
        file: Its path.
    Raises:
        HistoryError: It is no such file, of another form, or damaged.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile) as exc:
            why = getattr(exc, "strerror", None) or "it is no archive, or cut off"
            raise HistoryError(
                f"{file} cannot be opened: {why}.", hint="Name a file of `trimtab history export`."
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
            raise self._damaged(f"{member.name} is not what it was")
        stored = KINDS[member.kind].stored
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
        except msgspec.MsgspecError as exc:
            raise self._damaged(f"{CONTENTS} cannot be read") from exc
        if found.format != FORMAT or found.schema_version != SCHEMA_VERSION:
            raise HistoryError(
                f"{self.file} has form {found.format} {found.schema_version}; this Trimtab reads "
                f"{FORMAT} {SCHEMA_VERSION}.",
                hint="Read it with the version of Trimtab that wrote it.",
            )
        unknown = sorted({one.kind for one in found.members} - set(KINDS))
        if unknown:
            raise self._damaged(f"nobody knows rows of kind {unknown[0]!r}")
        return found

    def _read(self, name: str) -> bytes:
        """Read a member into memory: nothing is ever unpacked to a path that the file names."""
        try:
            if self._zip.getinfo(name).file_size > _MOST_BYTES:
                raise self._damaged(f"{name} is larger than anything that Trimtab writes")
            return self._zip.read(name)
        except KeyError as exc:
            raise self._damaged(f"{name} is not in it") from exc
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as exc:
            raise self._damaged(f"{name} cannot be read") from exc
        except zlib.error as exc:
            raise self._damaged(f"{name} cannot be unpacked") from exc

    def _damaged(self, what: str) -> HistoryError:
        return HistoryError(
            f"{self.file} is no whole history: {what}.",
            hint="Export it again, or fetch it again.",
        )
