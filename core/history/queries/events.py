"""What the pages ask the history about what happened: events, movers, bundles that come back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from core.history.queries.sql import HistoryReader, Period

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

EVENT_COLUMNS: Final = (
    *("taken_at", "kind", "subject", "before", "after"),
    *("by", "run_id", "actor", "reason", "details"),
)
MOVES: Final = ("move", "primary")
"""Kinds of events by which a bundle or a partition changes hands."""

JOURNAL_KINDS: Final = ("run", "step")
"""Events that are read from the journal, with the exact time in their details."""

_EVENTS: Final = "events"
_LISTED: Final = ", ".join(f'"{name}"' for name in EVENT_COLUMNS)
_COUNTS: Final = (
    *("at", "kind", "by", "count", "first_at", "subject", "before", "after"),
    *("orphans", "arrivals"),
)
_MOVERS: Final = ("subject", "moves", "by_trimtab", "returns", "shortest_stay_ms", "last_ms")


def moment_of(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return the time of an event, ms, and its place among the events of the same time.

    An event of a run has the time and the place of its journal entry; others have the time of the
    snapshot that shows them, and place 0.

    Args:
        event: Row of :data:`EVENT_COLUMNS`.
    """
    taken_at = int(event["taken_at"])
    if event["kind"] not in JOURNAL_KINDS:
        return taken_at, 0
    try:
        details = json.loads(event["details"] or "{}")
        return int(details.get("at", taken_at)), int(details.get("seq", 0))
    except (AttributeError, TypeError, ValueError):  # of a release before
        return taken_at, 0


class EventQueries:
    """The questions of the pages about the events of one cluster.

    Args:
        cluster: Whose.
        reader: Runs the queries; by default each again.
    """

    def __init__(
        self, store: HistoryStore, cluster: str, reader: HistoryReader | None = None
    ) -> None:
        self._reader = reader or HistoryReader(store, cluster)

    def events(
        self,
        period: Period,
        *,
        kinds: Sequence[str] = (),
        subject: str = "",
        server: str = "",
        limit: int = 2_000,
    ) -> pa.Table:
        """Return the events of a period, the newest first.

        Args:
            period: When.
            kinds: Only these; empty: all.
            subject: Only of these: a part of the name; empty: all.
            server: Only from or to this one; empty: all.
            limit: At most so many rows.
        Returns:
            Table with :data:`EVENT_COLUMNS`.
        """
        table = self._reader.ask(
            f"SELECT {_LISTED} FROM rows "  # noqa: S608  # our own names
            "WHERE (len($kinds) = 0 OR list_contains($kinds, kind)) "
            "AND ($subject = '' OR contains(subject, $subject)) "
            "AND ($server = '' OR $server IN (before, after)) "
            "ORDER BY taken_at DESC, kind, subject LIMIT $limit",
            _EVENTS,
            period,
            kinds=list(kinds),
            subject=subject,
            server=server,
            limit=limit,
        )
        if table is None:
            return pa.table({name: pa.array([], pa.string()) for name in EVENT_COLUMNS})
        return table

    def counts(self, period: Period, *, step_ms: int) -> pa.Table:
        """Return event counts by kind and actor per interval.

        Returns:
            ``at`` (ms), ``kind``, ``by``, ``count``, and of the first of them ``first_at``,
            ``subject``, ``before`` and ``after``; ``orphans``: of moves, how many were off a
            server that was gone at that very minute; ``arrivals``: how many were unassigned,
            the second halves of moves and first owners; by time.
        """
        table = self._reader.ask(
            'SELECT taken_at // $step * $step AS at, kind, coalesce("by", \'\') AS "by", '
            "count(*) AS count, min(taken_at) AS first_at, arg_min(subject, taken_at) AS subject, "
            "arg_min(before, taken_at) AS before, arg_min(after, taken_at) AS after, "
            "count(gone_at) AS orphans, "
            "count(*) FILTER (kind IN ('move', 'primary') AND coalesce(before, '') = '') "
            "AS arrivals FROM rows LEFT JOIN ("
            "SELECT DISTINCT taken_at AS gone_at, subject AS gone FROM rows "
            "WHERE kind IN ('broker_down', 'node_down', 'node_restart')) "
            "ON kind IN ('move', 'primary') AND before = gone AND taken_at = gone_at "
            "GROUP BY ALL ORDER BY 1, 2, 3",
            _EVENTS,
            period,
            step=max(1, step_ms),
        )
        return pa.table({name: pa.array([]) for name in _COUNTS}) if table is None else table

    def movers(self, period: Period, *, limit: int = 200) -> pa.Table:
        """Return the most frequent movers.

        A return is a move back to where the one before it came from (A to B to A). One that was
        seen in two halves, off and later on, counts once. Moves off a server that was gone at
        that very minute, and what was unassigned, are excluded.

        Returns:
            ``subject``, ``moves``, ``by_trimtab``, ``returns``, ``shortest_stay_ms`` (between two
            moves; null with one), ``last_ms``; the most returns first, then the most moves.
        """
        table = self._reader.ask(
            "SELECT subject, count(*) AS moves, "
            "count(*) FILTER (\"by\" = 'trimtab') AS by_trimtab, "
            "count(*) FILTER (before = last_after AND landed = last_before) AS returns, "
            "min(taken_at - last_at) AS shortest_stay_ms, max(taken_at) AS last_ms FROM ("
            "SELECT *, lag(before) OVER w AS last_before, lag(landed) OVER w AS last_after, "
            "lag(taken_at) OVER w AS last_at FROM ("
            "SELECT *, CASE WHEN coalesce(after, '') = '' "
            "AND coalesce(lead(before) OVER o, '') = '' "
            "THEN lead(after) OVER o ELSE after END AS landed "
            "FROM rows WHERE kind IN ('move', 'primary') "
            "WINDOW o AS (PARTITION BY subject ORDER BY taken_at)) AS moved "
            "WHERE coalesce(before, '') <> '' "
            "AND NOT EXISTS (FROM rows AS down "
            "WHERE down.kind IN ('broker_down', 'node_down', 'node_restart') "
            "AND down.taken_at = moved.taken_at AND down.subject = moved.before) "
            "WINDOW w AS (PARTITION BY subject ORDER BY taken_at)) "
            "GROUP BY subject ORDER BY returns DESC, moves DESC, subject LIMIT $limit",
            _EVENTS,
            period,
            limit=limit,
        )
        return pa.table({name: pa.array([]) for name in _MOVERS}) if table is None else table

    def neighbours(self, at_ms: int, period: Period) -> tuple[int | None, int | None]:
        """Return the times of the events before and after a moment, ms."""
        table = self._reader.ask(
            "SELECT max(taken_at) FILTER (taken_at < $at) AS before, "
            "min(taken_at) FILTER (taken_at > $at) AS after FROM rows",
            _EVENTS,
            period,
            at=at_ms,
        )
        if table is None or not table.num_rows:
            return None, None
        return table["before"][0].as_py(), table["after"][0].as_py()
