"""What the database says, in our words: every SQLAlchemy error becomes one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from core.errors import (
    ConflictError,
    Outcome,
    ProtocolError,
    RemoteError,
    RemoteTimeoutError,
    ServerError,
    UnreachableError,
)

_MAX_SAID: Final = 200
"""Characters: a driver may quote the row that it cannot read."""

_BUSY: Final = ("database is locked", "database table is locked", "lock timeout", "deadlock")
_AWAY: Final = ("unable to open", "could not connect", "connection refused", "server closed")
_FULL: Final = ("disk is full", "disk full", "no space left", "disk i/o error")
_DAMAGED: Final = ("malformed", "not a database", "could not decode")
_LOCKED_AWAY: Final = ("readonly", "read-only", "permission denied")


def place_of(url: sa.URL) -> str:
    """Return the database for people: without its password and options, which may hold secrets."""
    return url.set(query={}).render_as_string(hide_password=True)


@contextmanager
def translated(place: str, operation: str, outcome: Outcome = "not_sent") -> Iterator[None]:
    """Turn what SQLAlchemy raises into errors of ours.

    Args:
        place: The database, for people.
        operation: What was requested of it.
        outcome: Whether it may have happened all the same.
    Raises:
        RemoteError: SQLAlchemy raised something.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise as_remote_error(error, place, operation, outcome) from error


def as_remote_error(
    error: exc.SQLAlchemyError, place: str, operation: str, outcome: Outcome
) -> RemoteError:
    """Return the error of ours that says what ``error`` says."""
    said = _said(error)
    kind, what, hint = _verdict(error, said.lower())
    return kind(
        f"The journal {place} {what} ({operation}): {said}.",
        endpoint=place,
        operation=operation,
        outcome=outcome,
        hint=hint,
    )


def _said(error: exc.SQLAlchemyError) -> str:
    """The driver's own first line: SQLAlchemy adds statement and parameters, which hold the run."""
    origin = (isinstance(error, exc.StatementError) and error.orig) or error
    lines = str(origin).strip().splitlines()
    return lines[0].rstrip(".")[:_MAX_SAID] if lines else type(error).__name__


def _verdict(error: exc.SQLAlchemyError, said: str) -> tuple[type[RemoteError], str, str]:
    """Return kind, verb and remedy."""
    is_lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    for is_it, verdict in (
        (isinstance(error, exc.TimeoutError) or _has(said, _BUSY), _IS_BUSY),
        (_has(said, _FULL), _IS_FULL),
        (_has(said, _LOCKED_AWAY), _IS_READ_ONLY),
        (isinstance(error, exc.IntegrityError), _CONFLICTS),
        (is_lost or _has(said, _AWAY), _IS_AWAY),
        (isinstance(error, exc.DatabaseError) and _has(said, _DAMAGED), _IS_DAMAGED),
        (isinstance(error, exc.OperationalError | exc.InterfaceError), _IS_AWAY),
    ):
        if is_it:
            return verdict
    return ServerError, "failed", "See the database's log."


def _has(said: str, words: tuple[str, ...]) -> bool:
    return any(word in said for word in words)


_Verdict = tuple[type[RemoteError], str, str]
_IS_BUSY: Final[_Verdict] = (
    RemoteTimeoutError,
    "is busy",
    "Try again; check which process locks the database.",
)
_IS_FULL: Final[_Verdict] = (ServerError, "cannot be written", "Free disk space.")
_IS_READ_ONLY: Final[_Verdict] = (
    ServerError,
    "cannot be written",
    "Grant this user write access to the database and its folder.",
)
_CONFLICTS: Final[_Verdict] = (ConflictError, "was written by another process", "Try again.")
_IS_AWAY: Final[_Verdict] = (
    UnreachableError,
    "cannot be reached",
    "Check journal_url, the database and the rights of this user.",
)
_IS_DAMAGED: Final[_Verdict] = (
    ProtocolError,
    "is damaged",
    "Restore it from a copy. `trimtab runs --verify` lists the intact entries.",
)
