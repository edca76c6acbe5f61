"""Numbers and texts of the History page: answers, measures, minutes compared, moves, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.errors import UnknownNameError
from core.history.analysis.accuracy.accuracy import Agreement
from core.history.queries.query import Evenness, Grid, event_step_of
from core.history.queries.sql import Period
from core.history.store.events import events_between
from core.history.store.store import KINDS
from core.pegasus.summary import NodeSummary
from core.pulsar.measures import DEFAULT_TARGET, Measures
from core.schemas.pulsar import RATES
from core.snapshot import AnySnapshot
from core.units import format_age, format_bytes_per_s, format_ratio, ms_to_datetime, pluralize
from dashboard.app_pages.history.charts import Lane, MovesByTime, Timeline
from dashboard.app_pages.history.events import what_words
from dashboard.charts.scale import Unit, scale_of
from dashboard.presenters.moments import stamp
from dashboard.presenters.naming import listed

# -- headline and picture --------------------------------------------------------------------------

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
class EventCounts:
    """How often things happened in a period, by kind and whether they were Trimtab's.

    Attributes:
        counts: Events; moves without the orphans and without what had no owner before: a move is
            counted where it left.
        orphans: Moves off a server that was gone at that very minute: no decision led to them.
    """

    counts: Mapping[tuple[str, bool], int]
    orphans: int = 0

    @classmethod
    def of(cls, counts: pa.Table) -> EventCounts:
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


def answer(
    cluster: str, system: str, counts: EventCounts, evenness: Evenness, recorded: timedelta
) -> str:
    """Return the sentence that answers the page's question.

    Args:
        cluster: Whose history.
        system: ``pulsar`` or ``pegasus``.
        counts: What happened.
        evenness: How even the load was.
        recorded: From the first to the last recorded minute of the period.
    """
    span = span_words(recorded) if recorded else "the only minute recorded so far"
    happened = _happened(system, counts, recorded)
    return f"In {span}, {cluster} saw {happened}; {_even(system, evenness)}."


def _happened(system: str, counts: EventCounts, recorded: timedelta) -> str:
    kind, noun = ("primary", "primary move") if system == "pegasus" else ("move", "bundle move")
    moves = counts.number(kind)
    saw = pluralize(moves, noun) if moves else f"no {noun}"
    parts = [f"{saw}{_rate(moves, counts.ours(kind), recorded)}"]
    if counts.orphans:
        parts.append(f"{counts.orphans:,} more off servers that were lost")
    for kinds, name in (
        (("split", "merge"), "split or merge"),
        (("leader",), "change of leader"),
        (("level",), "change of level"),
        (("broker_down", "node_down"), "server lost"),
        (("setting", "policy"), "changed setting"),
    ):
        number = counts.number(*kinds)
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


# -- measures --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryMeasure:
    """One measure of the servers.

    Attributes:
        key: Of :mod:`core.history.queries.query`, and in the address.
        label: For people.
        unit: Of its values.
    """

    key: str
    label: str
    unit: Unit


PULSAR: Final = (
    HistoryMeasure("usage", "Weighted maximum", "ratio"),
    HistoryMeasure("cpu", "CPU", "ratio"),
    HistoryMeasure("bandwidth_in", "NIC in", "ratio"),
    HistoryMeasure("bandwidth_out", "NIC out", "ratio"),
    HistoryMeasure("rate", "Message rate", "msgs/s"),
    HistoryMeasure("throughput", "Throughput", "bytes/s"),
    HistoryMeasure("bundles", "Bundles", "bundles"),
)
PEGASUS: Final = (
    HistoryMeasure("primaries", "Primaries", "count"),
    HistoryMeasure("replicas", "Replicas", "count"),
    HistoryMeasure("requests", "Requests a second", "count"),
    HistoryMeasure("memory", "Memory", "MB"),
)
_OF: Final = {"pulsar": PULSAR, "pegasus": PEGASUS}


def measures_of(system: str) -> tuple[HistoryMeasure, ...]:
    """Return the measures of a system; the first is what its balancer compares."""
    return _OF[system]


def history_measure(system: str, key: str) -> HistoryMeasure:
    """Return a measure by its key.

    Raises:
        UnknownNameError: There is none.
    """
    for one in _OF[system]:
        if one.key == key:
            return one
    raise UnknownNameError.of("measure", key, [one.key for one in _OF[system]])


# -- two minutes compared --------------------------------------------------------------------------

_TOLD_APART: Final = ("move", "primary")


@dataclass(frozen=True, eq=False)
class Compared:
    """What differs between two minutes.

    Attributes:
        rows: One a difference: ``what``, ``subject``, ``before``, ``after``, and for what moved
            its load at the later minute (``throughput`` MB/s, ``msg_rate``, ``clients``).
        sentence: All of it in one.
    """

    rows: pd.DataFrame
    sentence: str


def compare(before: AnySnapshot, after: AnySnapshot, even: str) -> Compared:
    """Compare two snapshots of one cluster, the earlier one first.

    Args:
        before: The earlier one.
        after: The later one.
        even: How evenness changed, in words.
    """
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
    rows = _with_load(rows, after)
    ends = f"From {stamp(before.manifest.taken_at)} to {stamp(after.manifest.taken_at)} UTC"
    return Compared(rows, f"{ends}: {_what_changed(rows)}; {even}.")


def _with_load(rows: pd.DataFrame, after: AnySnapshot) -> pd.DataFrame:
    table = after.tables.get("bundles")
    if table is None:
        return rows
    names = ["bundle", *RATES, "producer_count", "consumer_count"]
    loads = table.select(names).to_pandas().set_index("bundle").astype(float)
    mine = loads.reindex(rows["subject"])
    moved = (rows["kind"] == "move").to_numpy()

    def sums(*columns: str) -> np.ndarray:
        return np.where(moved, mine[list(columns)].sum(axis=1, min_count=1).to_numpy(), np.nan)

    return rows.assign(
        throughput=sums("msg_throughput_in", "msg_throughput_out") / 1e6,
        msg_rate=sums("msg_rate_in", "msg_rate_out"),
        clients=sums("producer_count", "consumer_count"),
    )


def _what_changed(rows: pd.DataFrame) -> str:
    kinds = Counter(rows["kind"])
    others = Counter(rows.loc[~rows["kind"].isin(_TOLD_APART), "what"])
    if not kinds:
        return "nothing moved and nothing was changed"
    parts = []
    if kinds["move"]:
        load = rows.loc[rows["kind"] == "move", ["throughput", "clients"]].sum()
        parts.append(
            f"{pluralize(kinds['move'], 'bundle')} moved "
            f"({format_bytes_per_s(float(load['throughput']) * 1e6)}, "
            f"{pluralize(round(load['clients']), 'client')})"
        )
    if kinds["primary"]:
        parts.append(f"{pluralize(kinds['primary'], 'partition')} with another primary")
    parts += [f"{what}: {number:,}" for what, number in others.items()]
    return ", ".join(parts)


def even_words(before: Measures, after: Measures) -> str:
    """Return how the deviation of a Pulsar cluster's traffic changed."""
    then, now = (one.throughput.max_deviation_ratio for one in (before, after))
    return f"deviation of traffic {format_ratio(then)} then, {format_ratio(now)} after"


