"""How Alembic runs the revisions: in the transaction of the connection that it is handed."""

from alembic import context

from connectors.journal.schema import METADATA, REVISION

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=REVISION.name,
)
context.run_migrations()
