"""Numbers and texts of the History page: figures, timeline, compared minutes, predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.analysis.accuracy.accuracy import Agreement
from core.history.queries.query import Evenness, Grid, event_step_of
from core.history.queries.sql import Period
from core.history.store.events import events_between
from core.history.store.store import KINDS
from core.units import format_ratio, listed, ms_to_datetime, pluralize
from dashboard.app_pages.history.charts import Lane, MovesByTime, Timeline
from dashboard.app_pages.history.events import what_words
from dashboard.charts.scale import scale_of
from dashboard.presenters.figures import KeyFigure
from dashboard.presenters.load import LONG_TERM
from dashboard.presenters.moments import RANGES, span_words, stamp

if TYPE_CHECKING:
    from core.snapshot.store import CachedSnapshot
    from dashboard.app_pages.history.system import HistoryMeasure, HistorySystem

# -- headline and timeline -------------------------------------------------------------------------

Floats = NDArray[np.float64]

FREE: Final = "dates"

EVENTS, MINUTE, SERIES, PREDICTIONS = "Events", "Minute", "Series", "Predictions"
"""Tabs below the timeline, each for one job."""
TABS: Final = (EVENTS, MINUTE, SERIES, LONG_TERM, PREDICTIONS)
EVENT_LISTS: Final[Mapping[str, str]] = {"events": "Events", "moves": "Moves", "alerts": "Alerts"}
MINUTE_LISTS: Final[Mapping[str, str]] = {"load": "Load", "changes": "Changes"}
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
        preset: Key of :data:`RANGES`, or :data:`FREE`.
        oldest: The first recorded minute: presets do not begin before it.
        newest: Where presets end.
        free: Ends of a free period; ``None``: as a day before ``newest``, and ``newest``.
    """
    if preset in RANGES:
        return Period(min(newest, max(oldest, newest - RANGES[preset])), newest)
    start, end = free
    end = end or newest
    start = start or end - RANGES["24 h"]
    return Period(min(start, end), max(start, end))


# -- the sentence ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EventCounts:
    """Numbers of events in a period, by kind and by whether Trimtab caused them.

    Attributes:
        counts: Events; moves without the orphans and without what had no owner before: a move is
            counted where it left.
        orphans: Moves off a server that was gone at that very minute: no decision led to them.
    """

    counts: Mapping[tuple[str, bool], int]
    orphans: int = 0

    @classmethod
    def of(cls, counts: pa.Table) -> EventCounts:
        """Sum up the counts of a timeline."""
        held: dict[tuple[str, bool], int] = {}
        orphans = 0
        for row in counts.to_pylist():
            key = (row["kind"], row["by"] == "trimtab")
            outside = int(row["orphans"] or 0) + int(row["arrivals"] or 0)
            held[key] = held.get(key, 0) + int(row["count"]) - outside
            orphans += int(row["orphans"] or 0)
        return cls(held, orphans)

    def number(self, *kinds: str) -> int:
        """Return the number of events of these kinds."""
        return sum(count for (kind, _), count in self.counts.items() if kind in kinds)

    def ours(self, *kinds: str) -> int:
        """Return the number of those caused by Trimtab."""
        return sum(count for (kind, mine), count in self.counts.items() if kind in kinds and mine)


def key_figures(
    system: HistorySystem,
    counts: EventCounts,
    evenness: Evenness,
    recorded: timedelta,
    target_ratio: float,
) -> list[KeyFigure]:
    """Return the figures of a period: events and balance.

    Args:
        system: Of the cluster.
        counts: What happened.
        evenness: How even the load was.
        recorded: From the first to the last snapshot of the period.
        target_ratio: Of the cluster.
    """
    moves = counts.number(system.move_kind) + counts.orphans
    others = [
        KeyFigure(label=label, value=f"{counts.number(*kinds):,}")
        for kinds, label in _OTHER_EVENTS
        if counts.number(*kinds)
    ]
    return [
        KeyFigure(
            label="Recorded",
            value=span_words(recorded),
            note=pluralize(evenness.at_ms.size, "snapshot"),
            help="First to last snapshot of the range.",
        ),
        *system.even_figures(evenness, recorded, target_ratio),
        KeyFigure(
            label=f"{system.move.capitalize()}s",
            value=f"{moves:,}",
            note=_moves_note(system, counts, moves, recorded),
        ),
        *others[:_MAX_OTHERS],
    ]