def even_words_pegasus(before: list[NodeSummary], after: list[NodeSummary]) -> str:
    """Return how far apart the primaries of nodes were, then and after."""
    then, now = (
        max(counts) - min(counts) if (counts := [one.primaries for one in nodes]) else None
        for nodes in (before, after)
    )
    words = ["unknown" if one is None else str(one) for one in (then, now)]
    return f"most minus fewest primaries {words[0]} then, {words[1]} after"


# -- movers and flaps ------------------------------------------------------------------------------

_WHO: Final = {"cluster": "the cluster", "trimtab": "Trimtab"}
_UNKNOWN: Final = "unknown"
_HOUR_MS: Final = 3_600_000
_MAX_BARS: Final = 400


def by_time(moves: pa.Table, period: Period) -> MovesByTime:
    """Return how many moves there were in each stretch: hours where that is fine enough.

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
    """Return what moved most as rows."""
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
    """Return how long a minute is where the cluster's time is compressed, else nothing."""
    return "" if minute_s == 60.0 else f"A minute of this cluster is {minute_s:g} s. "


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

CONFIGURED: Final = "the configured one"
VERDICT_WORDS: Final = {
    "equal": "● the same bundles",
    "overlapping": "◐ some of the same",
    "other": "○ other bundles",
    "nothing": "● both nothing",
    "only_real": "▲ only the leader moved",
    "only_predicted": "▼ only predicted",
    "not_judged": "? not judged",
}
_MAX_NAMES: Final = 2


def configured_words(names: Sequence[str]) -> str:
    """Return the choice of the configured strategy with its name, or names where it changed."""
    return f"{CONFIGURED} ({', '.join(sorted(names))})" if names else CONFIGURED


def notes(found: Agreement) -> list[str]:
    """Return the figures next to the sentence."""
    lines = []
    if found.judged:
        lines.append(
            f"{found.judged:,} rounds judged: {format_ratio(found.agreed_ratio)} agree, quiet ones "
            f"counted; of those with moves, {format_ratio(found.acting_ratio)} are equal."
        )
    if found.moves:
        lines.append(
            "The leader's are all moves that were not Trimtab's: manual unloads "
            "(pulsar-admin) counts among them."
        )
    if found.landing_ratio is not None and found.landing_expected is not None:
        lines.append(
            f"Where bundles landed had been given {format_ratio(found.landing_ratio)} on average; "
            f"{format_ratio(found.landing_expected)} would be exact."
        )
    if found.moves_by_others:
        reasons = "; ".join(f"{count:,}: {why}" for why, count in found.excluded.items())
        lines.append(f"{pluralize(found.moves_by_others, 'move')} left out ({reasons}).")
    return lines


def agreement_frame(found: Agreement) -> pd.DataFrame:
    """Return the rounds as rows, the newest first."""
    rows = [
        {
            "at": ms_to_datetime(row["taken_at"]),
            "verdict": VERDICT_WORDS.get(row["verdict"], row["verdict"]),
            "acting": bool(row["predicted"] or row["moved"]),
            "predicted": listed(row["predicted"], _MAX_NAMES),
            "moved": listed(row["moved"], _MAX_NAMES),
            "both": row["both"],
            "early": row["early"],
            "brokers": {None: "", True: "same", False: "others"}[row["same_brokers"]],
            "why": row["why"],
            "sentence": row["sentence"],
        }
        for row in reversed(found.rounds.to_pylist())
    ]
    names = ("at", "verdict", "acting", "predicted", "moved", "both", "early", "brokers", "why")
    return pd.DataFrame(rows, columns=[*names, "sentence"])
