"""Recording: what changed since the last minute, what happened, and then the minute itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from core.errors import OpsError
from core.history.store.changes import KeyedRows, changed_rows, keyed
from core.history.store.events import events_between
from core.history.store.layout import (
    EVENTS,
    HOUR_MS,
    MINUTES,
    SCHEMA_VERSION,
    HistoryError,
    new_segment,
)
from core.history.store.lease import Lease
from core.history.store.reading import TimeRange, last_minute, rebuilt, where
from core.history.store.tables import ConflictingCommitError, FollowedTable, booked, translated
from core.snapshot.record import SEGMENT, TAKEN_AT
from core.snapshot.store import Storable
from core.units import datetime_to_ms

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from core.history.store.store import HistoryStore

RECENT_MS: Final = HOUR_MS
"""A writer that starts compares with what was recorded before it, when that is not older."""

_ATTEMPTS: Final = 20
EventCompleter = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class RecordResult:
    """Result of :meth:`Recorder.record`.

    Attributes:
        taken_at: The minute, ms.
        is_new: Whether it was recorded; else the history had it already, or it was not due.
        is_keyframe: Whether a segment began with it.
        rows: Rows written by kind.
        events: What happened since the last minute, with the columns of ``events``.
    """

    taken_at: int
    is_new: bool
    is_keyframe: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    events: pa.Table = field(default_factory=EVENTS.stored.empty_table, repr=False)


@dataclass
class _Segment:
    """State of the segment being written.

    Attributes:
        number: Of the segment.
        taken_at: Last minute of it.
        snapshot: Last snapshot of it.
        held: Its rows by kind.
    """

    number: int
    taken_at: int
    snapshot: Storable
    held: dict[str, KeyedRows]


class Recorder:
    """Records the snapshots of one cluster, one after the other. Not for several threads.

    Args:
        cluster: The cluster's name in the history.
        complete_events: Completes the events before they are written (actor, run); it gets
            and returns rows with the columns of ``events`` and ``taken_at``.
        lease: Waits while another recorder is active; ``None`` records anyway, as
            what takes in old minutes does.
        rest_ms: A snapshot without an event is due when the last recorded one is that much older.
    """

    def __init__(
        self,
        store: HistoryStore,
        cluster: str,
        complete_events: EventCompleter | None = None,
        lease: Lease | None = None,
        rest_ms: int = 0,
    ) -> None:
        self.cluster = cluster
        self._lease = lease
        self._rest_ms = rest_ms
        self._tables = store.tables
        self._complete_events = complete_events
        self._segment: _Segment | None = None
        self._seen: Storable | None = None  # what the next one is compared with for events
        self._is_started = False
        self._last_number = 0
        self._minutes: FollowedTable | None = None

    def record(self, snapshot: Storable) -> RecordResult:
        """Record a snapshot; once this returns, the minute is there for good.

        A minute that the history has already (the same cluster and ``taken_at``) is left alone.

        Raises:
            HeldError: Another recorder records the cluster.
            HistoryError: It could not be written. What was written of it is never seen, and the
                next minute begins a new segment.
        """
        taken_at = datetime_to_ms(snapshot.manifest.taken_at)
        if not self._is_next(taken_at) and self.has(snapshot):
            return RecordResult(taken_at, is_new=False)
        segment, self._segment = self._segment, None  # until all of it is written
        if segment is not None and not _goes_on(segment, taken_at, snapshot):
            segment = None
        if not self._is_started:
            self._seen = self._seen_before(taken_at, snapshot)
            self._is_started = True
        events = self._events(snapshot, taken_at)
        is_due = segment is None or taken_at - segment.taken_at >= self._rest_ms
        if segment is not None and not is_due and not events.num_rows:
            self._segment = segment
            return RecordResult(taken_at, is_new=False)
        number = segment.number if segment is not None else self._next_number()
        held, written = self._write(snapshot, taken_at, number, segment, events)
        last = None if segment is None else segment.taken_at
        is_new = self._commit(snapshot, taken_at, number, last)
        if not is_new:
            return RecordResult(taken_at, is_new=False)
        self._segment = _Segment(number, taken_at, snapshot, held)
        if self._seen is None or snapshot.manifest.taken_at > self._seen.manifest.taken_at:
            self._seen = snapshot
        return RecordResult(taken_at, True, segment is None, written, events)  # noqa: FBT003  # in the order of its fields

    def _write(
        self,
        snapshot: Storable,
        taken_at: int,
        number: int,
        segment: _Segment | None,
        events: pa.Table,
    ) -> tuple[dict[str, KeyedRows], dict[str, int]]:
        """Write the rows of a minute; no reader sees them until the minute is committed."""
        held: dict[str, KeyedRows] = {}
        written: dict[str, int] = {}
        for kind in self._tables.kinds.system(snapshot.manifest.kind).kinds:
            last = segment.held[kind.name] if segment is not None else None
            held[kind.name] = keyed(kind, snapshot.tables[kind.table], last)
            rows = changed_rows(kind, held[kind.name], last)
            written[kind.name] = rows.num_rows
            if rows.num_rows:
                times = pa.repeat(pa.scalar(taken_at, pa.int64()), rows.num_rows)
                stored = self._tables.kinds.of(kind.name)
                timed = rows.append_column(TAKEN_AT, times)
                self._tables.append(stored, booked(stored, self.cluster, timed, segment=number))
        if events.num_rows:
            self._tables.append(EVENTS, booked(EVENTS, self.cluster, events, segment=number))
        return held, written

    def _is_next(self, taken_at: int) -> bool:
        """Return whether the newest minute of the cluster is this recorder's own, and older.

        Then the history cannot have the minute, and no other recorder records the cluster: the
        minutes themselves need not be read.
        """
        if self._minutes is None or self._segment is None:
            return False
        followed, self._minutes = self._minutes, None
        self._minutes = self._tables.followed(MINUTES, followed)
        return self._is_newest(self._minutes.table, self._segment.taken_at, taken_at)

    def _is_newest(self, minutes: DeltaTable, last: int | None, taken_at: int) -> bool:
        """Return whether ``last`` was the latest minute committed of the cluster, and is older."""
        if last is None or last >= taken_at:
            return False
        with translated(self._tables.address(MINUTES.name)):
            return minutes.transaction_version(self.cluster) == last

    def _commit(self, snapshot: Storable, taken_at: int, number: int, last: int | None) -> bool:
        """Write the minute itself; return False when another recorder has recorded it meanwhile.

        Args:
            snapshot: What was taken.
            taken_at: When, ms.
            number: Of the segment.
            last: The minute of this recorder before it, ms; ``None``: there is none.
        """
        whole = self._minute(snapshot, taken_at, number)
        for _ in range(_ATTEMPTS):
            followed, self._minutes = self._minutes, None  # not after a failure
            minutes = self._tables.followed(MINUTES, followed)
            if not self._is_newest(minutes.table, last, taken_at) and self.has(snapshot):
                return False
            try:
                # of two writers that looked at once, the second finds that it has to look again
                self._tables.append(
                    MINUTES, whole, only_one=self.cluster, basis=minutes.table, version=taken_at
                )
            except ConflictingCommitError:
                continue
            self._minutes = minutes
            return True
        raise HistoryError(
            f"Too many processes write minutes of {self.cluster!r} at the same time.",
            hint="Run one collector per cluster; stop the others.",
        )

    def _minute(self, snapshot: Storable, taken_at: int, number: int) -> pa.Table:
        """Return the row of the minute itself."""
        row = pa.table(
            {
                TAKEN_AT: pa.array([taken_at], pa.int64()),
                "snapshot_id": [snapshot.snapshot_id],
                "system": [snapshot.manifest.kind],
                "schema_version": [SCHEMA_VERSION],
                "manifest": [msgspec.json.encode(snapshot.manifest).decode()],
            }
        )
        return booked(MINUTES, self.cluster, row, segment=number)

    def has(self, snapshot: Storable) -> bool:
        """Return whether the history already has the minute.

        Raises:
            HeldError: It has not, and another recorder records the cluster.
            HistoryError: It cannot be read.
        """
        taken_at = datetime_to_ms(snapshot.manifest.taken_at)
        lease = self._lease
        reach = 0 if lease is None else lease.reach_ms(snapshot.manifest.duration_s)
        near = where(self.cluster, TimeRange(taken_at - reach, taken_at + reach))
        found = self._tables.scan(MINUTES, [TAKEN_AT, SEGMENT], near).sort_by(TAKEN_AT)
        if taken_at in found[TAKEN_AT].to_pylist():
            return True
        if lease is not None and found.num_rows:
            lease.check(self.cluster, found[SEGMENT][-1].as_py(), reach)
        return False

    def _next_number(self) -> int:
        self._last_number = max(new_segment(), self._last_number + 1)
        if self._lease is not None:
            self._lease.began(self._last_number)
        return self._last_number

    def _seen_before(self, taken_at: int, snapshot: Storable) -> Storable | None:
        """Return the last recorded state before this writer started, if it is recent."""
        minute = last_minute(self._tables, self.cluster, taken_at)
        if minute is None or taken_at - minute[TAKEN_AT] > RECENT_MS:
            return None
        if minute["system"] != snapshot.manifest.kind:
            return None
        try:
            before: Storable = rebuilt(self._tables, self.cluster, minute)
        except OpsError:
            return None  # damaged: what happened since then is unknown, the rest can
        return before

    def _events(self, snapshot: Storable, taken_at: int) -> pa.Table:
        before = self._seen
        found = pa.table({one.name: pa.array([], one.type) for one in EVENTS.columns})
        if before is not None and before.manifest.taken_at < snapshot.manifest.taken_at:
            system = self._tables.kinds.system(snapshot.manifest.kind)
            found = events_between(system, before, snapshot)
        times = pa.repeat(pa.scalar(taken_at, pa.int64()), found.num_rows)
        timed = found.append_column(TAKEN_AT, times)
        return timed if self._complete_events is None else self._complete_events(timed)


def _goes_on(segment: _Segment, taken_at: int, snapshot: Storable) -> bool:
    """Whether a minute can be written as changes to the last one: later, and in the same hour."""
    return (
        taken_at > segment.taken_at
        and taken_at // HOUR_MS == segment.taken_at // HOUR_MS
        and snapshot.manifest.kind == segment.snapshot.manifest.kind
    )
