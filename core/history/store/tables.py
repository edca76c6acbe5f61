"""Delta tables: opened once, appended to and scanned; what goes wrong becomes an error of ours."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from core.bounds import MAX_COMMIT_BYTES
from core.files import make_private, write_whole
from core.history.store.encoding import writing
from core.history.store.faults import check_scheme, fault, short
from core.history.store.layout import DAY_MS, SCHEMA_VERSION, HistoryError, Kinds, day_of
from core.snapshot.record import (
    CLUSTER,
    COPY,
    DAY,
    SEGMENT,
    TAKEN_AT,
    Kind,
)

_VERSION_KEY: Final = "trimtab.schemaVersion"
_CONFLICTS: Final = ("concurrent transaction", "changed since last commit")
"""What a commit that came second reads: of rows, or of a table that two made at once."""
_RETRIES: Final = 30
_LATEST: Final = 4
"""Entries of a log that may have come since the last checksum was written."""

_CONFIGURATION: Final = {
    "delta.checkpointInterval": "60",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.enableExpiredLogCleanup": "true",
    "delta.deletedFileRetentionDuration": "interval 24 hours",
    _VERSION_KEY: str(SCHEMA_VERSION),
}
_FOLLOWED_FOR: Final = 30
"""Commits after which a table is opened again instead of followed.

A followed table keeps what each commit added apart, and every scan and commit goes through all of
it: after 1,500 commits an append took 112 ms of processor, on a table just opened 15 ms. To open
one takes 5 ms.
"""
SUMS: Final = "_sums"
"""Folder of the files' SHA-256, by kind; that a kind is in it says that rows were recorded."""


