"""Opening the database of a journal: engine, tables on first use, version."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from filelock import FileLock, Timeout
from pydantic import SecretStr
from sqlalchemy import event, exc

from connectors.journal.errors import as_remote_error, place_of, translated
from connectors.journal.migrations import FIRST, HEAD, KNOWN, revision_of, upgrade
from connectors.journal.schema import SEALS, UNSEALS
from core.errors import ConfigError, ProtocolError, RemoteTimeoutError, UnreachableError

BUSY_TIMEOUT_S: Final = 15.0
"""How long SQLite waits for another writer."""

CONNECT_S: Final = 10
"""How long a server may take for a connection, handshake included."""
ANSWER_S: Final = 60.0
"""How long a server may take for all that one statement answers."""
RECENT_S: Final = 1.0
"""How long what was read of an unchanged file is used again."""
_WRITES: Final = "trimtab_writes"
_MAX_FAULTS: Final = 20
_TRIGGERS: Final = "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
_PAGE_FAILURES: Final = (
    "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
)
_IS_SEALED: Final = (
    "SELECT 1 FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
    "WHERE t.tgrelid = 'trimtab_entries'::regclass AND t.tgname = 'trimtab_append_only' "
    "AND t.tgenabled IN ('O', 'A') AND p.proname = 'trimtab_refuse' "
    "AND p.prosrc LIKE '%%RAISE EXCEPTION%%'"
)
_HAS_AMCHECK: Final = "SELECT 1 FROM pg_extension WHERE extname = 'amcheck'"
_AMCHECK: Final = (
    "SELECT bt_index_check(indexrelid, true) FROM pg_index "
    "WHERE indrelid = 'trimtab_entries'::regclass AND indisvalid"
)


V = TypeVar("V")


class OwnCheck(NamedTuple):
    """Result of a database's own check of the journal.

    Attributes:
        checked: What was checked: nouns.
        skipped: What was not, with the reason: nouns.
        faults: What is wrong, sentences.
    """

    checked: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Database:
    """One open database, with the journal's tables in it.

    Args:
        url: As SQLAlchemy writes it; a SQLite file is made with mode 0600, its folder too.
    Raises:
        ConfigError: The URL is none, or the driver is not installed.
        RemoteError: The database cannot be opened or holds another version of the tables.
    """

    def __init__(self, url: SecretStr | str) -> None:
        text = url.get_secret_value() if isinstance(url, SecretStr) else url
        self.url = _parsed(text)
        self.place = place_of(self.url)
        file = _sqlite_file(self.url)
        self._copy: Path | None = None
        # SQLite's own addresses are those of copies: nothing is made or changed there
        self._is_read_only = _is_read_only(file) if file else _is_own_address(self.url)
        if file is not None and self._is_read_only:
            self.place = f"{self.place} (read-only)"
            self._copy = _copied_with_its_log(file)
            self.url = _read_only_url(file, self._copy)
            file = None
        self.engine = _engine(self.url)
        self._file = file
        self._inode: tuple[int, int] | None = None
        self._recent: dict[Hashable, tuple[Hashable, float, Any]] = {}
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            with _alone(file, self.place) if file else nullcontext():
                self._make_tables()
            self._inode = _inode_of(file) if file else None
            on_failure.pop_all()

    def recent(self, key: Hashable, read: Callable[[], V]) -> V:
        """Return what was read within :data:`RECENT_S` while the file stayed as it is, else read.

        Readers of every session share it; a database that is no file is always read.

        Args:
            key: Of what is read; there are few.
        """
        stamp = self._stamp()
        if stamp is None:
            return read()
        known, now_s = self._recent.get(key), monotonic()
        if known is not None and known[0] == stamp and now_s - known[1] < RECENT_S:
            value: V = known[2]
            return value
        value = read()
        self._recent[key] = (stamp, now_s, value)
        return value

    def _stamp(self) -> Hashable | None:
        """Return what changes with every commit to the file; ``None`` if there is no file."""
        if self._file is None:
            return None
        found: list[tuple[int, int, int] | None] = []
        for suffix in ("", "-wal"):
            try:
                one = os.stat(f"{self._file}{suffix}")  # noqa: PTH116  # for each page: it is quick
            except OSError:
                if not suffix:
                    return None
                found.append(None)
            else:
                found.append((one.st_ino, one.st_mtime_ns, one.st_size))
        return tuple(found)

    @contextmanager
    def reading(self, operation: str) -> Iterator[sa.Connection]:
        """Give a connection to read with; what goes wrong is translated."""
        self._check_file(operation)
        with translated(self.place, operation), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a connection in a transaction that is committed at the end; errors stay raw.

        Raises:
            RemoteError: The file of the database is not the one that was opened.
        """
        self._check_file("write")
        with self.engine.connect() as plain:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    @contextmanager
    def unsealed(self) -> Iterator[sa.Connection]:
        """Give a connection that may delete entries; no other process writes until it is committed.

        The refusals of the database are away within its transaction only. Errors stay raw.
        """
        with self.writing() as connection:
            dialect = connection.dialect.name
            for statement in UNSEALS.get(dialect, ()):
                connection.exec_driver_sql(statement)
            yield connection
            for statement in SEALS.get(dialect, ()):
                connection.exec_driver_sql(statement)

    def check(self) -> OwnCheck:
        """Return the result of the database's own check of the journal.

        SQLite reads all of the file; PostgreSQL reports pages whose checksums failed, where it
        keeps checksums, and indexes that lack entries, where its extension ``amcheck`` is installed
        and this user may call it.

        Raises:
            RemoteError: The database cannot be reached.
        """
        check = _CHECKS.get(self.engine.dialect.name)
        return OwnCheck(skipped=("the database's own check",)) if check is None else check(self)

    def is_sealed(self) -> bool:
        """Return whether the database still refuses changes of entries, if it ever did.

        Raises:
            RemoteError: The database cannot be read.
        """
        dialect = self.engine.dialect.name
        with self.reading("check") as connection:
            if dialect == "postgresql":
                return connection.exec_driver_sql(_IS_SEALED).first() is not None
            if dialect == "sqlite":
                triggers = set(connection.exec_driver_sql(_TRIGGERS).scalars())
                return {one.replace("IF NOT EXISTS ", "") for one in SEALS[dialect]} <= triggers
        return True

    def add_tables(self, metadata: sa.MetaData) -> None:
        """Make the tables of something else that is stored next to the journal, where they lack.

        A table of an earlier release gets the columns that it lacks; these are nullable.

        Raises:
            RemoteError: The database cannot be written.
        """
        with self.reading("look for tables") as connection:
            known = sa.inspect(connection)
            if all(
                known.has_table(table.name) and not _lacking(known, table)
                for table in metadata.sorted_tables
            ):
                return
        with translated(self.place, "make tables"):
            try:
                self._add(metadata)
            except exc.DBAPIError:  # two processes that make them at once: one of them loses
                self._add(metadata)

    def _add(self, metadata: sa.MetaData) -> None:
        with self.writing() as connection:
            metadata.create_all(connection)
            known = sa.inspect(connection)
            for table in metadata.sorted_tables:
                for column in _lacking(known, table):
                    kind = column.type.compile(connection.dialect)
                    connection.execute(
                        sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}")
                    )

    def _check_file(self, operation: str) -> None:
        """Check that the file is the one that was opened: what is written to another one is lost.

        Raises:
            RemoteError: It was moved, removed or replaced; connections still lead to the old one.
        """
        if self._file is None or self._inode is None or _inode_of(self._file) == self._inode:
            return
        raise UnreachableError(
            f"The journal {self.place} was moved, removed or replaced while it was open "
            f"({operation}).",
            endpoint=self.place,
            operation=operation,
            outcome="not_sent",
            hint="Stop every Trimtab process, restore the file (`trimtab restore`) and start "
            "them again.",
        )

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    def _make_tables(self) -> None:
        with self.reading("read the version") as connection:
            found = revision_of(connection)
        if found == HEAD or (found == FIRST and self._is_read_only):
            return  # what came after the first revision makes queries faster, no more
        if found is not None and found not in KNOWN:
            raise ConfigError(
                f"The journal {self.place} has tables of revision {found}; this version of "
                f"Trimtab reads up to {HEAD}.",
                hint="Use the version of Trimtab that created it, or set another journal_url.",
            )
        with translated(self.place, "make the tables"):
            if found is None and _sqlite_file(self.url) is not None:
                self._set_log()
            with self.writing() as connection:
                upgrade(connection)

    def _set_log(self) -> None:
        """Let readers go on during a write; a property of the file from then on."""
        plain = self.engine.raw_connection()
        try:
            plain.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            plain.close()


