"""Tables of the journal, the same under every database; nothing in them is ever changed.

``entries`` is the journal. ``previous`` is unique: of two writers that read the same end only one
gets its entry in, so the chain cannot fork whatever the database does. Where the database has
triggers that we know how to write, changing and deleting are refused by it as well.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

METADATA: Final = sa.MetaData()

ENTRIES: Final = sa.Table(
    "trimtab_entries",
    METADATA,
    sa.Column(
        "seq",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),  # there: the row's own number
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("run_id", sa.String(64), nullable=False),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),  # milliseconds since 1970
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column(
        "body", sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False
    ),
    sa.Column("previous", sa.String(64), nullable=False, unique=True),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Index("trimtab_entries_of_run", "run_id", "seq"),
    sa.Index("trimtab_entries_of_kind", "cluster", "kind", "at_ms"),
    sa.Index("trimtab_entries_in_order", "kind", "seq"),
    sa.Index("trimtab_entries_of_actor", "actor", "seq"),
)
"""One row an entry; the columns next to ``body`` repeat it for the queries, and are verified."""

LEASES: Final = sa.Table(
    "trimtab_leases",
    METADATA,
    sa.Column("cluster", sa.String(64), primary_key=True),
    sa.Column("holder", sa.String(255), nullable=False),
    sa.Column("token", sa.String(64), nullable=False),
    sa.Column("expires_ms", sa.BigInteger, nullable=False),  # milliseconds since 1970
)
"""Who may write to a cluster, where the cluster has no ZooKeeper of its own."""

VERSION: Final = sa.Table(
    "trimtab_schema", METADATA, sa.Column("version", sa.Integer, primary_key=True)
)
"""One row, 1: what a Trimtab that counts no revisions expects."""

REVISION: Final = sa.Table(
    "trimtab_revision", METADATA, sa.Column("version_num", sa.String(32), primary_key=True)
)
"""One row: the revision of these tables, as Alembic writes it."""

_REFUSAL: Final = "a journal is only ever added to"
"""Part of the triggers stored in every journal: verifying one compares them with these texts."""

_SQLITE_SEAL: Final = (
    "CREATE TRIGGER IF NOT EXISTS trimtab_no_{} BEFORE {} ON trimtab_entries "
    f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
)
_POSTGRES_REFUSE: Final = (
    "CREATE OR REPLACE FUNCTION trimtab_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
)
_POSTGRES_SEAL: Final = (
    "CREATE OR REPLACE TRIGGER trimtab_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
    "ON trimtab_entries FOR EACH STATEMENT EXECUTE FUNCTION trimtab_refuse()"
)

UNSEALS: Final = {
    "sqlite": ("DROP TRIGGER IF EXISTS trimtab_no_delete",),
    "postgresql": ("DROP TRIGGER IF EXISTS trimtab_append_only ON trimtab_entries",),
}
"""By dialect: statements that allow an archive to delete, within one transaction."""

SEALS: Final = {
    "sqlite": tuple(_SQLITE_SEAL.format(what.lower(), what) for what in ("UPDATE", "DELETE")),
    "postgresql": (_POSTGRES_REFUSE, _POSTGRES_SEAL),
}
"""By dialect: statements that make the database itself refuse changes."""