_MAX_OTHERS: Final = 4
_OTHER_EVENTS: Final = (
    (("broker_down", "node_down"), "Servers lost"),
    (("setting", "policy"), "Settings changed"),
    (("split", "merge"), "Splits and merges"),
    (("leader",), "Leader changes"),
    (("level",), "Level changes"),
)
"""Kinds of events, and what the key figure of their number is called."""


def _moves_note(system: HistorySystem, counts: EventCounts, moves: int, recorded: timedelta) -> str:
    """Return the moves by who made them, which add up; the rate where all have the same maker."""
    hours = recorded.total_seconds() / 3600
    ours = counts.ours(system.move_kind)
    makers = {
        "by Trimtab": ours,
        "by the cluster": moves - ours - counts.orphans,
        "after server failures": counts.orphans,
    }
    parts = [f"{count:,} {maker}" for maker, count in makers.items() if count]
    if len(parts) > 1:
        return ", ".join(parts)
    rate = [f"{moves / hours:.1f} per hour"] if moves and hours >= 0.5 else []
    return ", ".join([*rate, *(maker for maker, count in makers.items() if count)])


# -- the timeline ----------------------------------------------------------------------------------


def timeline(
    grid: Grid,
    evenness: Evenness,
    measure: HistoryMeasure,
    system: HistorySystem,
    *,
    lanes: Sequence[Lane],
    period: Period,
    target_ratio: float,
) -> Timeline:
    """Return the data of the timeline: the servers that were hottest on average, and all events."""
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
        even_unit=system.even_unit,
        even_label=system.even_label,
        bound=system.bound(target_ratio),
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


def _thinned(evenness: Evenness, system: HistorySystem) -> tuple[NDArray[np.int64], Floats]:
    """Return evenness by time, the worst of each of at most so many equal parts."""
    values = system.evenness(evenness)
    size = values.size
    if size <= _EVEN_POINTS:
        return evenness.at_ms, values
    edges = np.linspace(0, size, _EVEN_POINTS + 1).astype(np.int64)[:-1]
    worst = np.maximum.reduceat(np.nan_to_num(values, nan=-np.inf), edges)
    return evenness.at_ms[edges], np.where(np.isfinite(worst), worst, np.nan)


def subtitle(grid: Grid, period: Period, system: HistorySystem) -> str:
    """Return the period, the resolution, and the number of drawn servers of a large fleet."""
    shown = min(len(grid.subjects), MAX_ROWS)
    step = (
        span_words(timedelta(milliseconds=grid.step_ms))
        if grid.step_ms >= 60_000
        else f"{grid.step_ms // 1000} s"
    )
    parts = [f"{stamp(period.start)[:-3]} to {stamp(period.end)[:-3]} UTC"]
    if grid.step_ms:
        parts.append(f"mean per {step}")
    if shown < len(grid.subjects):
        parts.append(f"{shown} hottest of {len(grid.subjects):,} {system.server}s")
    return " · ".join(parts)


# -- one minute ------------------------------------------------------------------------------------


def then_and_now(
    then: pa.Table,
    now: pa.Table,
    system: HistorySystem,
    measure: HistoryMeasure,
    *,
    is_later: bool = True,
) -> pd.DataFrame:
    """Return each server's measure at two minutes, the highest load first.

    Args:
        then: As ``HistoryQueries.servers_at`` returns it.
        now: The same of the minute to compare with.
        system: Of the cluster.
        is_later: Whether ``now`` is the later of the two minutes.
    Returns:
        ``subject``, ``then``, ``now``, ``difference`` from the earlier minute to the later one, in
        the measure's shown unit, and every other measure as it was then.
    """
    frames = []
    for table, name in ((then, "then"), (now, "now")):
        frame = table.to_pandas().set_index("subject")
        frames.append(
            (frame[measure.key].astype(float) * scale_of(measure.unit).factor).rename(name)
        )
    joined = pd.concat(frames, axis=1)
    joined["difference"] = (joined["now"] - joined["then"]) * (1.0 if is_later else -1.0)
    others = then.to_pandas().set_index("subject")
    for one in system.measures:
        joined[one.key] = others[one.key].astype(float) * scale_of(one.unit).factor
    joined = joined.rename_axis("subject").reset_index()
    ranked: pd.DataFrame = joined.sort_values(
        "then", ascending=False, na_position="last", ignore_index=True
    )
    return ranked


