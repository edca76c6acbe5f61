"""Saved views of the fleet, in the journal's database: each belongs to one person."""

from __future__ import annotations

from typing import Final

import msgspec
import sqlalchemy as sa

from connectors.journal.engine import Database
from connectors.journal.errors import translated
from core.errors import InputError
from core.fleet_views import MAX_VIEWS, FleetView, check_name

METADATA: Final = sa.MetaData()
VIEWS: Final = sa.Table(
    "trimtab_fleet_views",
    METADATA,
    sa.Column("person", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),  # JSON of a FleetView
)


class FleetViewStore:
    """Storage of saved views.

    Args:
        database: The journal's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.add_tables(METADATA)

    def views(self, person: str) -> dict[str, FleetView]:
        """Return the views of a person by name; unreadable ones are left out.

        Raises:
            RemoteError: The database cannot be read.
        """
        query = sa.select(VIEWS.c.name, VIEWS.c.body).where(VIEWS.c.person == person)
        with self._database.reading("read views") as connection:
            rows = connection.execute(query.order_by(VIEWS.c.name)).all()
        found = {}
        for name, body in rows:
            try:
                found[name] = msgspec.json.decode(body, type=FleetView)
            except msgspec.DecodeError:
                continue
        return found

    def save(self, person: str, name: str, view: FleetView) -> None:
        """Save a view; one of the same name is replaced.

        Raises:
            InputError: The name cannot be one, or the person has too many views.
            RemoteError: The database cannot be written.
        """
        name = check_name(name)
        known = self.views(person)
        if name not in known and len(known) >= MAX_VIEWS:
            raise InputError(f"You have {MAX_VIEWS} views.", hint="Delete one first.")
        body = msgspec.json.encode(view).decode()
        with translated(self._database.place, "write views"), self._database.writing() as writer:
            writer.execute(_one(person, name))
            writer.execute(VIEWS.insert().values(person=person, name=name, body=body))

    def delete(self, person: str, name: str) -> None:
        """Delete a view, if the person has it.

        Raises:
            RemoteError: The database cannot be written.
        """
        with translated(self._database.place, "write views"), self._database.writing() as writer:
            writer.execute(_one(person, name))


def _one(person: str, name: str) -> sa.Delete:
    return VIEWS.delete().where(VIEWS.c.person == person, VIEWS.c.name == name)