def _lacking(known: sa.Inspector, table: sa.Table) -> list[sa.Column[Any]]:
    """Return the columns that a table of an earlier release lacks."""
    stored = {column["name"] for column in known.get_columns(table.name)}
    return [column for column in table.columns if column.name not in stored]


def _check_sqlite(database: Database) -> OwnCheck:
    checked = ("SQLite's integrity",)
    try:
        with database.reading("check") as connection:
            lines = connection.exec_driver_sql(f"PRAGMA integrity_check({_MAX_FAULTS})").scalars()
            faults = [f"SQLite reports: {line.rstrip('.')}." for line in lines if line != "ok"]
    except ProtocolError as error:
        faults = [error.message]
    return OwnCheck(checked, faults=tuple(faults))


def _check_postgres(database: Database) -> OwnCheck:
    with database.reading("check") as connection:
        failures = connection.exec_driver_sql(_PAGE_FAILURES).scalar_one_or_none()
        has_checksums = connection.exec_driver_sql("SHOW data_checksums").scalar_one() == "on"
        has_amcheck = connection.exec_driver_sql(_HAS_AMCHECK).first() is not None
    checked, skipped, faults = [], [], []
    if has_checksums:
        checked.append("page checksums")
    else:
        skipped.append("page checksums (data_checksums is off)")
    if failures:
        faults.append(f"PostgreSQL reports pages with a wrong checksum: {failures:,}.")
    if not has_amcheck:
        skipped.append("indexes (the extension amcheck is not installed)")
        return OwnCheck(tuple(checked), tuple(skipped), tuple(faults))
    try:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(_AMCHECK).all()
        checked.append("indexes")
    except exc.ProgrammingError:  # `pg_amcheck` of an administrator does the same
        skipped.append("indexes (this user has no right to call amcheck)")
    except exc.DatabaseError as error:
        checked.append("indexes")
        faults.append(as_remote_error(error, database.place, "check", "not_sent").message)
    return OwnCheck(tuple(checked), tuple(skipped), tuple(faults))


