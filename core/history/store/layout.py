"""What every history has: minutes, events and predictions, with their columns.

A history is one Delta table a kind at ``<uri>/<kind>/``, partitioned by ``cluster`` and ``day``.
Every row has ``taken_at`` (ms). Rows that a :class:`core.history.store.writer.Recorder` wrote have
the ``segment`` of their minute as well, and count only when ``minutes`` has a row with the same
cluster, ``taken_at`` and ``segment``: that row is committed last, so what a killed writer left is
never seen. Rows without a segment were appended by themselves and always count.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.snapshot.record import AnyRecord, Kind

SCHEMA_VERSION: Final = 1
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
FIRST_MONDAY_MS: Final = 4 * DAY_MS
"""1970-01-05: the epoch began on a Thursday."""


class HistoryError(SnapshotError):
    """The history cannot be read or written, or has nothing for the request."""

    code = "history"


_DRAWN_BITS: Final = 12

EVENT_COLUMNS: Final = pa.schema(
    [
        # move | split | merge | leader | broker_up | broker_down | setting | policy | primary |
        # replica | level | node_up | node_down | node_restart | step | run
        pa.field("kind", pa.string()),
        pa.field("subject", pa.string()),  # bundle, broker, key, gpid ...
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("by", pa.string()),  # cluster | trimtab; empty: unknown
        pa.field("run_id", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("details", pa.string()),  # a JSON object
    ]
)
SHADOW_COLUMNS: Final = pa.schema(
    [
        pa.field("strategy", pa.string()),
        pa.field("is_configured", pa.bool_()),
        pa.field("is_switched_on", pa.bool_()),  # the cluster balances by itself
        pa.field("label", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("sentence", pa.string()),
        pa.field("position", pa.int64()),  # of the move in its round, from 0
        pa.field("broker", pa.string()),  # null: nothing would move
        pa.field("bundle", pa.string()),
        pa.field("destination", pa.string()),
        pa.field("probability", pa.float64()),  # of that destination, the most likely one
        pa.field("distribution", pa.string()),  # JSON {broker: probability}
    ]
)
MINUTE_COLUMNS: Final = pa.schema(
    [
        pa.field("snapshot_id", pa.string()),
        pa.field("system", pa.string()),
        pa.field("schema_version", pa.int64()),
        pa.field("manifest", pa.string()),  # JSON, as a snapshot directory has it
    ]
)

MINUTES: Final = Kind("minutes", MINUTE_COLUMNS)
EVENTS: Final = Kind("events", EVENT_COLUMNS)
SHADOW: Final = Kind("shadow", SHADOW_COLUMNS)


class Kinds:
    """Every kind of rows in a history: those of all systems, and what every history has.

    Args:
        systems: The systems that it knows. Kinds of one name are one table with the columns of all.
        own: Kinds that belong to no system.
    """

    def __init__(
        self, systems: Iterable[AnyRecord], own: Iterable[Kind] = (MINUTES, EVENTS, SHADOW)
    ) -> None:
        self._systems = {system.system: system for system in systems}
        found = {kind.name: kind for kind in own}
        for kind in (kind for system in self._systems.values() for kind in system.kinds):
            other = found.get(kind.name)
            found[kind.name] = kind if other is None else _joined(other, kind)
        self._by_name = found

    def __iter__(self) -> Iterator[Kind]:
        """The kinds in the form that is written."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._by_name)

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._by_name)

    def of(self, name: str) -> Kind:
        """Return a kind in the form that is written.

        Raises:
            HistoryError: There is none of that name.
        """
        if name not in self._by_name:
            raise HistoryError(
                f"The history has no rows of kind {name!r}.",
                hint=f"Available: {', '.join(sorted(self._by_name))}.",
            )
        return self._by_name[name]

    def system(self, name: str) -> AnyRecord:
        """Return the recording of a system's snapshots.

        Raises:
            HistoryError: No system of that name is known.
        """
        if name not in self._systems:
            raise HistoryError(
                f"The history has a minute of the unknown system {name!r}.",
                hint="Read it with the version of Trimtab that recorded it.",
            )
        return self._systems[name]


def _joined(first: Kind, second: Kind) -> Kind:
    more = [one for one in second.columns if one.name not in first.columns.names]
    return replace(first, columns=pa.schema([*first.columns, *more])) if more else first


def day_of(taken_at_ms: int) -> str:
    """Return the partition of a time, ``2026-11-21``, UTC."""
    return datetime.fromtimestamp(taken_at_ms / 1000, tz=UTC).strftime("%Y-%m-%d")


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def new_segment() -> int:
    """Return a number that no other segment has: the time, ms, and 12 drawn bits after it.

    Recorders that begin in the same millisecond must not share a number: what one of them wrote
    of a minute that the other committed would count with it. The number fits a float (2^53).
    """
    return (time.time_ns() // 1_000_000 << _DRAWN_BITS) + secrets.randbits(_DRAWN_BITS)


def segment_begun_ms(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the start of segments, ms; numbers before 2026-11-23 are times."""
    return np.where(numbers < 1 << 44, numbers, numbers >> _DRAWN_BITS)
