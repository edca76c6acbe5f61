"""An index for the entries of one person: the audit asks for them."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the index."""
    op.create_index("trimtab_entries_of_actor", "trimtab_entries", ["actor", "seq"])