# -- two minutes compared --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MinuteComparison:
    """Differences between two minutes.

    Attributes:
        rows: One a difference: ``what``, ``subject``, ``before``, ``after``, and for what moved
            its load at the later minute (``throughput`` MB/s, ``msg_rate``, ``clients``).
        sentence: All of it in one.
    """

    rows: pd.DataFrame
    sentence: str


def compare(
    system: HistorySystem, first: CachedSnapshot, second: CachedSnapshot
) -> MinuteComparison:
    """Compare two snapshots of one cluster, the earlier one first.

    Args:
        system: Of the cluster.
        first: The earlier one.
        second: The later one.
    Raises:
        SnapshotError: One of them is damaged, or was dropped meanwhile.
    """
    before, after, even = system.read_pair(first, second)
    found = events_between(KINDS.system(after.manifest.kind), before, after).to_pandas()
    rows = pd.DataFrame(
        {
            "kind": found["kind"],
            "what": [
                what_words(kind, details or "")
                for kind, details in zip(found["kind"], found["details"], strict=True)
            ],
            "subject": found["subject"],
            "before": found["before"].fillna(""),
            "after": found["after"].fillna(""),
        }
    )
    rows = system.with_load(rows, after)
    ends = f"From {stamp(before.manifest.taken_at)} to {stamp(after.manifest.taken_at)} UTC"
    return MinuteComparison(rows, f"{ends}: {_what_changed(rows, system)}; {even}.")


def _what_changed(rows: pd.DataFrame, system: HistorySystem) -> str:
    kinds = Counter(rows["kind"])
    others = Counter(rows.loc[rows["kind"] != system.move_kind, "what"])
    if not kinds:
        return "no changes"
    parts = [system.describe_moves(rows)] if kinds[system.move_kind] else []
    parts += [f"{what}: {number:,}" for what, number in others.items()]
    return ", ".join(parts)


# -- movers and flaps ------------------------------------------------------------------------------

_WHO: Final = {"cluster": "the cluster", "trimtab": "Trimtab"}
_UNKNOWN: Final = "unknown"
_HOUR_MS: Final = 3_600_000
_MAX_BARS: Final = 400


def by_time(moves: pa.Table, period: Period) -> MovesByTime:
    """Return the number of moves per interval: an hour where that is fine enough.

    Args:
        moves: Events of moves: ``taken_at``, ``before`` and ``by``. Each counts where it left:
            what had no owner before is the second half of one, or a first owner.
        period: All of it is drawn.
    """
    left = pc.fill_null(pc.not_equal(moves["before"].cast(pa.string()), ""), fill_value=False)
    moves = moves.filter(left)
    span = period.last_ms - period.first_ms
    is_hours = 6 * _HOUR_MS <= span <= _MAX_BARS * _HOUR_MS
    step = _HOUR_MS if is_hours else event_step_of(period)
    first, last = period.first_ms // step, period.last_ms // step
    at = np.asarray(moves["taken_at"].to_numpy(), np.int64) // step - first
    who = np.array([_WHO.get(by or "", _UNKNOWN) for by in moves["by"].to_pylist()])
    size = int(last - first) + 1
    counts = {
        name: np.bincount(at[who == name], minlength=size).tolist()
        for name in (*_WHO.values(), _UNKNOWN)
        if (who == name).any()
    }
    times = [ms_to_datetime(int((first + row) * step)) for row in range(size)]
    return MovesByTime(times, counts, _each(step), period.start, period.end)


def _each(step_ms: int) -> str:
    for size, name in ((86_400_000, "day"), (_HOUR_MS, "hour"), (60_000, "minute")):
        if step_ms >= size:
            number = step_ms // size
            single = "an hour" if name == "hour" else f"a {name}"
            return single if number == 1 else f"{number} {name}s"
    return f"{step_ms // 1000} s"


def movers_frame(movers: pa.Table) -> pd.DataFrame:
    """Return the subjects with the most moves, one row each."""
    frame = movers.to_pandas()
    return pd.DataFrame(
        {
            "subject": frame["subject"],
            "moves": frame["moves"],
            "by_trimtab": frame["by_trimtab"],
            "returns": frame["returns"],
            "shortest_stay_min": frame["shortest_stay_ms"].astype(float) / 60_000,
            "last_at": pd.to_datetime(frame["last_ms"], unit="ms", utc=True),
        }
    )


