"""Recording many minutes of the past at once: one commit a kind instead of one a minute."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from core.history.store.layout import MINUTES, HistoryError, Kinds
from core.history.store.store import HistoryStore
from core.history.store.tables import Tables
from core.history.store.writer import EventCompleter, Recorder
from core.snapshot.record import TAKEN_AT, Kind
from core.snapshot.store import Storable
from core.units import ms_to_datetime


class BatchRecorder(Recorder):
    """Collects the minutes of a time of which the history has none; :meth:`commit` writes them.

    Args:
        cluster: The cluster's name in the history.
        complete_events: As of :class:`core.history.store.writer.Recorder`.
    """

    def __init__(
        self, store: HistoryStore, cluster: str, complete_events: EventCompleter | None = None
    ) -> None:
        super().__init__(store, cluster, complete_events)
        self._store = store
        self._tables = self._collected = _Collected(store.tables.kinds)
        self._is_started = True  # nothing before it is compared with its first minute

    def has(self, snapshot: Storable) -> bool:  # noqa: ARG002 - the signature of the base
        """Return False: :meth:`commit` checks the whole time."""
        return False

    def _commit(
        self,
        snapshot: Storable,
        taken_at: int,
        number: int,
        last: int | None,  # noqa: ARG002 - the signature of the base
    ) -> bool:
        self._collected.append(MINUTES, self._minute(snapshot, taken_at, number))
        return True

    def commit(self) -> int:
        """Write what was collected, the minutes last; the next one compares with nothing of it.

        Returns:
            How many minutes were written.
        Raises:
            HistoryError: The history has a minute of that time already, or cannot be written.
        """
        rows = self._collected.take()
        minutes = rows.pop(MINUTES.name, None)
        if minutes is None:
            return 0
        times = minutes[TAKEN_AT].to_numpy()
        first, last = (ms_to_datetime(int(at)) for at in (times.min(), times.max()))
        if self._store.minutes(self.cluster, first, last).num_rows:
            raise HistoryError(
                f"The history already has minutes of {self.cluster!r} for that time.",
                hint="Record an earlier or a later time.",
            )
        for name, found in rows.items():
            self._store.tables.append(self._store.tables.kinds.of(name), found)
        self._store.tables.append(MINUTES, minutes)
        self._segment = self._seen = None
        return int(minutes.num_rows)


class _Collected(Tables):
    """Rows by kind in memory, in place of the tables that they are for."""

    def __init__(self, kinds: Kinds) -> None:
        super().__init__("", {}, kinds)
        self._rows: dict[str, list[pa.Table]] = defaultdict(list)

    def append(self, kind: Kind, rows: pa.Table, **_: object) -> None:
        """Keep rows."""
        self._rows[kind.name].append(rows)

    def take(self) -> dict[str, pa.Table]:
        """Return the rows by kind, and forget them."""
        found = {name: pa.concat_tables(parts) for name, parts in self._rows.items()}
        self._rows.clear()
        return found