class ConflictingCommitError(HistoryError):
    """Another process committed meanwhile what this commit depends on."""

    code = "history_conflict"


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table that one caller follows alone.

    Attributes:
        table: The table.
        since: Its version when it was opened.
    """

    table: DeltaTable
    since: int

    @property
    def is_long(self) -> bool:
        """Whether it has followed so many commits that opening it again is cheaper."""
        return self.table.version() - self.since >= _FOLLOWED_FOR


class Tables:
    """The Delta tables of one history; open ones are cached and followed.

    A table object follows the log of its table, which is cheap; its scans are of the version it
    was last brought to, and several threads may scan at once.

    Args:
        uri: Where the history is.
        options: Storage options of that address.
        kinds: The kinds of its rows.
    """

    def __init__(self, uri: str, options: Mapping[str, str], kinds: Kinds) -> None:
        self.uri = uri.rstrip("/")
        self.kinds = kinds
        self._options = dict(options)
        self._open: dict[str, FollowedTable] = {}
        self._summed: dict[str, int] = {}  # version of a kind up to which its files have checksums
        self._lock = threading.Lock()

    def table(self, kind: str) -> DeltaTable | None:
        """Return a kind's table at its newest version, or ``None`` where nothing was written."""
        self.kinds.of(kind)
        check_scheme(self.uri)
        with self._lock, translated(self.address(kind)):
            held = self._open.get(kind)
            try:
                if held is None or held.is_long:
                    return self._opened(kind)
                if self._is_newest(kind, held.table.version()):
                    return held.table
                _check_commits(self.address(kind), held.table.version() + 1)
                held.table.update_incremental()
            except TableNotFoundError:
                self._open.pop(kind, None)
                return None
            return held.table

    def fresh(self, kind: Kind) -> DeltaTable:
        """Return the current table, not updated by other processes; created if missing."""
        self.table(kind.name) or self._created(kind)
        with translated(self.address(kind.name)):
            return DeltaTable(self.address(kind.name), storage_options=self._options)

    def followed(self, kind: Kind, own: FollowedTable | None) -> FollowedTable:
        """Return :meth:`fresh`, or what an earlier call returned, brought to the newest version.

        To open a table reads up to 60 commits of its log; to follow it reads the newest ones.
        """
        if own is not None and not own.is_long:
            if self._is_newest(kind.name, own.table.version()):
                return own
            with suppress(TableNotFoundError), translated(self.address(kind.name)):
                _check_commits(self.address(kind.name), own.table.version() + 1)
                own.table.update_incremental()
                return own
        table = self.fresh(kind)
        return FollowedTable(table, table.version())

    def _is_newest(self, kind: str, version: int) -> bool:
        """Return whether a local table has no later commit; its log, which is long, is not listed.

        Versions have no gaps. Where the log of this version was removed, later ones may be, too.
        """
        root = local_folder(self.uri)
        if root is None:
            return False
        log = root / kind / "_delta_log"
        return _commit_file(log, version).exists() and not _commit_file(log, version + 1).exists()

    def address(self, kind: str) -> str:
        """Location of a kind's table."""
        return f"{self.uri}/{kind}"

    def append(
        self,
        kind: Kind,
        rows: pa.Table,
        *,
        only_one: str = "",
        basis: DeltaTable | None = None,
        version: int = 0,
    ) -> None:
        """Commit rows.

        Args:
            kind: Their kind.
            rows: Columns of ``kind.stored``.
            only_one: Commits with one name exclude each other: the later one fails.
            basis: The table as it was when the caller decided to commit; by default as it is.
            version: What is stored with ``only_one``.
        Raises:
            ConflictingCommitError: Another commit of that name came first.
            HistoryError: The rows cannot be written.
        """
        attempts = 1 if only_one else _RETRIES
        marks = [Transaction(only_one, version)] if only_one else None
        while True:
            table = basis if basis is not None else self.table(kind.name)
            attempts -= 1
            try:
                table = table or self._created(kind)
                self._commit(kind, table, rows, marks)
            except ConflictingCommitError:
                # compaction took files away meanwhile; rows that are added depend on none of them
                if not attempts:
                    raise
            else:
                return

    def _commit(
        self, kind: Kind, table: DeltaTable, rows: pa.Table, marks: list[Transaction] | None
    ) -> None:
        commit = CommitProperties(app_transactions=marks, max_commit_retries=_RETRIES)
        with translated(self.address(kind.name)):
            _add_columns(table, kind)
            write_deltalake(
                table,
                rows.select(kind.stored.names).cast(kind.stored),
                mode="append",
                writer_properties=writing(kind),
                commit_properties=commit,
            )
        self._sum_up(kind, table.version())

    def replace(
        self,
        kind: Kind,
        rows: pa.Table,
        predicate: str,
        basis: DeltaTable,
        *,
        only_one: str = "",
        version: int = 0,
    ) -> None:
        """Put ``rows`` in the place of all that fits ``predicate``.

        Args:
            kind: Their kind.
            rows: Columns of ``kind.stored``.
            predicate: What they replace.
            basis: The table (of :meth:`fresh`) that ``rows`` were made from: whatever came to fit
                ``predicate`` since then would be lost.
            only_one: Commits with one name exclude each other: the later one fails.
            version: What is stored with ``only_one``.
        Raises:
            ConflictingCommitError: Another process wrote such rows meanwhile; nothing is changed.
            HistoryError: The rows cannot be written.
        """
        marks = [Transaction(only_one, version)] if only_one else None
        with translated(self.address(kind.name)):
            _add_columns(basis, kind)
            write_deltalake(
                basis,
                rows.select(kind.stored.names).cast(kind.stored),
                mode="overwrite",
                predicate=predicate,
                writer_properties=writing(kind, rows),
                commit_properties=CommitProperties(
                    app_transactions=marks, max_commit_retries=_RETRIES
                ),
            )
        self._sum_up(kind, basis.version())

    def forget(self, kind: str) -> None:
        """Reopen a kind's table on the next access, after it was replaced."""
        with self._lock:
            self._open.pop(kind, None)

    def drop_sums(self, kind: str, names: Sequence[str]) -> None:
        """Remove the checksums of files that were removed."""
        root = local_folder(self.uri)
        if root is None:
            return
        for name in names:
            with suppress(OSError):
                sum_file(root, kind, name).unlink()

    def _sum_up(self, kind: Kind, version: int) -> None:
        """Write the checksums of new files next to a local history; see :mod:`.integrity`.

        Args:
            kind: Of the table.
            version: After the commit; the folder of the log, with thousands of entries, is not
                listed for it.
        """
        root = local_folder(self.uri)
        if root is None:
            return
        log = root / kind.name / "_delta_log"
        # rows are there whether or not their checksums are: a full disk is named by the next commit
        with suppress(OSError, ValueError):
            make_private(root / SUMS / kind.name)
            summed = self._summed.get(kind.name, -1)  # later, where the table is another one now
            first = max(summed + 1 if summed < version else 0, version + 1 - _LATEST)
            for number in range(first, version + 1):
                entry = _commit_file(log, number)
                for path in _added_by(entry) if entry.exists() else ():
                    expected = sum_file(root, kind.name, Path(path).name)
                    if not expected.exists():
                        content = (root / kind.name / path).read_bytes()
                        digest = hashlib.sha256(content).hexdigest()
                        write_whole(expected, digest.encode(), is_durable=False)
            self._summed[kind.name] = version

    def scan(
        self, kind: Kind, columns: Sequence[str], predicate: str, basis: DeltaTable | None = None
    ) -> pa.Table:
        """Return the rows that fit; empty when nothing was ever written.

        Args:
            kind: Their kind.
            columns: Wanted ones.
            predicate: Which rows.
            basis: The table as it was at some moment; by default as it is.
        Raises:
            HistoryError: They cannot be read.
        """
        wanted = pa.schema([kind.stored.field(name) for name in columns])
        table = basis if basis is not None else self.table(kind.name)
        if table is None:
            return wanted.empty_table()
        with translated(self.address(kind.name)):
            stream = table.scan(columns=_present(table, columns), predicate=predicate)
            return _completed(pa.RecordBatchReader.from_stream(stream).read_all(), wanted)

    def batches(self, kind: Kind, columns: Sequence[str], predicate: str) -> Iterator[pa.Table]:
        """Return the rows that fit as :meth:`scan` does, a batch at a time as they are read.

        Raises:
            HistoryError: They cannot be read.
        """
        wanted = pa.schema([kind.stored.field(name) for name in columns])
        table = self.table(kind.name)
        if table is None:
            return
        with translated(self.address(kind.name)):
            stream = table.scan(columns=_present(table, columns), predicate=predicate)
            for batch in pa.RecordBatchReader.from_stream(stream):
                yield _completed(pa.Table.from_batches([batch]), wanted)

    def last_rows(self, kind: Kind, columns: Sequence[str], before: str, at: str) -> pa.Table:
        """Return the rows that fit ``at``, and of ``before`` those whose key is not among them.

        What is repeated each minute is so read once, not once a minute.

        Raises:
            HistoryError: They cannot be read.
        """
        newest = self.scan(kind, columns, at)
        table = self.table(kind.name)
        if table is None:
            return newest
        same = [f'e."{name}" = n."{name}"' for name in kind.key]
        same.append(f"coalesce(e.{COPY}, 0) = coalesce(n.{COPY}, 0)")
        wanted = ", ".join(f'e."{name}"' for name in _present(table, columns))
        keys = ", ".join(f'"{name}"' for name in (*kind.key, COPY))
        query = (
            f"SELECT {wanted} FROM (SELECT * FROM t WHERE {before}) e "  # noqa: S608  # ours, quoted
            f"LEFT ANTI JOIN (SELECT {keys} FROM t WHERE {at}) n ON {' AND '.join(same)}"
        )
        with translated(self.address(kind.name)):
            stream = QueryBuilder().register("t", table).execute(query)
            older = pa.RecordBatchReader.from_stream(stream).read_all()
            older = _completed(older, newest.schema)
        return pa.concat_tables([older, newest])

    def _opened(self, kind: str) -> DeltaTable:
        _check_commits(self.address(kind), 0)
        table = DeltaTable(self.address(kind), storage_options=self._options)
        version = table.metadata().configuration.get(_VERSION_KEY, "0")
        if version != str(SCHEMA_VERSION):
            raise HistoryError(
                f"{self.address(kind)} has format version {version}; this version of Trimtab "
                f"reads {SCHEMA_VERSION}.",
                hint="Read it with the version of Trimtab that wrote it.",
            )
        self._open[kind] = FollowedTable(table, table.version())
        return table

    def _created(self, kind: Kind) -> DeltaTable:
        address = self.address(kind.name)
        watched = [TAKEN_AT, SEGMENT, *kind.key[:1]]
        with translated(address):
            if "://" not in address:
                Path(address).mkdir(parents=True, exist_ok=True)
            with suppress(CommitFailedError):  # another process makes it at the same time
                DeltaTable.create(
                    address,
                    schema=kind.stored,
                    mode="ignore",
                    partition_by=[CLUSTER, DAY],
                    name=kind.name,
                    configuration=_CONFIGURATION
                    | {"delta.dataSkippingStatsColumns": ",".join(watched)},
                    storage_options=self._options,
                    raise_if_key_not_exists=False,
                )
        table = self.table(kind.name)
        if table is None:
            raise HistoryError(f"{address} was created but is missing.", hint="Try again.")
        return table


