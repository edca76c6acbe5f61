"""How snapshots of a system are recorded: kinds of rows, and how a snapshot's tables become kinds.

Each system declares its own :class:`SystemRecord`; the history is made of what it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

import pyarrow as pa

from core.errors import UnknownNameError
from core.units import pluralize

if TYPE_CHECKING:
    from core.snapshot.store import Storable

Habit = Literal["every", "busy", "change"]

CLUSTER: Final = "cluster"
DAY: Final = "day"
SEGMENT: Final = "segment"
TAKEN_AT: Final = "taken_at"
GONE: Final = "gone"
ROW_AT: Final = "row_at"
COPY: Final = "copy"

_BOOKS: Final = (
    pa.field(CLUSTER, pa.string()),
    pa.field(DAY, pa.string()),
    pa.field(TAKEN_AT, pa.int64()),
    pa.field(SEGMENT, pa.int64()),
)
_CHANGES: Final = (
    pa.field(GONE, pa.bool_()),  # true: the row vanished at this minute
    pa.field(ROW_AT, pa.int64()),  # its place, where the table is not in its usual order
    pa.field(COPY, pa.int64()),  # which of several rows with one key; null: the only one
)

_SINGULAR: Final = {"policies": "policy"}
"""What a row of a table is called, where that is not its name without the last letter."""


@dataclass(frozen=True)
class Kind:
    """One kind of rows.

    Attributes:
        name: Its folder.
        columns: Its columns without the bookkeeping.
        habit: ``every``: all rows every minute; ``busy``: rows with a rate, or that changed;
            ``change``: rows that changed. A segment's first minute has all rows of all kinds.
        table: The snapshot table it is a part of; empty: it is none.
        key: Columns that name a row of that table.
        order: Columns that the table is sorted by, where it is.
        activity: Columns of which one is neither null nor zero where a row is busy.
        is_spine: Whether it decides which rows its table has.
    """

    name: str
    columns: pa.Schema
    habit: Habit = "every"
    table: str = ""
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    activity: tuple[str, ...] = ()
    is_spine: bool = False

    @cached_property
    def stored(self) -> pa.Schema:
        """Columns as they are written: all may be null, no units, the bookkeeping first."""
        fields = [pa.field(one.name, one.type) for one in self.columns]
        return pa.schema([*_BOOKS, *(_CHANGES if self.table else ()), *fields])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """Load of a system's servers in its history.

    Attributes:
        rows: The kind of rows that has it.
        key: The column that names the server.
        measures: SQL over a row by measure, null where it is unknown, or what returns the SQL for
            the weights of the resources. The first is what the system's balancer compares.
        evenness: The measure by which the load is called even.
        drains: The kind of rows with ``emptied_at``, since when a server is drained.
    """

    rows: str
    key: str
    measures: Mapping[str, str | Callable[[Mapping[str, float]], str]]
    evenness: str
    drains: str

    def expression(self, measure: str, weights: Mapping[str, float]) -> str:
        """Return the SQL of a measure.

        Raises:
            UnknownNameError: There is none of that name.
        """
        if measure not in self.measures:
            raise UnknownNameError.of("measure", measure, list(self.measures))
        sql = self.measures[measure]
        return sql if isinstance(sql, str) else sql(weights)


S = TypeVar("S", bound="Storable")


def _no_rows(_: Any) -> Mapping[str, Mapping[str, int]]:
    return {}


def _itself(key: str) -> Sequence[str]:
    return (key,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord(Generic[S]):
    """Storage of one system's snapshots ``S`` in directories and in the history.

    Attributes:
        system: Its name.
        tables: The tables of its snapshots with their columns.
        counted: The tables whose rows say how large a cluster is.
        uncounted: Returns how many rows of a snapshot's table are not counted, by table and why.
        kinds: The kinds of rows that the tables become, in the order in which they are written.
        build: Makes a snapshot of a manifest and tables; raises ``SchemaError`` where one of them
            does not fit.
        load: Reads a snapshot directory; raises ``SnapshotError``.
        events: Returns rows of ``events`` for what happened between two snapshots, without who did
            it.
        servers: How the load of its servers is read; ``None`` if no page shows it.
        setting_subjects: Returns the subjects that a setting, by its key in runs, has in rows of
            ``events``; the key is one of them.
    """

    system: str
    tables: Mapping[str, pa.Schema]
    counted: tuple[str, ...]
    kinds: tuple[Kind, ...]
    build: Callable[[Any, Mapping[str, pa.Table]], S]
    load: Callable[[Path], S]
    events: Callable[[S, S], list[dict[str, Any]]]
    servers: ServerLoad | None = None
    uncounted: Callable[[S], Mapping[str, Mapping[str, int]]] = _no_rows
    setting_subjects: Callable[[str], Sequence[str]] = _itself

    def sizes(self, snapshot: S, tables: Sequence[str] | None = None) -> list[str]:
        """Return by table for example ``600 bundles (not counted: 12 heartbeat/SLA)``.

        Args:
            snapshot: Of this system.
            tables: Names of its tables; ``None`` for those that say how large a cluster is.
        """
        uncounted = self.uncounted(snapshot)
        sizes = []
        for name in self.counted if tables is None else tables:
            others = {why: rows for why, rows in uncounted.get(name, {}).items() if rows}
            rows = snapshot.tables[name].num_rows - sum(others.values())
            not_counted = ", ".join(f"{rows:,} {why}" for why, rows in others.items())
            size = pluralize(rows, _SINGULAR.get(name, name[:-1]).replace("_", " "))
            sizes.append(f"{size} (not counted: {not_counted})" if not_counted else size)
        return sizes


def part_of(table: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    """Return some columns of a table."""
    return pa.schema([table.field(name) for name in names])


def changing(
    name: str, schema: pa.Schema, key: tuple[str, ...], order: tuple[str, ...] = ()
) -> Kind:
    """Return the kind of a snapshot table that is one kind by itself."""
    return Kind(name, schema, "change", name, key, order or key, is_spine=True)


AnyRecord = SystemRecord[Any]
"""The storage of some system's snapshots, for code that knows none."""
