"""What the History page says and draws, from the answers of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from core.health.measures import DEFAULT_TARGET
from core.history.asking import Period
from core.history.query import Evenness, Grid
from core.units import counted, format_age, format_ratio, ms_to_datetime
from dashboard.charts.history_timeline import Lane, Timeline
from dashboard.charts.scale import scale_of
from dashboard.presenters.history_measures import HistoryMeasure, measures_of

Floats = NDArray[np.float64]

PRESETS: Final[Mapping[str, timedelta]] = {
    "1 h": timedelta(hours=1),
    "6 h": timedelta(hours=6),
    "24 h": timedelta(hours=24),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
}
FREE: Final = "dates"
MAX_ROWS: Final = 40
_EVEN_POINTS: Final = 600


def period_of(
    preset: str,
    oldest: datetime,
    newest: datetime,
    free: tuple[datetime | None, datetime | None],
) -> Period:
    """Return the period that the pickers say.

    Args:
        preset: Key of :data:`PRESETS`, or :data:`FREE`.
        oldest: The first recorded minute: presets do not begin before it.
        newest: Where presets end.
        free: Ends of a free period; ``None``: as a day before ``newest``, and ``newest``.
    """
    if preset in PRESETS:
        return Period(min(newest, max(oldest, newest - PRESETS[preset])), newest)
    start, end = free
    end = end or newest
    start = start or end - PRESETS["24 h"]
    return Period(min(start, end), max(start, end))


# -- the sentence ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """How often things happened in a period, by kind and whether they were Trimtab's.

    Attributes:
        counts: Events; moves without the orphans and without what came from nobody: a move is
            counted where it left.
        orphans: Moves off a server that was gone at that very minute: nobody decided them.
    """

    counts: Mapping[tuple[str, bool], int]
    orphans: int = 0

    @classmethod
    def of(cls, counts: pa.Table) -> Told:
        """Sum up the counts of a picture."""
        held: dict[tuple[str, bool], int] = {}
        orphans = 0
        for row in counts.to_pylist():
            key = (row["kind"], row["by"] == "trimtab")
            outside = int(row["orphans"] or 0) + int(row["arrivals"] or 0)
            held[key] = held.get(key, 0) + int(row["count"]) - outside
            orphans += int(row["orphans"] or 0)
        return cls(held, orphans)

    def number(self, *kinds: str) -> int:
        """How many events of these kinds there were."""
        return sum(count for (kind, _), count in self.counts.items() if kind in kinds)

    def ours(self, *kinds: str) -> int:
        """How many of them were Trimtab's."""
        return sum(count for (kind, mine), count in self.counts.items() if kind in kinds and mine)


def answer(cluster: str, system: str, told: Told, evenness: Evenness, recorded: timedelta) -> str:
    """Return the sentence that answers the page's question.

    Args:
        cluster: Whose history.
        system: ``pulsar`` or ``pegasus``.
        told: What happened.
        evenness: How even the load was.
        recorded: From the first to the last recorded minute of the period.
    """
    span = span_words(recorded) if recorded else "the only minute recorded so far"
    return (
        f"In {span}, {cluster} saw {_happened(system, told, recorded)}; {_even(system, evenness)}."
    )


def _happened(system: str, told: Told, recorded: timedelta) -> str:
    kind, noun = ("primary", "primary move") if system == "pegasus" else ("move", "bundle move")
    moves = told.number(kind)
    saw = counted(moves, noun) if moves else f"no {noun}"
    parts = [f"{saw}{_rate(moves, told.ours(kind), recorded)}"]
    if told.orphans:
        parts.append(f"{told.orphans:,} more off servers that were lost")
    for kinds, name in (
        (("split", "merge"), "split or merge"),
        (("leader",), "change of leader"),
        (("level",), "change of level"),
        (("broker_down", "node_down"), "server lost"),
        (("setting", "policy"), "changed setting"),
    ):
        number = told.number(*kinds)
        if number:
            parts.append(_plural(number, name))
    return ", ".join(parts)


_PLURALS: Final = {
    "split or merge": "splits or merges",
    "change of leader": "changes of leader",
    "change of level": "changes of level",
    "server lost": "servers lost",
    "changed setting": "changed settings",
}


def _plural(number: int, name: str) -> str:
    return f"{number:,} {name if number == 1 else _PLURALS[name]}"


def _rate(moves: int, ours: int, recorded: timedelta) -> str:
    hours = recorded.total_seconds() / 3600
    parts = []
    if moves and hours >= 0.5:
        parts.append(f"{moves / hours:.1f} an hour")
    if ours:
        parts.append(f"{ours:,} of them by Trimtab")
    return f" ({', '.join(parts)})" if parts else ""


def _even(system: str, evenness: Evenness) -> str:
    known = evenness.deviation[np.isfinite(evenness.deviation)]
    if not known.size:
        return "how even the load was is unknown"
    if system == "pegasus":
        spread = evenness.spread[np.isfinite(evenness.spread)]
        return (
            f"primaries of two nodes were {np.mean(spread):.1f} apart on average, "
            f"{np.max(spread):.0f} at most"
        )
    bound = DEFAULT_TARGET.bound
    return (
        f"the busiest broker stood {format_ratio(float(known.mean()))} over the mean on average, "
        f"and beyond {format_ratio(bound)} in {format_ratio(evenness.share_over(bound))} of the "
        "minutes"
    )


