"""Bringing the tables of a journal to the form that this Trimtab uses, with Alembic.

Each module in ``versions`` is one revision. Whoever changes a table adds a revision, and sets
:data:`HEAD` to it; a test compares what the revisions make with :mod:`connectors.journal.schema`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import inspect

from connectors.journal.schema import REVISION, VERSION

HEAD: Final = "0002"
"""The newest revision."""

FIRST: Final = "0001"
"""The tables as they were before revisions were counted."""

KNOWN: Final = (FIRST, HEAD)
"""Every revision."""

_FORMER_VERSION: Final = 1
_LOCK: Final = 7_461_218_001
"""Number of the lock that PostgreSQL gives to one process at a time; any would do."""


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision of the tables; ``None`` if there are none, else a number as a text."""
    known = inspect(connection)
    if known.has_table(REVISION.name):
        found = connection.execute(sa.select(REVISION.c.version_num)).scalars().all()
        return ", ".join(found) or None
    if not known.has_table(VERSION.name):
        return None
    former = connection.execute(sa.select(VERSION.c.version)).scalars().all()
    return FIRST if former == [_FORMER_VERSION] else f"former version {former}"


def upgrade(connection: sa.Connection) -> None:
    """Bring the tables to :data:`HEAD`, in the transaction of ``connection``.

    Of two processes that do it at once the second waits, and finds it done.

    Args:
        connection: In a transaction that may write.
    """
    # the pages start without it where nothing is to be done
    from alembic import command  # noqa: PLC0415  # see above
    from alembic.config import Config  # noqa: PLC0415  # the same

    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    found = revision_of(connection)
    if found == HEAD:
        return
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    if found == FIRST and not inspect(connection).has_table(REVISION.name):
        command.stamp(config, FIRST)
    command.upgrade(config, HEAD)
