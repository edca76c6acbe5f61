"""The history on disk: Delta tables by kind, partitioned by cluster and day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from core.history.store import integrity, reading, retention
from core.history.store.integrity import IntegrityProblem, Repair
from core.history.store.layout import HistoryError, Kinds
from core.history.store.retention import CompactionResult, KindSize
from core.history.store.tables import Tables, booked
from core.snapshot.clock import ClockJump
from core.snapshot.record import TAKEN_AT
from core.snapshot.store import Storable
from core.systems import SYSTEMS
from core.units import datetime_to_ms, ms_to_datetime

__all__ = ["HistoryError", "HistoryLocation", "HistoryStore"]


KINDS: Final = Kinds(system.record for system in SYSTEMS)
"""The kinds of rows of every system that Trimtab knows."""


@dataclass(frozen=True)
class HistoryLocation:
    """Location of a history.

    Attributes:
        uri: Directory, or any address that Delta tables can be stored at.
        options: Storage options of that address.
        kinds: The kinds of rows of the systems whose clusters are recorded there.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    kinds: Kinds = field(default=KINDS, repr=False, compare=False)


class HistoryStore:
    """Everything recorded, of all clusters.

    Opening costs nothing; tables are opened at first use, and several threads may use
    one store.

    Args:
        location: Where it is.
    """

    def __init__(self, location: HistoryLocation) -> None:
        self.location = location

    @cached_property
    def tables(self) -> Tables:
        """The Delta tables; other parts of this package use them."""
        return Tables(self.location.uri, self.location.options, self.location.kinds)

    # -- what there is --------------------------------------------------------------------------

    def clusters(self) -> list[str]:
        """Names of the clusters of which at least one minute is recorded, sorted."""
        return reading.clusters(self.tables)

    def span(self, cluster: str) -> tuple[datetime, datetime] | None:
        """Time of the first and of the last recorded minute; ``None`` when there is none."""
        minutes = self.minutes(cluster)[TAKEN_AT]
        if not len(minutes):
            return None
        return ms_to_datetime(minutes[0].as_py()), ms_to_datetime(minutes[-1].as_py())

    def minutes(
        self, cluster: str, start: datetime | None = None, end: datetime | None = None
    ) -> pa.Table:
        """Return the recorded minutes, oldest first.

        Args:
            cluster: Its name.
            start: Not before it; ``None`` for the beginning.
            end: Not after it; ``None`` for the end.
        Returns:
            ``taken_at`` (ms), ``snapshot_id``, ``segment``, ``system``.
        """
        return reading.minutes(self.tables, cluster, reading.between(start, end))

    # -- what happened --------------------------------------------------------------------------

    def snapshot_at(self, cluster: str, moment: datetime) -> Storable:
        """Return the newest snapshot that was recorded at or before ``moment``.

        Raises:
            HistoryError: There is none, or what is there does not have the recorded content.
        """
        return reading.snapshot_at(self.tables, cluster, datetime_to_ms(moment))

    def rows(
        self,
        kind: str,
        cluster: str,
        start: datetime | None = None,
        end: datetime | None = None,
        columns: Sequence[str] | None = None,
        *,
        matching: Mapping[str, str] | None = None,
        max_rows: int | None = None,
    ) -> pa.Table:
        """Return rows of one kind, sorted by ``taken_at``; those of committed minutes only.

        Args:
            kind: One of :attr:`HistoryLocation.kinds`.
            cluster: Its name.
            start: Not before it.
            end: Not after it.
            columns: Wanted columns; ``taken_at`` comes first anyway. ``None`` for all of them.
            matching: Columns of text that have this value, ``{"bundle": ...}``: much faster than
                to choose among all rows afterwards.
            max_rows: More are not read but refused; ``None``: no limit.
        Raises:
            InputError: There are more than ``max_rows``.
            HistoryError: There is no such kind or column, or they cannot be read.
        """
        wanted = reading.RowQuery(self.tables.kinds.of(kind), columns, matching or {}, max_rows)
        return reading.rows(self.tables, wanted, cluster, reading.between(start, end))

    def files(
        self,
        kind: str,
        cluster: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> list[str]:
        """Return addresses of the Parquet files that may hold rows of the kind.

        ``cluster`` and ``day`` are in the path (``cluster=a/day=2026-11-21``). A row counts when
        its ``segment`` is null, or when the files of ``minutes`` (requested **first**) have a row
        of the same cluster, ``taken_at`` and ``segment``.

        Raises:
            HistoryError: There is no such kind, or the table cannot be read.
        """
        return reading.files(
            self.tables, self.tables.kinds.of(kind), cluster, reading.between(start, end)
        )

    # -- writing --------------------------------------------------------------------------------

    def append(self, kind: str, cluster: str, rows: pa.Table) -> None:
        """Add rows that belong to no recorded minute: events, shadow and the like.

        Args:
            kind: One of :attr:`HistoryLocation.kinds`.
            cluster: Its name.
            rows: ``taken_at`` and the kind's columns; what is missing is null.
        Raises:
            HistoryError: They cannot be written, or do not fit.
        """
        self.tables.append(
            self.tables.kinds.of(kind),
            booked(self.tables.kinds.of(kind), cluster, rows, segment=None),
        )

    def compact(self, cluster: str, now: datetime) -> CompactionResult:
        """Put the small files of closed hours together; see :mod:`core.history.store.retention`."""
        return retention.compact(self.tables, cluster, datetime_to_ms(now))

    def retain(self, cluster: str, now: datetime, max_age: timedelta, max_bytes: int) -> list[str]:
        """Drop the oldest days until the rest is young and small enough; never today.

        Returns:
            The days that were dropped.
        """
        return retention.retain(self.tables, cluster, now, max_age, max_bytes)

    def jump(self, cluster: str, now: datetime, max_age: timedelta) -> ClockJump | None:
        """Return the jump of the clock that retention waits for; see :mod:`core.snapshot.clock`."""
        return retention.jump(self.tables, cluster, now, max_age)

    def problems(
        self,
        cluster: str | None,
        kinds: Sequence[str] | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        is_deep: bool = True,
    ) -> list[IntegrityProblem]:
        """Return the damage of a history; see :func:`core.history.store.integrity.problems`."""
        days = [
            None if one is None else one.astimezone(UTC).strftime("%Y-%m-%d")
            for one in (start, end)
        ]
        return integrity.problems(self.tables, cluster, kinds, (days[0], days[1]), is_deep=is_deep)

    def isolated(self) -> list[dict[str, Any]]:
        """Return the data set aside by earlier repairs, oldest first."""
        return integrity.isolated(self.tables)

    def repair(self, found: Sequence[IntegrityProblem], now: datetime) -> list[Repair]:
        """Set damaged files aside; see :func:`core.history.store.integrity.repair`."""
        return integrity.repair(self.tables, found, now)

    def sizes(self, cluster: str) -> dict[str, KindSize]:
        """Files, bytes and rows by kind."""
        return retention.sizes(self.tables, cluster)