def local_folder(uri: str) -> Path | None:
    """Return the local directory of a history, or ``None`` if it is remote."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else uri)


def sum_file(root: Path, kind: str, name: str) -> Path:
    """Return the file with the SHA-256 of a data file, in hexadecimal."""
    return root / SUMS / kind / f"{name}.sha256"


def _commit_file(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def _added_by(entry: Path) -> list[str]:
    lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines() if line]
    return [unquote(line["add"]["path"]) for line in lines if "add" in line]


def booked(kind: Kind, cluster: str, rows: pa.Table, *, segment: int | None) -> pa.Table:
    """Return rows as they are written: every stored column, the bookkeeping filled in.

    Raises:
        HistoryError: ``taken_at`` or another column is missing or does not fit.
    """
    stored = kind.stored
    unknown = set(rows.schema.names) - set(stored.names)
    if TAKEN_AT not in rows.schema.names or rows[TAKEN_AT].null_count or unknown:
        raise HistoryError(
            f"Rows of kind {kind.name!r} do not match the schema: "
            + (f"unknown: {', '.join(sorted(unknown))}." if unknown else "they have no timestamp."),
            hint=f"Columns: {', '.join(stored.names)}.",
        )
    count = rows.num_rows
    given: dict[str, pa.Array | pa.ChunkedArray] = {
        CLUSTER: pa.repeat(pa.scalar(cluster), count),
        DAY: _days(rows[TAKEN_AT]),
        SEGMENT: pa.repeat(pa.scalar(segment, pa.int64()), count),
    }
    columns = []
    for one in stored:
        column = given.get(one.name)
        if column is None:
            at = rows.schema.get_field_index(one.name)
            column = rows.column(at) if at >= 0 else pa.nulls(count, one.type)
        columns.append(column.cast(one.type))
    return pa.Table.from_arrays(columns, schema=stored)


def _days(times: pa.ChunkedArray) -> pa.Array:
    numbers = times.to_numpy().astype(np.int64) // DAY_MS
    if numbers.size and (numbers == numbers[0]).all():  # those of a minute always
        return pa.repeat(pa.scalar(day_of(int(numbers[0]) * DAY_MS)), numbers.size)
    values, where = np.unique(numbers, return_inverse=True)
    names = pa.array([day_of(int(day) * DAY_MS) for day in values.tolist()], pa.string())
    return names.take(pa.array(where.astype(np.int64)))


def _present(table: DeltaTable, columns: Sequence[str]) -> list[str]:
    """Return the columns that a table has: an earlier version may have made it with fewer."""
    known = {field.name for field in table.schema().fields}
    return [name for name in columns if name in known]


def _completed(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return rows with every wanted column; those that their table lacks are null."""
    for field in wanted:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows.select(wanted.names).cast(wanted)


