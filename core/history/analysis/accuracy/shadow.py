"""What a shadow balancer is: it predicts on each live snapshot what the cluster's would do.

It decides once in each balancing interval of the cluster and never acts. What it predicts is
compared with what the balancer really did by :mod:`core.history.analysis.accuracy.accuracy`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

_EARLY: Final = 0.25
"""How much of its interval a round may come early: captures are never exactly on time."""

_PUNCTUAL_MS: Final = 5_000
"""And no more than this."""


def _field(name: str, kind: pa.DataType, unit: str = "", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit} if unit else None)


SHADOW: Final = pa.schema(
    [
        _field("taken_at", pa.int64(), "ms", nullable=False),
        _field("strategy", pa.string(), nullable=False),  # class name; Pegasus: app | cluster
        _field("is_configured", pa.bool_(), nullable=False),  # the one that the cluster goes by
        _field("is_switched_on", pa.bool_(), nullable=False),  # the cluster balances by itself
        _field("label", pa.string(), nullable=False),  # success | skip | failure
        _field("reason", pa.string(), nullable=False),
        _field("sentence", pa.string(), nullable=False),
        _field("position", pa.int64()),  # of the move in its round, from 0
        _field("broker", pa.string()),  # null: nothing would move; Pegasus: the node that gives
        _field("bundle", pa.string()),  # Pegasus: the partition's gpid
        _field("destination", pa.string()),  # the most likely one
        _field("probability", pa.float64(), "ratio"),  # of that destination
        _field("distribution", pa.string()),  # JSON {broker: probability}
    ]
)
"""One row a move that would be made, one row without a broker where nothing would move."""


MIN_REPORTED: Final = 0.001
"""Destinations less likely than this are not recorded."""


class Shadow(Protocol):
    """A shadow balancer of one cluster."""

    def decide(self, snapshot: Any, moved: Collection[str] = ()) -> pa.Table:
        """Return the moves of a round that is due now, as :data:`SHADOW`; empty if none is due.

        Args:
            snapshot: The newest one; they come in the order of their times.
            moved: Bundles that the cluster itself moved since the snapshot before.
        """
        ...

    def remember(self, moved: Mapping[str, int]) -> None:
        """Take over what was moved before the first snapshot: bundle to time, ms."""
        ...


class NoShadow:
    """For a system whose balancer is not predicted."""

    def decide(self, snapshot: object, moved: Collection[str] = ()) -> pa.Table:
        """Return no rows."""
        del snapshot, moved
        return SHADOW.empty_table()

    def remember(self, moved: Mapping[str, int]) -> None:
        """Do nothing."""


def is_due(now_ms: int, last_ms: int | None, interval_ms: float) -> bool:
    """Return whether an interval has passed since the last round, within the slack."""
    if last_ms is None:
        return True
    return now_ms - last_ms >= interval_ms - slack_ms(interval_ms)


def slack_ms(interval_ms: float) -> float:
    """Return the tolerance of an early round, ms."""
    return min(interval_ms * _EARLY, _PUNCTUAL_MS)


def rows_of(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows as :data:`SHADOW`; columns that they do not name are null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SHADOW)
