"""The right to be the only writer of a cluster, stored in the journal's database.

For clusters without a ZooKeeper of their own. A lease ends by itself when it is not renewed; a
thread of the holder renews it, and every question whether it is held renews it, too.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from connectors.journal.engine import Database
from connectors.journal.errors import as_remote_error
from connectors.journal.schema import LEASES
from core.errors import RemoteError
from core.units import datetime_to_ms

LIFETIME_S: Final = 30.0
"""How long a lease lasts without being renewed."""

_LONGEST_MS: Final = 3_600_000
"""No lease lasts longer; one that does was written by a clock that was ahead."""


class SqlLease:
    """One worker's lease of one cluster; see :class:`core.actions.ports.Lease`.

    Args:
        database: The journal's.
        cluster: Trimtab's name of it.
        holder: Who requests it, for people.
        lifetime_s: How long it lasts without being renewed.
        clock: Seconds since 1970. By default the database's own, so that several machines need
            not agree; with SQLite, which is on one machine, that machine's.
    """

    def __init__(
        self,
        database: Database,
        cluster: str,
        holder: str,
        *,
        lifetime_s: float = LIFETIME_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._holder = holder
        self._lifetime_ms = round(lifetime_s * 1000)
        self._clock = clock
        self._token = secrets.token_hex(16)
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    @property
    def place(self) -> str:
        """Location of the lease, for people."""
        return f"{self._database.place}, lease of {self._cluster}"

    @property
    def lasts_s(self) -> float:
        """Time after :meth:`is_held` in which it is certainly ours, s; the call renews it."""
        return self._lifetime_ms / 2000

    def acquire(self) -> bool:
        """Try to take it; ``False`` when another worker holds it.

        Raises:
            RemoteError: The database cannot be reached.
        """
        try:
            is_ours = self._take()
        except exc.IntegrityError:  # another worker made the row first
            is_ours = False
        except exc.SQLAlchemyError as error:
            raise as_remote_error(
                error, self._database.place, "take the lease", "unknown"
            ) from error
        if is_ours and self._renewer is None:
            self._stop.clear()
            self._renewer = threading.Thread(
                target=self._keep, name=f"lease of {self._cluster}", daemon=True
            )
            self._renewer.start()
        return is_ours

    def is_held(self) -> bool:
        """Return whether it is certainly still ours, and renew it."""
        try:
            return self._renew()
        except RemoteError:
            return False

    def holder(self) -> str | None:
        """Return the holder, for people, or ``None`` if it is free.

        Raises:
            RemoteError: The database cannot be reached.
        """
        with self._database.reading("read the lease") as connection:
            query = sa.select(LEASES.c.holder).where(
                LEASES.c.cluster == self._cluster, LEASES.c.expires_ms > self._now_ms(connection)
            )
            return connection.execute(query).scalar_one_or_none()

    def release(self) -> None:
        """Give it back; harmless when it is not held, or when the database is away."""
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None
        try:
            with self._database.writing() as connection:
                connection.execute(LEASES.delete().where(*self._ours()))
        except (exc.SQLAlchemyError, RemoteError):
            return  # it ends by itself

    def _take(self) -> bool:
        with self._database.writing() as connection:
            now_ms = self._now_ms(connection)
            values = {
                "holder": self._holder,
                "token": self._token,
                "expires_ms": now_ms + self._lifetime_ms,
            }
            # written by a clock that was ahead: it ends within a lifetime, or its holder renews it
            ours = LEASES.c.cluster == self._cluster
            longest = now_ms + max(self._lifetime_ms, _LONGEST_MS)
            connection.execute(
                LEASES.update()
                .where(ours, LEASES.c.expires_ms > longest)
                .values(expires_ms=now_ms + self._lifetime_ms)
            )
            is_free = (LEASES.c.expires_ms <= now_ms) | (LEASES.c.token == self._token)
            taken = connection.execute(
                LEASES.update().where(LEASES.c.cluster == self._cluster, is_free).values(values)
            )
            if taken.rowcount == 1:
                return True
            query = sa.select(LEASES.c.cluster).where(LEASES.c.cluster == self._cluster)
            if connection.execute(query).first() is not None:
                return False
            connection.execute(LEASES.insert().values(cluster=self._cluster, **values))
            return True

    def _renew(self) -> bool:
        """Put its end off; until another worker takes it, it is ours even past its end."""
        try:
            with self._database.writing() as connection:
                expires_ms = self._now_ms(connection) + self._lifetime_ms
                renewed = connection.execute(
                    LEASES.update().where(*self._ours()).values(expires_ms=expires_ms)
                )
                return renewed.rowcount == 1
        except exc.SQLAlchemyError as error:
            place = self._database.place
            raise as_remote_error(error, place, "renew the lease", "unknown") from error

    def _ours(self) -> tuple[sa.ColumnElement[bool], ...]:
        return (LEASES.c.cluster == self._cluster, LEASES.c.token == self._token)

    def _keep(self) -> None:
        """Renew it three times a lifetime until it is released or another worker has it."""
        while not self._stop.wait(self._lifetime_ms / 3000):
            try:
                if not self._renew():
                    return
            except RemoteError:
                continue  # is_held reports it

    def _now_ms(self, connection: sa.Connection) -> int:
        if self._clock is not None:
            return round(self._clock() * 1000)
        if connection.dialect.name == "sqlite":
            return round(time.time() * 1000)
        moment = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return datetime_to_ms(aware)
