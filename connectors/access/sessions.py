"""Who is signed in on the pages, and who tried to: two tables next to the journal.

A session is a random text in a cookie; only its hash is stored, so that whoever reads the database
cannot use it. A row is sealed with the installation's key, so that whoever writes the database
cannot make one. Several processes that serve pages share the tables. Attempts are recorded and
counted, so that passwords cannot be guessed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from connectors.access.users import UserFile
from connectors.journal.engine import Database
from connectors.journal.errors import translated
from core.access import Identity
from core.errors import ForbiddenError
from core.snapshot.clock import AHEAD_S
from core.units import datetime_to_ms, one_line

MAX_FAILURES: Final = 5
"""Failed attempts of one name from one address before further ones are refused for a while."""

MAX_SPREAD: Final = 20
"""The same of one name from all addresses that it is new to, or of all names from one address."""

WINDOW: Final = timedelta(minutes=15)
_KEPT: Final = timedelta(days=90)
_CLOCKS_APART_MS: Final = round(AHEAD_S * 1000)
"""How far the clocks of several machines that serve pages may be apart."""

METADATA: Final = sa.MetaData()

SESSIONS: Final = sa.Table(
    "trimtab_sessions",
    METADATA,
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("person", sa.String(255), nullable=False),
    sa.Column("stamp", sa.String(16), nullable=False),  # seal of the row and of the password
    sa.Column("expires_ms", sa.BigInteger, nullable=False),  # milliseconds since 1970
)

SIGN_INS: Final = sa.Table(
    "trimtab_sign_ins",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
    sa.Column("person", sa.String(255), nullable=False),
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("result", sa.String(16), nullable=False),  # in, wrong, held, out
)


class Sessions:
    """Sessions of people who sign in with a password.

    Args:
        database: The journal's.
        key: The installation's, which seals the rows.
        lasts: How long a person stays signed in.
        now: The present moment, aware UTC.
    """

    def __init__(
        self,
        database: Database,
        users: UserFile,
        key: bytes,
        lasts: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._users = users
        self._key = key
        self._lasts = lasts
        self._now = now
        database.add_tables(METADATA)

    def sign_in(self, name: str, password: str, address: str) -> str:
        """Return the text of a new session.

        Args:
            name: As typed.
            password: As typed.
            address: Where the request came from.
        Raises:
            ForbiddenError: They fit nobody, or there were too many attempts.
            RemoteError: The database cannot be used.
        """
        name = one_line(name)[:64]
        if self._is_held(name, address):
            if self._held(address) < MAX_SPREAD:  # whoever goes on does not fill the database
                self._note(name, address, "held")
            raise ForbiddenError(
                f"Too many failed sign-ins in the last {WINDOW // timedelta(minutes=1)} minutes.",
                hint="Try again in 15 minutes.",
                is_throttled=True,
            )
        identity = self._users.verified(name, password)
        if identity is None:
            self._note(name, address, "wrong")
            raise ForbiddenError("Wrong user name or password.", hint="Try again.")
        text = secrets.token_urlsafe(32)
        expires = datetime_to_ms(self._now() + self._lasts)
        seal = self._seal(_sha256(text), name, expires)
        row = {"sha256": _sha256(text), "person": name, "stamp": seal, "expires_ms": expires}
        with translated(self._database.place, "sign in"), self._database.writing() as connection:
            stale = SESSIONS.c.expires_ms < datetime_to_ms(self._now())
            connection.execute(SESSIONS.delete().where(stale))
            connection.execute(SESSIONS.insert().values(**row))
        self._note(name, address, "in")
        return text

    def of(self, text: str) -> Identity | None:
        """Return the identity of a session text, with current groups, or ``None``.

        A session ends when its time is over, when the person signs out, changes the password or is
        removed. A row that was not written here, or was changed since, is no session.

        Raises:
            RemoteError: The database cannot be read.
        """
        now_ms = datetime_to_ms(self._now())
        lasts_ms = round(self._lasts / timedelta(milliseconds=1))
        query = sa.select(SESSIONS).where(
            SESSIONS.c.sha256 == _sha256(text),
            SESSIONS.c.expires_ms > now_ms,
            # one that lasts longer was opened on a clock that was ahead
            SESSIONS.c.expires_ms <= now_ms + lasts_ms + _CLOCKS_APART_MS,
        )
        with self._database.reading("read a session") as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        expected = self._seal(row.sha256, row.person, row.expires_ms)
        found = str(row.stamp).encode("utf-8", "replace")  # SQLite stores what it is given
        if not hmac.compare_digest(found, expected.encode()):
            return None
        return self._users.current(row.person)

    def sign_out(self, text: str, address: str) -> None:
        """End a session.

        Raises:
            RemoteError: The database cannot be written.
        """
        who = self.of(text)
        with translated(self._database.place, "sign out"), self._database.writing() as connection:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.sha256 == _sha256(text)))
        if who is not None:
            self._note(who.name, address, "out")

    def _seal(self, sha256: str, person: str, expires_ms: int) -> str:
        """Return the seal of a row: its cookie, person, password, end and installation.

        96 bits of HMAC-SHA-256: as many as the column takes in Base64.
        """
        row = json.dumps([sha256, person, self._users.stamp(person), expires_ms], default=repr)
        seal = hmac.new(self._key, b"session\n" + row.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(seal[:12]).decode()

    def _is_held(self, name: str, address: str) -> bool:
        """Return whether too many recent attempts failed.

        Attempts from elsewhere do not keep a person out of the address of an earlier sign-in: else
        whoever knows a name could lock it.
        """
        of_name, from_address = SIGN_INS.c.person == name, SIGN_INS.c.address == address[:64]
        wrong = sa.and_(self._is_recent(), SIGN_INS.c.result == "wrong")
        query = sa.select(
            sa.func.count().filter(wrong, of_name, from_address),
            sa.func.count().filter(wrong, of_name),
            sa.func.count().filter(wrong, from_address),
            sa.func.count().filter(SIGN_INS.c.result == "in", of_name, from_address),
        ).where(sa.or_(of_name, from_address))
        with self._database.reading("count attempts") as connection:
            both, named, sent, known = connection.execute(query).one()
        return bool(
            both >= MAX_FAILURES or sent >= MAX_SPREAD or (named >= MAX_SPREAD and not known)
        )

    def _is_recent(self) -> sa.ColumnElement[bool]:
        """Select the attempts of a short while ago; those of a clock that was ahead are none."""
        now = self._now()
        until = datetime_to_ms(now) + _CLOCKS_APART_MS
        return SIGN_INS.c.at_ms.between(datetime_to_ms(now - WINDOW), until)

    def _held(self, address: str) -> int:
        """Return the number of recently blocked attempts from an address."""
        query = sa.select(sa.func.count()).where(
            self._is_recent(),
            SIGN_INS.c.result == "held",
            SIGN_INS.c.address == address[:64],
        )
        with self._database.reading("count attempts") as connection:
            return int(connection.execute(query).scalar_one())

    def _note(self, name: str, address: str, result: str) -> None:
        now = self._now()
        with translated(self._database.place, "sign in"), self._database.writing() as connection:
            connection.execute(
                SIGN_INS.delete().where(SIGN_INS.c.at_ms < datetime_to_ms(now - _KEPT))
            )
            connection.execute(
                SIGN_INS.insert().values(
                    at_ms=datetime_to_ms(now), person=name, address=address[:64], result=result
                )
            )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