def _add_columns(table: DeltaTable, kind: Kind) -> None:
    """Give a table that an earlier version made the columns that came since."""
    known = {field.name for field in table.schema().fields}
    if known.issuperset(kind.stored.names):
        return
    fields = Schema.from_arrow(kind.stored).fields
    table.alter.add_columns([field for field in fields if field.name not in known])


def _check_commits(address: str, first: int) -> None:
    """Check that no commit of a local table is too large to be decoded.

    Args:
        address: Where the table is.
        first: Version of the first commit to check.
    Raises:
        HistoryError: One is.
    """
    if "://" in address:  # an object store is written by whoever holds its key
        return
    log = Path(address) / "_delta_log"
    files = log.glob("*.json") if first == 0 else _commits_from(log, first)
    for file in files:
        with suppress(FileNotFoundError):  # another process cleans the log up
            if file.stat().st_size > MAX_COMMIT_BYTES:
                raise HistoryError(
                    f"{file} is larger than {MAX_COMMIT_BYTES // 2**20} MiB.",
                    hint="Trimtab does not write such commits. Restore the history from a backup.",
                )


def _commits_from(log: Path, first: int) -> Iterator[Path]:
    while (file := _commit_file(log, first)).exists():
        yield file
        first += 1


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Describe an error of the storage in one sentence of ours.

    Raises:
        ConflictingCommitError: Another commit came first.
        HistoryError: Anything else.
    """
    try:
        yield
    except CommitFailedError as exc:
        reason = str(exc).lower()
        if not any(one in reason for one in _CONFLICTS):  # whether it is there is unknown
            raise HistoryError(
                f"The write to {address} may be incomplete: {short(exc)}",
                hint="Check that the location exists, is writable and has free space.",
            ) from exc
        raise ConflictingCommitError(
            f"Another process wrote to {address} at the same time: {short(exc)}",
            hint="Try again.",
        ) from exc
    except TableNotFoundError:
        raise
    except (DeltaError, OSError, pa.ArrowException) as exc:
        raise fault(address, exc) from exc
