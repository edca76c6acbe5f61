"""Whatever SQLAlchemy raises becomes an error of ours, with a remedy and without a password."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from journal_entries import record_of, requested
from sqlalchemy import exc

from connectors.journal.engine import Database
from connectors.journal.errors import as_remote_error, place_of, translated
from connectors.journal.journal import SqlJournal
from core.errors import (
    ConfigError,
    ConflictError,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    UnreachableError,
)


def subclasses(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def an_error(kind: type) -> exc.SQLAlchemyError:
    origin = sqlite3.OperationalError("it went wrong")
    if issubclass(kind, exc.DBAPIError):
        return kind("SELECT", {}, origin)
    if issubclass(kind, exc.StatementError):
        return kind("it went wrong", "SELECT", {}, origin)
    error = kind.__new__(kind)
    error.args = ("it went wrong",)
    return error


VENDORS = sorted(set(subclasses(exc.SQLAlchemyError)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", VENDORS, ids=lambda kind: kind.__name__)
def test_every_class_of_the_vendor_is_translated(kind) -> None:
    assert len(VENDORS) > 25
    error = an_error(kind)
    with pytest.raises(RemoteError) as caught, translated("db", "read", "not_sent"):
        raise error
    assert caught.value.hint
    assert caught.value.endpoint == "db"


def database_error(
    kind: type[exc.DBAPIError], said: str, *, is_lost: bool = False
) -> exc.DBAPIError:
    return kind(
        "INSERT secret",
        {"body": "secret"},
        sqlite3.OperationalError(said),
        connection_invalidated=is_lost,
    )


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (database_error(exc.OperationalError, "database is locked"), RemoteTimeoutError, "busy"),
        (exc.TimeoutError("QueuePool limit"), RemoteTimeoutError, "is busy"),
        (database_error(exc.OperationalError, "disk I/O error"), ServerError, "cannot be written"),
        (
            database_error(exc.OperationalError, "database or disk is full"),
            ServerError,
            "cannot be written",
        ),
        (
            database_error(exc.OperationalError, "attempt to write a readonly database"),
            ServerError,
            "cannot be written",
        ),
        (
            database_error(exc.OperationalError, "unable to open database file"),
            UnreachableError,
            "cannot be reached",
        ),
        (
            database_error(exc.OperationalError, "server closed the connection", is_lost=True),
            UnreachableError,
            "cannot be reached",
        ),
        (
            database_error(exc.DatabaseError, "database disk image is malformed"),
            ProtocolError,
            "is damaged",
        ),
        (database_error(exc.IntegrityError, "UNIQUE constraint"), ConflictError, "another process"),
        (database_error(exc.ProgrammingError, "no such table"), ServerError, "failed"),
    ],
)
def test_what_happened_is_told_apart(error, kind, words) -> None:
    found = as_remote_error(error, "db", "append", "not_sent")
    assert type(found) is kind
    assert words in found.message
    assert "secret" not in str(found)


def test_a_password_is_never_shown(tmp_path) -> None:
    url = sa.make_url("postgresql+psycopg://ann:hidden@db/trimtab")
    assert "hidden" not in place_of(url)


def test_a_password_among_the_options_of_an_address_is_not_shown() -> None:
    url = sa.make_url("postgresql+psycopg://u@h/db?password=hidden&sslpassword=hidden")
    assert place_of(url) == "postgresql+psycopg://u@h/db"
    for text in ("postgres//ann:hidden@", "nonsense+driver://ann:hidden@db/x"):
        with pytest.raises(ConfigError) as caught:
            Database(text)
        assert "hidden" not in str(caught.value)


def test_a_driver_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"oracle\+cx_oracle.*not installed"):
        Database("oracle+cx_oracle://ann@db/x")


def test_the_file_is_for_its_owner_only(tmp_path) -> None:
    path = tmp_path / "state" / "journal.db"
    journal = SqlJournal(f"sqlite:///{path}")
    journal.append(record_of(requested()))
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    journal.close()


def test_a_file_that_is_no_database_is_named(tmp_path) -> None:
    path = tmp_path / "journal.db"
    path.write_text("This is a shopping list, and a long one at that." * 50)
    with pytest.raises(RemoteError, match=r"journal\.db"):
        SqlJournal(f"sqlite:///{path}")


def test_a_place_that_cannot_be_written_is_named() -> None:
    with pytest.raises(ConfigError, match="cannot be created"):
        SqlJournal("sqlite:////proc/nowhere/journal.db")


def test_a_locked_journal_says_so_and_has_added_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("connectors.journal.engine.BUSY_TIMEOUT_S", 0.1)
    path = tmp_path / "journal.db"
    journal = SqlJournal(f"sqlite:///{path}")
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(RemoteTimeoutError) as caught:
        journal.append(record_of(requested()))
    assert caught.value.outcome == "not_sent"
    blocker.execute("ROLLBACK")
    blocker.close()
    assert journal.append(record_of(requested())).seq == 1
    journal.close()


def fill_up(journal: SqlJournal) -> None:
    for _ in range(100):
        journal.append(record_of(requested(50)))


def test_a_full_disk_says_so_and_has_added_nothing(tmp_path) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    journal.append(record_of(requested()))

    @sa.event.listens_for(journal.database.engine, "begin")
    def fill(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    with pytest.raises(ServerError, match="full") as caught:
        fill_up(journal)
    assert caught.value.outcome == "not_sent"
    assert "Free disk space" in caught.value.hint
    assert journal.verify().is_sound
    journal.close()


def test_a_copy_can_be_verified_where_nothing_may_be_written(tmp_path) -> None:
    path = tmp_path / "journal.db"
    journal = SqlJournal(f"sqlite:///{path}")
    journal.append(record_of(requested()))
    journal.close()
    before = sorted(tmp_path.iterdir())
    copy = SqlJournal(f"sqlite:///file:{path}?immutable=1&uri=true")
    assert copy.verify().entries == 1
    with pytest.raises(ServerError, match="cannot be written"):
        copy.append(record_of(requested()))
    copy.close()
    assert sorted(tmp_path.iterdir()) == before


class _Lost(sqlite3.OperationalError):
    """The line goes dead while a commit is under way."""


def lose_commits(journal: SqlJournal, *, arrives: bool, is_lost: bool, is_away: bool) -> list[bool]:
    """Let the next commit fail, after or before it took effect; emptied list: it has."""
    armed = [True]

    @sa.event.listens_for(journal.database.engine, "commit")
    def lose(connection: sa.Connection) -> None:
        if not armed:
            return
        armed.clear()
        if arrives:
            connection.connection.driver_connection.execute("COMMIT")
        if is_away:
            sa.event.listen(journal.database.engine, "begin", away)
        raise exc.OperationalError(
            "COMMIT", None, _Lost("the line is dead"), connection_invalidated=is_lost
        )

    def away(_connection: sa.Connection) -> None:
        raise exc.OperationalError("BEGIN", None, _Lost("nobody is there"))

    return armed


def test_a_commit_whose_answer_was_lost_is_found(tmp_path) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    armed = lose_commits(journal, arrives=True, is_lost=True, is_away=False)
    assert journal.append(record_of(requested())).seq == 1
    assert not armed
    assert journal.append(record_of(requested())).seq == 2
    assert journal.verify().entries == 2
    journal.close()


@pytest.mark.parametrize(
    ("is_lost", "is_away", "outcome"),
    [(False, False, "not_sent"), (True, False, "unknown"), (False, True, "unknown")],
)
def test_a_commit_that_is_not_found_says_what_is_known(tmp_path, is_lost, is_away, outcome) -> None:
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    lose_commits(journal, arrives=False, is_lost=is_lost, is_away=is_away)
    with pytest.raises(UnreachableError, match="the line is dead") as caught:
        journal.append(record_of(requested()))
    assert caught.value.outcome == outcome
    journal.close()
    fresh = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")
    assert fresh.append(record_of(requested())).seq == 1
    fresh.close()


def test_a_place_that_others_always_take_first_is_given_up_in_the_end(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("connectors.journal.journal.MAX_TRIES", 3)
    journal = SqlJournal(f"sqlite:///{tmp_path / 'journal.db'}")

    @sa.event.listens_for(journal.database.engine, "commit")
    def lose(_connection: sa.Connection) -> None:
        raise exc.IntegrityError("INSERT", None, _Lost("UNIQUE constraint failed"))

    with pytest.raises(ConflictError, match="3 attempts") as caught:
        journal.append(record_of(requested()))
    assert caught.value.outcome == "not_sent"
    journal.close()
