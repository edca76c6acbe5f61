"""What the pages ask the history: load over time, how even it was, what happened.

Every question is one pass of SQL over the columns that it needs; answers are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import SnapshotError
from core.history.queries.sql import MINUTES, HistoryReader, Period
from core.history.store.layout import HistoryError
from core.pulsar.record import BUNDLE_MEASURES
from core.snapshot.record import ServerLoad
from core.units import datetime_to_ms, ms_to_datetime

if TYPE_CHECKING:
    from core.history.store.store import HistoryStore

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

MAX_COLUMNS: Final = 300
"""About so many stretches of time are drawn."""

MAX_MARKS: Final = 90
"""At most so many marks stand in a lane of events."""

_STEPS_S: Final = (
    *(1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 604_800),
)


@dataclass(frozen=True, eq=False)
class MinuteRange:
    """The minutes that were recorded.

    Attributes:
        at_ms: Shape ``(n,)``, ascending.
        snapshot_ids: Of the same length.
    """

    at_ms: Times
    snapshot_ids: Sequence[str]

    def __len__(self) -> int:
        return int(self.at_ms.size)

    @property
    def every_ms(self) -> int:
        """Usual distance of two minutes, 60,000 without two."""
        return int(np.median(np.diff(self.at_ms))) if len(self) > 1 else 60_000

    def row_at(self, moment: datetime) -> int | None:
        """Return the newest minute at or before ``moment``; ``None`` when there is none."""
        row = int(np.searchsorted(self.at_ms, datetime_to_ms(moment), side="right")) - 1
        return row if row >= 0 else None

    def moment(self, row: int) -> datetime:
        """Return the time of a minute."""
        return ms_to_datetime(int(self.at_ms[row]))


@dataclass(frozen=True, eq=False)
class Grid:
    """One measure by server and time.

    Attributes:
        subjects: Names, sorted; length ``n``.
        at_ms: Beginnings of equal stretches of time, ascending; length ``m``.
        step_ms: How long a stretch is; 0: every recorded minute by itself.
        mean: Shape ``(n, m)``, NaN where unknown.
        peak: Shape ``(n, m)``: largest of the stretch.
    """

    subjects: Sequence[str]
    at_ms: Times
    step_ms: int
    mean: Floats
    peak: Floats


@dataclass(frozen=True, eq=False)
class Evenness:
    """Evenness of the load, by minute.

    Attributes:
        at_ms: Shape ``(n,)``, ascending.
        deviation: Shape ``(n,)``: ``(max - mean) / mean``; NaN where nothing is known.
        spread: Shape ``(n,)``: ``max - min`` in the measure's unit.
    """

    at_ms: Times
    deviation: Floats
    spread: Floats

    def share_over(self, bound: float) -> float:
        """Return the share of the known minutes in which the deviation was above a bound."""
        known = self.deviation[np.isfinite(self.deviation)]
        return float((known > bound).mean()) if known.size else float("nan")


_KEYFRAME: Final = timedelta(days=1)
"""So long before a period, at most, the rows that changed last were written."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Time in which a server was drained.

    Attributes:
        server: Its name.
        start_ms: Since when.
        end_ms: When it owned something again, or the end of the period; not included.
    """

    server: str
    start_ms: int
    end_ms: int


class HistoryQueries:
    """The questions of the pages about one cluster.

    Args:
        cluster: Whose.
        system: Name of its system.
        reader: Asks the questions; by default each by itself.
    Raises:
        HistoryError: The system's servers have no recorded load.
    """

    def __init__(
        self, store: HistoryStore, cluster: str, system: str, reader: HistoryReader | None = None
    ) -> None:
        self._reader = reader or HistoryReader(store, cluster)
        self.servers = servers_of(store, system)

    # -- minutes -----------------------------------------------------------------------------------

    def minutes(self, period: Period) -> MinuteRange:
        """Return the recorded minutes of a period."""
        table = self._reader.ask(
            "SELECT taken_at, any_value(snapshot_id) AS snapshot_id FROM rows "
            "GROUP BY taken_at ORDER BY taken_at",
            MINUTES,
            period,
        )
        if table is None:
            return MinuteRange(np.zeros(0, np.int64), ())
        return MinuteRange(_times(table["taken_at"]), table["snapshot_id"].to_pylist())

    # -- load --------------------------------------------------------------------------------------

    def grid(
        self, measure: str, period: Period, *, step_ms: int, weights: Mapping[str, float]
    ) -> Grid:
        """Return one measure of every server over time.

        Args:
            measure: Key of :attr:`core.snapshot.record.ServerLoad.measures`.
            period: When.
            step_ms: Length of a stretch of time; 0: every minute by itself.
            weights: Of the resources, for ``usage``; see ``core.pulsar.load.resource_weights``.
        Raises:
            UnknownNameError: No such measure.
            SnapshotError: The history is damaged.
        """
        value = self.servers.expression(measure, weights)
        table = self._reader.ask(
            f"SELECT taken_at // $step * $step AS at, {self.servers.key} AS subject, "  # noqa: S608  # our own names
            f"avg(x) AS mean, max(x) AS peak FROM "
            f"(SELECT taken_at, {self.servers.key}, {value} AS x "
            f"FROM rows) GROUP BY ALL",
            self.servers.rows,
            period,
            step=max(1, step_ms),
        )
        if table is None:
            none = np.zeros((0, 0))
            return Grid((), np.zeros(0, np.int64), step_ms, none, none)
        return _grid_of(table, step_ms)

    def evenness(self, measure: str, period: Period, *, weights: Mapping[str, float]) -> Evenness:
        """Return the evenness of a measure over the servers without the drained ones, by minute."""
        drains = self.drains(period)
        table = self._reader.ask(
            "SELECT taken_at, CASE WHEN avg(x) > 0 THEN max(x) / avg(x) - 1 "  # noqa: S608  # our own names
            "WHEN avg(x) = 0 THEN 0 END AS deviation, max(x) - min(x) AS spread FROM "
            f"(SELECT taken_at, {self.servers.expression(measure, weights)} AS x FROM rows "
            "WHERE NOT EXISTS (FROM (SELECT unnest($drained) AS drained, "
            "unnest($starts) AS start, unnest($ends) AS stop) "
            f"WHERE drained = {self.servers.key} AND taken_at >= start AND taken_at < stop)) "
            "GROUP BY taken_at ORDER BY taken_at",
            self.servers.rows,
            period,
            drained=[one.server for one in drains],
            starts=[one.start_ms for one in drains],
            ends=[one.end_ms for one in drains],
        )
        if table is None:
            return Evenness(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        return Evenness(
            _times(table["taken_at"]), _floats(table["deviation"]), _floats(table["spread"])
        )

    def drains(self, period: Period) -> tuple[Drain, ...]:
        """Return when servers were drained: of what was recorded in a period and a day before."""
        start = period.start - _KEYFRAME
        try:
            table = self._reader.ask(
                "SELECT server, emptied_at, max(until) AS until FROM ("  # noqa: S608  # our own names
                f"SELECT {self.servers.key} AS server, emptied_at, coalesce(lead(taken_at) "
                f"OVER (PARTITION BY {self.servers.key} ORDER BY taken_at), $open) AS until "
                "FROM rows) WHERE emptied_at IS NOT NULL GROUP BY ALL ORDER BY ALL",
                self.servers.drains,
                Period(start, period.end),
                open=period.last_ms + 1,
            )
        except SnapshotError:
            return ()  # the load is read from the same files, which says why
        rows = [] if table is None else table.to_pylist()
        return tuple(Drain(row["server"], row["emptied_at"], row["until"]) for row in rows)

    def servers_at(self, at_ms: int, *, weights: Mapping[str, float]) -> pa.Table:
        """Return every measure of every server at one recorded minute.

        Returns:
            ``subject`` and a column for each measure, sorted by subject; no rows where the minute
            was not recorded.
        """
        chosen = self.servers.measures
        columns = ", ".join(
            f"({self.servers.expression(name, weights)})::DOUBLE AS {name}" for name in chosen
        )
        moment = ms_to_datetime(at_ms)
        table = self._reader.ask(
            f"SELECT {self.servers.key} AS subject, {columns} FROM rows ORDER BY subject",  # noqa: S608  # our own names
            self.servers.rows,
            Period(moment, moment),
        )
        names = ["subject", *chosen]
        return pa.table({name: pa.array([]) for name in names}) if table is None else table

    def servers_over(self, period: Period, columns: Sequence[str], limit: int) -> pa.Table:
        """Return rows of the servers as they were recorded, at so many minutes at most.

        Args:
            period: When.
            columns: Of the kind's rows, besides the server's name.
            limit: Minutes; of more, the last of each of so many equal parts.
        Returns:
            ``taken_at``, the server's name and ``columns``, by time and name.
        """
        minutes = self.minutes(period).at_ms
        size = minutes.size
        rows = np.unique(np.linspace(0, size - 1, min(size, limit)).round().astype(np.int64))
        named = ", ".join(dict.fromkeys(("taken_at", self.servers.key, *columns)))
        table = self._reader.ask(
            f"SELECT {named} FROM rows WHERE list_contains($minutes, taken_at) "  # noqa: S608  # our own names
            f"ORDER BY taken_at, {self.servers.key}",
            self.servers.rows,
            period,
            minutes=minutes[rows].tolist() if size else [],
        )
        return pa.table({}) if table is None else table

    def server_series(
        self, subject: str, period: Period, *, step_ms: int, weights: Mapping[str, float]
    ) -> pa.Table:
        """Return every measure of one server over time: ``at`` and a column a measure."""
        chosen = self.servers.measures
        columns = ", ".join(
            f"avg({self.servers.expression(name, weights)}) AS {name}" for name in chosen
        )
        table = self._reader.ask(
            f"SELECT taken_at // $step * $step AS at, {columns} FROM rows "  # noqa: S608  # our own names
            f"WHERE {self.servers.key} = $subject GROUP BY 1 ORDER BY 1",
            self.servers.rows,
            period,
            step=max(1, step_ms),
            subject=subject,
        )
        return (
            pa.table({name: pa.array([]) for name in ("at", *chosen)}) if table is None else table
        )

    def bundle_series(
        self,
        bundle: str,
        minutes: MinuteRange,
        period: Period,
        step_ms: int,
        measures: Mapping[str, str] = BUNDLE_MEASURES,
    ) -> pa.Table:
        """Return the load of one bundle over time: ``at`` and a column a measure.

        An idle minute has no row: the sum over a stretch is divided by its minutes.

        Args:
            bundle: Name.
            minutes: The recorded ones of the period.
            period: When.
            step_ms: Length of a stretch of time; 0: every minute by itself.
            measures: SQL over a row of ``bundle_loads`` by name.
        """
        step = max(1, step_ms)
        starts, counts = np.unique(minutes.at_ms // step * step, return_counts=True)
        columns = ", ".join(f"sum({sql}) AS {name}" for name, sql in measures.items())
        table = self._reader.ask(
            f"SELECT taken_at // $step * $step AS at, {columns} FROM rows "  # noqa: S608  # our own names
            "WHERE bundle = $bundle GROUP BY 1 ORDER BY 1",
            "bundle_loads",
            period,
            step=step,
            bundle=bundle,
        )
        sums = {name: np.zeros(starts.size) for name in measures}
        if table is not None and starts.size:
            at = np.searchsorted(starts, _times(table["at"]))
            for name in measures:
                sums[name][at] = np.nan_to_num(_floats(table[name]))
        return pa.table({"at": starts} | {name: sums[name] / counts for name in measures})


def servers_of(store: HistoryStore, system: str) -> ServerLoad:
    """Return the load columns of a system's servers.

    Raises:
        HistoryError: The system is unknown, or its servers have no recorded load.
    """
    servers = store.location.kinds.system(system).servers
    if servers is None:
        raise HistoryError(
            f"The history of {system} clusters has no load by server.",
            hint="See `trimtab history events CLUSTER`.",
        )
    return servers


def step_of(minutes: MinuteRange, limit: int = MAX_COLUMNS) -> int:
    """Return the length in ms of the stretches in which minutes are drawn.

    Stretches are fixed on the clock and hold two minutes at least, so that none is empty because
    the recorder came a second late.

    Returns:
        0 where there are few enough minutes to draw each by itself.
    """
    if len(minutes) <= limit * 6 // 5:
        return 0
    span_ms = int(minutes.at_ms[-1] - minutes.at_ms[0])
    least = max(span_ms / limit, 2 * minutes.every_ms)
    return next((step * 1000 for step in _STEPS_S if step * 1000 >= least), _STEPS_S[-1] * 1000)


def event_step_of(period: Period, limit: int = MAX_MARKS) -> int:
    """Return the length in ms of the stretches in which events are drawn, one mark a stretch."""
    span_ms = period.last_ms - period.first_ms
    return next(
        (step * 1000 for step in _STEPS_S if step * 1000 * limit >= span_ms), _STEPS_S[-1] * 1000
    )


def _grid_of(table: pa.Table, step_ms: int) -> Grid:
    codes = pc.dictionary_encode(table["subject"].combine_chunks())
    names = codes.dictionary.to_pylist()
    order = sorted(range(len(names)), key=lambda row: str(names[row]))
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    rows = place[codes.indices.to_numpy()]
    at = _times(table["at"])
    starts = np.unique(at)
    if step_ms and starts.size:
        starts = np.arange(starts[0], starts[-1] + step_ms, step_ms, dtype=np.int64)
    columns = np.searchsorted(starts, at)
    grids = []
    for name in ("mean", "peak"):
        grid = np.full((len(names), starts.size), np.nan)
        grid[rows, columns] = _floats(table[name])
        grids.append(grid)
    return Grid([str(names[row]) for row in order], starts, step_ms, grids[0], grids[1])


def _times(column: pa.ChunkedArray) -> Times:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.to_numpy(), dtype=np.float64)