def flaps_frame(flaps: pa.Table) -> pd.DataFrame:
    """Return the moves that were taken back as rows, the newest first."""
    rows = [
        {
            "subject": row["subject"],
            "home": row["home"],
            "away": row["away"],
            "away_min": row["dwell_ms"] / 60_000,
            "returned_at": ms_to_datetime(row["returned_at"]),
            "by": " / ".join(_WHO.get(row[name], _UNKNOWN) for name in ("left_by", "returned_by")),
        }
        for row in flaps.sort_by([("returned_at", "descending")]).to_pylist()
    ]
    return pd.DataFrame(rows, columns=["subject", "home", "away", "away_min", "returned_at", "by"])


def minute_words(minute_s: float) -> str:
    """Return the length of a minute of a cluster with compressed time, else an empty string."""
    return "" if minute_s == 60.0 else f"One minute of this cluster lasts {minute_s:g} s. "


_BLURRED: Final = "? other moves"


def rounds_frame(rounds: pa.Table) -> pd.DataFrame:
    """Return the minutes with moves as rows, the newest first."""
    helped = {True: "● yes", False: "▲ no", None: "? unknown"}
    rows = [
        {
            "at": stamp(ms_to_datetime(row["taken_at"])),
            "by": _WHO.get(row["by"], _UNKNOWN),
            "moves": row["moves"],
            "flaps": row["flaps"],
            "before": _percent(row["deviation_before"]),
            "after": _percent(row["deviation_after"]),
            "helped": _BLURRED if row["other_moves"] else helped[row["helped"]],
            "others": row["other_moves"],
        }
        for row in rounds.sort_by([("taken_at", "descending")]).to_pylist()
    ]
    names = ["at", "by", "moves", "flaps", "before", "after", "helped", "others"]
    return pd.DataFrame(rows, columns=names)


def _percent(ratio: float | None) -> float:
    return float("nan") if ratio is None else ratio * 100


# -- agreement -------------------------------------------------------------------------------------

CONFIGURED: Final = "configured strategy"
VERDICT_WORDS: Final = {
    "equal": "● same bundles",
    "overlapping": "◐ some bundles",
    "other": "○ different bundles",
    "nothing": "● no moves",
    "only_real": "▲ actual only",
    "only_predicted": "▼ predicted only",
    "not_judged": "? not evaluated",
}
_MAX_NAMES: Final = 2


def configured_words(names: Sequence[str]) -> str:
    """Return the choice of the configured strategy with its name, or names where it changed."""
    return f"{CONFIGURED} ({', '.join(sorted(names))})" if names else CONFIGURED


def notes(agreement: Agreement, system: HistorySystem) -> list[str]:
    """Return the figures next to the sentence."""
    lines = []
    if agreement.judged:
        lines.append(
            f"{agreement.judged:,} rounds evaluated: {format_ratio(agreement.agreed_ratio)} agree "
            "(including rounds without moves); rounds with moves: "
            f"{format_ratio(agreement.acting_ratio)}."
        )
    if agreement.moves:
        lines.append(f"Actual moves include {system.by_hand} and exclude moves by Trimtab.")
    if agreement.landing_ratio is not None and agreement.landing_expected is not None:
        lines.append(
            f"Mean predicted probability of the actual destination: "
            f"{format_ratio(agreement.landing_ratio)} (exact prediction: "
            f"{format_ratio(agreement.landing_expected)})."
        )
    if agreement.moves_by_others:
        reasons = "; ".join(f"{count:,}: {why}" for why, count in agreement.excluded.items())
        lines.append(f"{pluralize(agreement.moves_by_others, 'move')} excluded ({reasons}).")
    return lines


def agreement_frame(agreement: Agreement) -> pd.DataFrame:
    """Return the rounds as rows, the newest first."""
    rows = [
        {
            "at": ms_to_datetime(row["taken_at"]),
            "verdict": VERDICT_WORDS.get(row["verdict"], row["verdict"]),
            "acting": bool(row["predicted"] or row["moved"]),
            "predicted_count": len(row["predicted"]),
            "moved_count": len(row["moved"]),
            "predicted": listed(row["predicted"], _MAX_NAMES),
            "moved": listed(row["moved"], _MAX_NAMES),
            "both": row["both"],
            "early": row["early"],
            "brokers": {None: "", True: "same", False: "different"}[row["same_brokers"]],
            "why": row["why"],
            "sentence": row["sentence"],
        }
        for row in reversed(agreement.rounds.to_pylist())
    ]
    names = ("at", "verdict", "acting", "predicted_count", "moved_count", "predicted", "moved")
    return pd.DataFrame(rows, columns=[*names, "both", "early", "brokers", "why", "sentence"])
