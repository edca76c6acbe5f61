"""The journal's tables as they were first."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from connectors.journal.schema import SEALS

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make entries, leases and the former mark of their version; let the database guard them."""
    op.create_table(
        "trimtab_entries",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column(
            "body", sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False
        ),
        sa.Column("previous", sa.String(64), nullable=False, unique=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
    )
    op.create_index("trimtab_entries_of_run", "trimtab_entries", ["run_id", "seq"])
    op.create_index("trimtab_entries_of_kind", "trimtab_entries", ["cluster", "kind", "at_ms"])
    op.create_index("trimtab_entries_in_order", "trimtab_entries", ["kind", "seq"])
    op.create_table(
        "trimtab_leases",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    )
    mark = op.create_table("trimtab_schema", sa.Column("version", sa.Integer, primary_key=True))
    op.bulk_insert(mark, [{"version": 1}])
    for statement in SEALS.get(op.get_context().dialect.name, ()):
        op.execute(statement)