_CHECKS: Final[dict[str, Callable[[Database], OwnCheck]]] = {
    "sqlite": _check_sqlite,
    "postgresql": _check_postgres,
}


def _parsed(text: str) -> sa.URL:
    try:
        return sa.make_url(text)
    except exc.ArgumentError as error:
        raise ConfigError(
            "journal_url is not a database URL.",  # it is not repeated: it may hold a password
            hint="Use the form sqlite:////folder/journal.db or "
            "postgresql+psycopg://user@host/name.",
        ) from error


def _engine(url: sa.URL) -> sa.Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    is_psycopg = url.drivername == "postgresql+psycopg"
    arguments: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S} if is_sqlite else {}
    if is_psycopg and "connect_timeout" not in url.query:
        arguments["connect_timeout"] = CONNECT_S
    try:
        engine = sa.create_engine(url, pool_pre_ping=not is_sqlite, connect_args=arguments)
    except (exc.NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"The database driver of journal_url ({url.drivername}) is not installed.",
            hint="Install it next to Trimtab, for example `pip install 'trimtab[postgresql]'`.",
        ) from error
    if is_sqlite:
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
    if is_psycopg:
        event.listen(engine, "connect", _bound_answers, insert=True)  # its first question, too
    return engine


def _bound_answers(connection: Any, _record: object) -> None:
    """Wait for no answer longer than :data:`ANSWER_S`: a frozen server keeps its connections."""
    from psycopg import errors  # noqa: PLC0415 - an optional extra

    wait = connection.wait

    def bounded(*args: Any, **options: Any) -> Any:
        try:
            return wait(*args, **{"timeout": ANSWER_S, **options})
        except errors._WaitTimeout as error:  # noqa: SLF001  # it has no other name
            connection.pgconn.finish()  # what it answers later belongs to nothing
            raise errors.OperationalError(f"no answer within {ANSWER_S:g} s") from error

    connection.wait = bounded


def _on_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where _on_begin says so
    connection.execute("PRAGMA synchronous=FULL")  # an intent must outlive a power cut


def _on_begin(connection: sa.Connection) -> None:
    # a writer that begins as a reader can find the file changed and would have to start over
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _sqlite_file(url: sa.URL) -> Path | None:
    """Return the file to make and to lock; none for SQLite's own ``file:`` addresses."""
    name = url.database or ""
    is_file = name not in ("", ":memory:") and not name.startswith("file:")
    return Path(name) if is_file and url.get_backend_name() == "sqlite" else None


def _inode_of(file: Path) -> tuple[int, int] | None:
    """Return the identity of a file, or ``None`` if missing."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_own_address(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and (url.database or "").startswith("file:")


def _is_read_only(file: Path) -> bool:
    """Return whether a journal is read-only: a read-only disk, or another user's file."""
    if not file.is_file():
        return False
    return not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def _copied_with_its_log(file: Path) -> Path | None:
    """Copy a journal whose last entries are in SQLite's log: that is read where it can be written.

    Raises:
        ConfigError: It cannot be read, or there is no room for a copy.
    """
    file = file.resolve()  # SQLite has its log next to what a link leads to
    log = file.with_name(f"{file.name}-wal")
    try:
        if not log.is_file() or not log.stat().st_size:
            return None
        folder = Path(mkdtemp(prefix="trimtab-journal-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for one in (file, log):
            shutil.copyfile(one, folder / one.name)
    except OSError as error:
        raise ConfigError(
            f"The journal {file} cannot be read: {error.strerror}.",
            hint="Check its owner, its mode and the free space of the temporary folder.",
        ) from error
    return folder


def _read_only_url(file: Path, copy: Path | None) -> sa.URL:
    if copy is None:
        return sa.make_url(f"sqlite:///file:{quote(str(file))}?immutable=1&uri=true")
    return sa.make_url(f"sqlite:///file:{quote(str(copy / file.resolve().name))}?mode=ro&uri=true")


@contextmanager
def _alone(file: Path, place: str) -> Iterator[None]:
    """Make the file, for its owner only; SQLite's switch to its log needs it for itself."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(f"{file}.lock", timeout=BUSY_TIMEOUT_S, mode=0o600):
            if not file.exists():
                os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
            yield
    except Timeout as error:
        raise RemoteTimeoutError(
            f"The journal {place} is being opened by another process.",
            endpoint=place,
            operation="open",
            outcome="not_sent",
            hint=f"Try again; check which process holds {file}.lock.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"The journal {file} cannot be created: {error.strerror}.",
            hint="Check state_dir (or journal_url), its owner and its mode.",
        ) from error
