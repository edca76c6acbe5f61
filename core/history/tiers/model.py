"""What a tier is made of: whose load, from which rows, by which measures; declared once.

A load becomes a whole number first (``scale`` of them are one unit), so that sums do not depend on
the order of rows and every engine returns the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from core.snapshot.record import Kind


def _all_rows(name: str) -> str:
    del name  # of servers all rows are read: they share a minute's mean
    return ""


BIN_BITS: Final = 4
"""Bits of a value that its bin keeps after the leading one: 16 bins an octave."""

MAX_ERROR: Final = 1 / 2 ** (BIN_BITS + 1)
"""Relative error of a percentile, at most: half the width of a bin over its lower end."""

PERCENTILES: Final = (50, 95, 99)

BAND: Final = 0.20
"""A server is outside the band in a minute in which its load is farther from the mean of the
servers: vivo's published target, as in trends."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One load of a subject.

    Attributes:
        name: Of its columns: ``<name>_mean`` and so on.
        sql: Over a row, a double in the unit of the measure; null where it is unknown.
        scale: Whole numbers that are one unit: the precision of a sample.
        is_binned: Whether it has percentiles.
    """

    name: str
    sql: str = ""
    scale: int = 1_000
    is_binned: bool = False

    def columns(self) -> list[pa.Field]:
        """Return its columns."""
        numbers = [f"{self.name}_{one}" for one in ("mean", "max")]
        if self.is_binned:
            numbers += [f"{self.name}_p{one}" for one in PERCENTILES]
        fields = [pa.field(one, pa.float64()) for one in numbers]
        fields.append(pa.field(f"{self.name}_minutes", pa.int32()))
        if self.is_binned:
            fields.append(pa.field(f"{self.name}_bins", pa.list_(pa.int16())))
            fields.append(pa.field(f"{self.name}_counts", pa.list_(pa.int32())))
        return fields


@dataclass(frozen=True, slots=True)
class EventCount:
    """Events of a subject that are counted.

    Attributes:
        name: Of the column.
        kinds: Kinds of events.
        key: SQL over an event: the subject.
        where: SQL over an event: which ones; empty: all.
    """

    name: str
    kinds: tuple[str, ...]
    key: str
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSubject:
    """Subject of a tier.

    Attributes:
        kind: In the tables, singular: ``broker``.
        measures: Its loads.
        counts: Its events.
        rows: Kind of history rows that has the load; empty: it is the sum of others.
        columns: Of those rows.
        key: SQL over a row, or over ``subject`` of the others: its name.
        where: SQL over a row: which ones count; empty: all.
        of: The subjects that it sums up, where it has no rows.
        is_server: It carries the others; it has a time outside the band.
        members: Returns SQL over a row of the history: those that one subject is made of, by its
            name; empty: all are read.
    """

    kind: str
    measures: tuple[Measure, ...]
    key: str
    counts: tuple[EventCount, ...] = ()
    rows: str = ""
    columns: tuple[str, ...] = ()
    where: str = ""
    of: str = ""
    is_server: bool = False
    members: Callable[[str], str] = _all_rows

    @property
    def has_band(self) -> bool:
        """Whether it has a time outside the band."""
        return self.is_server or self.kind == CLUSTER_KIND

    @property
    def profiled(self) -> tuple[Measure, ...]:
        """Measures that have a weekly profile."""
        return tuple(one for one in self.measures if one.is_binned)

    def columns_of_tier(self) -> list[pa.Field]:
        """Return the columns of its rows, without the ones that every row has."""
        found = [one for measure in self.measures for one in measure.columns()]
        found += [pa.field(one.name, pa.int32()) for one in self.counts]
        return found + ([pa.field("outside_minutes", pa.int32())] if self.has_band else [])


CLUSTER_KIND: Final = "cluster"

DEVIATION: Final = Measure("deviation", scale=1_000_000, is_binned=True)
SERVERS: Final = Measure("servers", scale=1)


@dataclass(frozen=True, eq=False)
class GrowthContext:
    """Limit and owners of a cluster.

    Attributes:
        owners: ``subject`` and ``server`` of everything that is on a server; ``None``: unknown.
        limit_ratio: Usage at which a server is full; ``None``: the system has no such setting.
        limit_key: The setting that has it.
    """

    owners: pa.Table | None = None
    limit_ratio: float | None = None
    limit_key: str = ""


def owned(subjects: pa.ChunkedArray, servers: pa.ChunkedArray) -> pa.Table:
    """Return the owners of a context, without what is on no server."""
    return pa.table({"subject": subjects, "server": servers}).drop_null()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTiers:
    """Tiers of a system.

    Attributes:
        system: Its name.
        subjects: Those with rows before those that sum them up.
        flow: The measure by which a server is busy.
        counts: Events of the cluster as a whole.
        context: Returns limit and owners, of a snapshot.
        usage: The measure of a server that has a limit, as a ratio; empty: there is none.
    """

    system: str
    subjects: tuple[TierSubject, ...]
    flow: str
    counts: tuple[EventCount, ...]
    context: Callable[[Any], GrowthContext]
    usage: str = ""

    @property
    def server(self) -> TierSubject:
        """The subject that carries the others."""
        return next(one for one in self.subjects if one.is_server)

    @property
    def unit(self) -> TierSubject:
        """The smallest subject, which the balancer moves."""
        return next(one for one in self.subjects if one.rows and not one.is_server)

    @property
    def fleet(self) -> TierSubject:
        """The cluster as a whole: what its servers carry, and how evenly."""
        flow = next(one for one in self.server.measures if one.name == self.flow)
        return TierSubject(
            kind=CLUSTER_KIND,
            measures=(flow, DEVIATION, SERVERS),
            key="''",
            of=self.server.kind,
            counts=self.counts,
        )

    @property
    def everything(self) -> tuple[TierSubject, ...]:
        """Its subjects and the cluster."""
        return (*self.subjects, self.fleet)

    def narrowed(self, kind: str) -> SystemTiers:
        """Return the tiers of one kind of subject, with the servers and what it sums up."""
        of = next((one.of for one in self.subjects if one.kind == kind), "")
        kinds = {kind, of, self.server.kind}
        return replace(self, subjects=tuple(one for one in self.subjects if one.kind in kinds))


def number(*columns: str) -> str:
    """Return SQL of the sum of columns as a double; null where one of them is unknown."""
    return " + ".join(f'CAST("{one}" AS DOUBLE)' for one in columns)


def known(*columns: str) -> str:
    """Return SQL of the sum of the columns that are known; null where none is."""
    total = " + ".join(f'coalesce(CAST("{one}" AS DOUBLE), 0e0)' for one in columns)
    is_any = " OR ".join(f'"{one}" IS NOT NULL' for one in columns)
    return f"CASE WHEN {is_any} THEN {total} END"


def largest(*columns: str) -> str:
    """Return SQL of the largest known of some columns; null where none is."""
    return f"greatest({', '.join(map(number, columns))})"


COMMON: Final = (
    pa.field("kind", pa.string()),
    pa.field("subject", pa.string()),
    pa.field("minutes_seen", pa.int32()),  # in which the subject was there
    pa.field("minutes_missing", pa.int32()),  # in which the cluster was not recorded
    pa.field("system", pa.string()),  # in the row of the cluster
    pa.field("snapshots", pa.int32()),  # recorded, in the same row
    pa.field("revision", pa.int64()),  # of what the period is made from, in the same row
)
"""Columns that every row has."""


def tier_kind(name: str, systems: Sequence[SystemTiers]) -> Kind:
    """Return a tier as a kind of rows: ``taken_at`` is the start of the hour or day."""
    fields = {one.name: one for one in COMMON}
    for subject in (subject for system in systems for subject in system.everything):
        for one in subject.columns_of_tier():
            if fields.setdefault(one.name, one).type != one.type:
                raise AssertionError(one.name)
    return Kind(name, pa.schema(list(fields.values())), key=("kind", "subject"))


PROFILE_WEEKS: Final = 8
"""Weeks before the newest hour that a profile is made of."""


def profile_kind(name: str, systems: Sequence[SystemTiers]) -> Kind:
    """Return weekly profiles as a kind of rows; ``taken_at`` is in the week of 1970-01-05.

    Args:
        name: Of the tier.
        systems: Whose measures have profiles.
    """
    fields = [
        *(pa.field(one, pa.string()) for one in ("kind", "subject")),
        *(pa.field(one, pa.int32()) for one in ("weekday", "hour")),
    ]
    subjects = [subject for system in systems for subject in system.everything]
    for measure in dict.fromkeys(one.name for subject in subjects for one in subject.profiled):
        fields += [pa.field(f"{measure}_{one}", pa.float64()) for one in ("level", "spread")]
        fields.append(pa.field(f"{measure}_weeks", pa.int32()))
    books = [one for one in COMMON if one.name in ("system", "snapshots", "revision")]
    return Kind(name, pa.schema([*fields, *books]), key=("kind", "subject"))
