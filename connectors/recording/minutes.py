"""One cluster's minutes: the snapshot, what happened, who did it, and what the shadow would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors.recording.attribution import BY_CLUSTER, attributed
from connectors.recording.steps import RunSteps, last_place
from core.actions.ports import Journal
from core.errors import OpsError
from core.history.analysis.accuracy.shadow import Shadow
from core.history.store.lease import HeldError, Lease
from core.history.store.store import HistoryStore
from core.history.store.writer import Recorder
from core.snapshot.store import Storable
from core.units import datetime_to_ms, ms_to_datetime

_MARGIN_MS: Final = 60_000
"""A step that ended so long before a reading ended may show in the next one only."""

_NEW_MS: Final = 600_000
"""A history that is new begins with the steps of so long a time before its first minute."""

_LOOKS: Final = (timedelta(days=1), timedelta(days=7), None)
_REST: Final = timedelta(hours=2)
"""Longest grace period that is looked for when a recorder starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """Rows written by one call of :meth:`ClusterMinutes.record`.

    Attributes:
        taken_at: The minute, ms.
        is_new: ``False``: the history had it already, or it was not due.
        rows: How many, of all kinds.
        events: How many events, steps of runs among them.
        problem: What was left out of it; ``None`` if nothing.
    """

    taken_at: int
    is_new: bool
    rows: int = 0
    events: int = 0
    problem: OpsError | None = None


class ClusterMinutes:
    """Records the snapshots of one cluster, one after the other. Not for several threads.

    Args:
        open_history: Opens the history; after every failure it is opened again.
        cluster: Trimtab's name of it.
        journal: Opens the journal of runs.
        shadow: What runs on every snapshot.
        lease: Keeps back while another collector records the cluster; ``None`` if never.
        rest_ms: See :class:`core.history.store.writer.Recorder`.
    """

    def __init__(
        self,
        open_history: Callable[[], HistoryStore],
        cluster: str,
        journal: Callable[[], Journal],
        shadow: Shadow,
        lease: Lease | None = None,
        rest_ms: int = 0,
    ) -> None:
        self._lease = lease
        self._rest_ms = rest_ms
        self._open_history = open_history
        self._cluster = cluster
        self._open_journal = journal
        self._shadow = shadow
        self._open()
        self._last_at: int | None = None
        self._place: int | None = None
        self._steps: RunSteps | None = None
        self._since = 0
        self._taken_at = 0
        self._kind = ""
        self._reported_count = 0
        self._moved: list[str] = []
        self._problem: OpsError | None = None

    def _open(self) -> None:
        self._store = self._open_history()
        self._recorder = Recorder(
            self._store, self._cluster, self._completed, self._lease, self._rest_ms
        )

    def record(self, snapshot: Storable) -> WriteResult:
        """Record one snapshot; once this returns, its minute is in the history for good.

        Raises:
            HeldError: Another collector records the cluster; the next one is tried again.
            HistoryError: It is not in it; the next one is tried again.
        """
        taken_at = datetime_to_ms(snapshot.manifest.taken_at)
        self._taken_at = taken_at
        self._kind = snapshot.manifest.kind
        self._reported_count, self._moved, self._problem = 0, [], None
        try:
            if self._place is None:
                if self._recorder.has(snapshot):  # checked before much is read
                    return WriteResult(taken_at=taken_at, is_new=False)
                self._place = self._begin(taken_at)
            done = self._recorder.record(snapshot)
        except OpsError as exc:
            if isinstance(exc, HeldError):  # the other one records what happens meanwhile
                self._place = self._steps = self._last_at = None
            self._open()  # what is open may be of a history that is not there any more
            self._shadow.decide(snapshot, self._moved)  # its memory goes on, as the leader's does
            raise
        if not done.is_new:
            return WriteResult(taken_at=taken_at, is_new=False)
        if self._steps is not None:
            self._steps.committed(self._reported_count)
        self._last_at = taken_at
        rows = sum(done.rows.values()) + self._shadowed(snapshot)
        return WriteResult(
            taken_at=taken_at,
            is_new=True,
            rows=rows,
            events=done.events.num_rows,
            problem=self._problem,
        )

    def _shadowed(self, snapshot: Storable) -> int:
        found = self._shadow.decide(snapshot, self._moved)
        if found.num_rows:
            try:
                self._store.append("shadow", self._cluster, found)
            except OpsError as exc:
                self._problem = exc
                return 0
        return int(found.num_rows)

    def _begin(self, taken_at: int) -> int:
        """Look up where an earlier recorder ended; return its place in the journal."""
        span = self._store.span(self._cluster)
        if span is None:
            self._since = taken_at - _NEW_MS
            return 0
        self._last_at = datetime_to_ms(span[1])
        self._since = self._last_at - _MARGIN_MS
        self._shadow.remember(self._moved_lately(span[1]))
        return self._last_place(span[1])

    def _moved_lately(self, last: datetime) -> dict[str, int]:
        events = self._store.rows("events", self._cluster, start=last - _REST)
        return {row["subject"]: row["taken_at"] for row in events.to_pylist() if _is_leaders(row)}

    def _last_place(self, last: datetime) -> int:
        for span in _LOOKS:
            start = None if span is None else last - span
            events = self._store.rows("events", self._cluster, start, columns=["kind", "details"])
            of_runs = pc.is_in(events["kind"], value_set=pa.array(["step", "run"]))
            place = last_place(events.filter(of_runs)["details"].to_pylist())
            if place:
                return place
        return 0

    def _completed(self, events: pa.Table) -> pa.Table:
        """Attribute the observed changes, and add those of runs; called before the write."""
        rows: list[dict[str, Any]] = events.to_pylist()
        taken_at = self._taken_at
        try:
            steps = self._read_steps()
        except OpsError as exc:  # who did it stays unknown; the steps come with a later minute
            self._problem = exc
        else:
            since = (self._last_at or taken_at) - _MARGIN_MS
            rows = attributed(rows, steps.run_changes(since), since, taken_at)
            pending = steps.pending()
            self._reported_count = len(pending)
            rows += [{"taken_at": taken_at} | row for row in pending]
        self._moved = [row["subject"] for row in rows if _is_leaders(row)]
        return pa.Table.from_pylist(rows, schema=events.schema)

    def _read_steps(self) -> RunSteps:
        if self._steps is None:
            journal = self._open_journal()
            system = self._store.tables.kinds.system(self._kind)
            self._steps = RunSteps(
                journal, self._cluster, self._place or 0, self._since, system.setting_subjects
            )
        self._steps.read()
        return self._steps


def _is_leaders(row: dict[str, Any]) -> bool:
    """Whether it is a move of the cluster's own: it has a grace period."""
    return row["kind"] == "move" and row["by"] in (None, "", BY_CLUSTER) and bool(row["before"])


def minute_text(taken_at: int) -> str:
    """Return a minute as ISO 8601, UTC."""
    return ms_to_datetime(taken_at).astimezone(UTC).isoformat(timespec="milliseconds")
