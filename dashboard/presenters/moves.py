"""Ownership changes of bundles between saved snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.analysis.flaps.flaps import returned_rows
from core.units import pluralize
from dashboard.presenters.moments import span_words

NO_OWNER = "no owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMove:
    """A bundle that had another owner in the next snapshot.

    Attributes:
        seen_at: When the new owner was seen first; the move was before that.
        bundle: Name.
        from_broker: Owner before; ``None``: none.
        to_broker: Owner after; ``None``: none.
    """

    seen_at: datetime
    bundle: str
    from_broker: str | None
    to_broker: str | None


def moves_between(tables: Sequence[tuple[datetime, pa.Table]]) -> list[ObservedMove]:
    """Return the moves seen from each table to the next, oldest first.

    Args:
        tables: Time and table (``bundle``, ``owner``; a null owner is none, not unknown).

    Cost:
        One pass over the columns a pair; Python only for the bundles that moved.
    """
    found: list[ObservedMove] = []
    for (_, before), (seen_at, after) in pairwise(tables):
        old = _aligned_owners(before, after)
        new = after["owner"].combine_chunks()
        differs = pc.fill_null(pc.not_equal(old, new), False)  # noqa: FBT003  # Arrow's signature
        lost_or_found = pc.xor(pc.is_null(old), pc.is_null(new))
        moved = np.asarray(pc.or_(differs, lost_or_found)) & _is_in_both(before, after)
        found += [
            ObservedMove(
                seen_at=seen_at,
                bundle=after["bundle"][row].as_py(),
                from_broker=old[row].as_py(),
                to_broker=new[row].as_py(),
            )
            for row in np.flatnonzero(moved).tolist()
        ]
    return found


def _aligned_owners(before: pa.Table, after: pa.Table) -> pa.Array:
    """Owners before, in the row order of ``after``; null where the bundle was not there."""
    owners = before["owner"].combine_chunks()
    if before["bundle"].equals(after["bundle"]):
        return owners
    rows = pc.index_in(after["bundle"].combine_chunks(), before["bundle"].combine_chunks())
    return owners.take(rows)


def _is_in_both(before: pa.Table, after: pa.Table) -> NDArray[np.bool_]:
    if before["bundle"].equals(after["bundle"]):
        return np.ones(after.num_rows, dtype=bool)
    rows = pc.index_in(after["bundle"].combine_chunks(), before["bundle"].combine_chunks())
    return np.asarray(pc.is_valid(rows), dtype=bool)


def moves_frame(moves: Sequence[ObservedMove]) -> pd.DataFrame:
    """Return the moves as a table, newest first, those that returned within it marked."""
    back = returning(moves)
    return pd.DataFrame(
        {
            "seen_at": [move.seen_at for move in moves],
            "bundle": [move.bundle for move in moves],
            "from": [move.from_broker or NO_OWNER for move in moves],
            "to": [move.to_broker or NO_OWNER for move in moves],
            "mark": ["↩ returned" if move in back else "" for move in moves],
        }
    ).iloc[::-1]


def returning(moves: Sequence[ObservedMove]) -> list[ObservedMove]:
    """Return the moves that brought a bundle back to a broker it had left before.

    Args:
        moves: Oldest first.
    """
    rows = returned_rows(
        [move.bundle for move in moves],
        [move.from_broker for move in moves],
        [move.to_broker for move in moves],
    )
    return [moves[row] for row in rows]


def moves_sentence(moves: Sequence[ObservedMove], minutes: float, place: str = "broker") -> str:
    """Return the number of moves and whether the bundle flaps."""
    span = f"in the last {span_words(timedelta(minutes=max(1, round(minutes))))}"
    if minutes <= 0:
        return "Moves require two snapshots; one is saved."
    if not moves:
        return f"No moves {span}."
    back = len(returning(moves))
    tail = f", {back} returned to a previous {place}" if back else ""
    return f"{pluralize(len(moves), 'move')} {span}{tail}."