def span_words(span: timedelta) -> str:
    """Return ``6 h 12 min`` and the like."""
    minutes = round(span.total_seconds() / 60)
    if minutes < 90:
        return f"{minutes} min" if minutes else format_age(span.total_seconds())
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, left = divmod(hours, 24)
    return f"{days} d {left} h" if left else f"{days} d"


# -- the picture -----------------------------------------------------------------------------------


def timeline(
    grid: Grid,
    evenness: Evenness,
    measure: HistoryMeasure,
    system: str,
    *,
    lanes: Sequence[Lane],
    period: Period,
) -> Timeline:
    """Return what the picture shows: the servers that were hottest on average, and all events."""
    order = np.argsort(-_over(grid.mean.T, np.nanmean), kind="stable")[:MAX_ROWS]
    even_at, even = _thinned(evenness, system)
    return Timeline(
        rows=[grid.subjects[row] for row in order.tolist()],
        times=[ms_to_datetime(int(at)) for at in grid.at_ms.tolist()],
        values=grid.mean[order],
        peaks=grid.peak[order],
        mean=_over(grid.mean, np.nanmean),
        low=_over(grid.mean, np.nanmin),
        high=_over(grid.mean, np.nanmax),
        even_times=[ms_to_datetime(int(at)) for at in even_at.tolist()],
        even=even,
        even_unit="count" if system == "pegasus" else "ratio",
        even_label="primaries apart" if system == "pegasus" else "deviation of traffic",
        bound=float("nan") if system == "pegasus" else DEFAULT_TARGET.bound,
        unit=measure.unit,
        label=measure.label,
        lanes=lanes,
        start=period.start,
        end=period.end,
    )


def _over(values: Floats, reduce: object) -> Floats:
    """Reduce each column over its known values; NaN where a column has none."""
    result = np.full(values.shape[1], np.nan)
    known = np.isfinite(values).any(axis=0)
    if known.any():
        result[known] = reduce(values[:, known], axis=0)  # type: ignore[operator]  # a NumPy nan-reduction
    return result


def _thinned(evenness: Evenness, system: str) -> tuple[NDArray[np.int64], Floats]:
    """Return evenness by time, the worst of each of at most so many equal parts."""
    values = evenness.spread if system == "pegasus" else evenness.deviation
    size = values.size
    if size <= _EVEN_POINTS:
        return evenness.at_ms, values
    edges = np.linspace(0, size, _EVEN_POINTS + 1).astype(np.int64)[:-1]
    worst = np.maximum.reduceat(np.nan_to_num(values, nan=-np.inf), edges)
    return evenness.at_ms[edges], np.where(np.isfinite(worst), worst, np.nan)


def picture_note(grid: Grid, system: str) -> str:
    """Return the line that explains the picture."""
    shown = min(len(grid.subjects), MAX_ROWS)
    name = "node" if system == "pegasus" else "broker"
    each = (
        f"each column is the mean of {span_words(timedelta(milliseconds=grid.step_ms))}"
        if grid.step_ms >= 60_000
        else f"each column is the mean of {grid.step_ms // 1000} s"
        if grid.step_ms
        else "each column is a recorded minute"
    )
    part = (
        f" The {shown} hottest of {len(grid.subjects):,} {name}s are drawn."
        if shown < len(grid.subjects)
        else ""
    )
    even = (
        "most minus fewest primaries"
        if system == "pegasus"
        else "how far the busiest broker's traffic stood over the mean"
    )
    return (
        f"From the top: mean and range over all {name}s; {even}; {each}; events.{part} "
        "Click an event to look at its minute."
    )


# -- one minute ------------------------------------------------------------------------------------


def then_and_now(
    then: pa.Table, now: pa.Table, system: str, measure: HistoryMeasure
) -> pd.DataFrame:
    """Return each server's measure at two minutes, the largest difference first.

    Args:
        then: As ``HistoryQueries.servers_at`` returns it.
        now: The same of the minute to compare with.
        system: ``pulsar`` or ``pegasus``.
        measure: Which.
    Returns:
        ``subject``, ``then``, ``now``, ``difference`` in the measure's shown unit, and every
        other measure as it was then.
    """
    frames = []
    for table, name in ((then, "then"), (now, "now")):
        frame = table.to_pandas().set_index("subject")
        frames.append(
            (frame[measure.key].astype(float) * scale_of(measure.unit).factor).rename(name)
        )
    joined = pd.concat(frames, axis=1)
    joined["difference"] = joined["now"] - joined["then"]
    others = then.to_pandas().set_index("subject")
    for one in measures_of(system):
        joined[one.key] = others[one.key].astype(float) * scale_of(one.unit).factor
    joined = joined.rename_axis("subject").reset_index()
    ranked: pd.DataFrame = joined.sort_values(
        "then", ascending=False, na_position="last", ignore_index=True
    )
    return ranked
