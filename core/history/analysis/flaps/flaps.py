"""Flaps: bundles that came back, bundles that moved often, and moves that did not help.

A *flap* is A-B-A, or a longer path back to A: a bundle comes to a broker that it had left. Its
*dwell* is the time away. Whether the moves of a minute *helped* follows from the deviation of the
traffic (max deviation of a broker from the mean, share of it), averaged over some minutes on
either side: ``before`` is the mean of the minutes before the move was seen, ``after`` that of as
many minutes once it is stable. They helped when ``after`` is lower by more than half a point;
they did not when it is not. Nothing is said where the record has a gap on one side, and where other
moves were seen within the minutes that are compared: their effects cannot be separated. Shorter
sides separate more rounds, and are less sure of each. What left a server that was gone at that
very minute was moved by no decision: it is excluded.

A *move* is counted where it left: seen in two halves (off its broker at one minute, on the next one
a minute later) it is one. What was unassigned and came to a broker did not move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.history.analysis.requests import FlapsRequest
from core.history.store.layout import DAY_MS
from core.units import format_age, pluralize

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOVE_KINDS: Final = ("move", "primary")
"""Events that are moves: a bundle's owner, a partition's primary."""

_DOWN: Final = ("broker_down", "node_down")
_RESTART: Final = "node_restart"
_RESTART_MS: Final = 120_000
"""What leaves a server so long before its restart shows leaves it for that."""

HELPED_RATIO: Final = 0.005

EVENT_COLUMNS: Final = ("taken_at", "kind", "subject", "before", "after", "by", "run_id")

FLAPS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # move | primary
        pa.field("subject", pa.string(), nullable=False),
        pa.field("home", pa.string(), nullable=False),
        pa.field("away", pa.string(), nullable=False),
        pa.field("left_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("returned_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("dwell_ms", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("left_by", pa.string(), nullable=False),
        pa.field("returned_by", pa.string(), nullable=False),
    ]
)
"""One row a return, in the order of the returns. ``away``: where it was last; ``*_by``: cluster,
trimtab, or empty where it is unknown."""

MOVERS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("flaps", pa.int64(), nullable=False),
        pa.field("by_cluster", pa.int64(), nullable=False),
        pa.field("by_trimtab", pa.int64(), nullable=False),
        pa.field("by_unknown", pa.int64(), nullable=False),
        pa.field("shortest_dwell_ms", pa.int64(), metadata={"unit": "ms"}),
    ]
)
"""Moves of each bundle (partition) and day, most first; ``shortest_dwell_ms``: of its flaps."""

ROUNDS: Final = pa.schema(
    [
        pa.field("taken_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("by", pa.string(), nullable=False),
        pa.field("moves", pa.int64(), nullable=False),
        pa.field("flaps", pa.int64(), nullable=False),
        pa.field("deviation_before", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("deviation_after", pa.float64(), metadata={"unit": "ratio"}),
        pa.field("helped", pa.bool_()),
        pa.field("other_moves", pa.int64(), nullable=False),
    ]
)
"""One row a minute in which moves were seen, and by whom they were. ``helped``: null where the
record does not show it, or other moves were made meanwhile. ``other_moves``: seen from the first
minute that is compared to the last, those of others in this very minute among them."""

TABLES: Final = {"flaps": FLAPS, "movers": MOVERS, "rounds": ROUNDS}


def flaps_of(
    events: pa.Table, minutes: pa.Table, request: FlapsRequest, minute_s: float = 60.0
) -> dict[str, pa.Table]:
    """Return the rows of :data:`TABLES` of one cluster.

    Args:
        events: Columns :data:`EVENT_COLUMNS`, of any kinds, in any order.
        minutes: ``taken_at`` and ``deviation``, ascending, as
            :func:`core.history.analysis.trends.trends.minutes_of` returns them; other columns do
            not matter.
        request: Which minutes around a move are compared.
        minute_s: Seconds of the record that count as a minute.
    """
    moves = _moves(events)
    back, left = _returns(moves)
    is_back = np.zeros(moves.num_rows, np.bool_)
    is_back[back] = True
    return {
        "flaps": _flaps(moves, back, left),
        "movers": _movers(moves, back, left),
        "rounds": _rounds(moves, is_back, minutes, _Windows.of(request, minute_s)),
    }


def returned_rows(
    subjects: Sequence[str], before: Sequence[str | None], after: Sequence[str | None]
) -> list[int]:
    """Return the positions of the moves that are returns, as :func:`flaps_of` counts them.

    A return counts whoever makes it: the cluster, a person or the undo of a run.

    Args:
        subjects: Bundle or partition of each move, in the order of time.
        before: Server that it left; ``None``: none.
        after: Server that it came to; ``None``: none.
    """
    count = len(subjects)
    numbers = pa.array(range(count), pa.int64())
    same = [pa.repeat(pa.scalar(word), count) for word in (MOVE_KINDS[0], "")]
    columns = [
        numbers,
        same[0],
        pa.array(subjects, pa.string()),
        pa.array(before, pa.string()),
        pa.array(after, pa.string()),
        same[1],
        numbers,
    ]
    moves = _moves(pa.table(columns, names=list(EVENT_COLUMNS)))
    back, _ = _returns(moves)
    rows: list[int] = moves["run_id"].take(pa.array(back)).to_pylist()
    return sorted(rows)


def _moves(events: pa.Table) -> pa.Table:
    """Return moves off a server, oldest first; ``after`` is empty where it had no owner since."""
    is_move = pc.is_in(events["kind"], value_set=pa.array(MOVE_KINDS))
    moves = _whole(events.filter(is_move).select(EVENT_COLUMNS))
    is_other = pc.not_equal(moves["before"], moves["after"])
    moves = moves.filter(pc.and_(_is_known(moves["before"]), is_other))
    moves = _without_orphans(moves, events)
    order = ("taken_at", "kind", "subject", "before", "after", "by")
    return moves.sort_by([(name, "ascending") for name in order]).combine_chunks()


def _whole(moves: pa.Table) -> pa.Table:
    """Return moves without nulls: one that was seen in two halves lands where the second did.

    What came back to the very server that it had left is left as it is: off, and no move since.
    """
    for name in ("before", "after", "by"):
        filled = pc.fill_null(moves[name].cast(pa.string()), "")
        moves = moves.set_column(moves.schema.get_field_index(name), name, filled)
    order = ("kind", "subject", "taken_at")
    moves = moves.sort_by([(name, "ascending") for name in order]).combine_chunks()
    if moves.num_rows < 2:
        return moves
    of = _codes(moves["kind"], moves["subject"])
    left, landed = (moves[name].to_numpy(zero_copy_only=False) for name in ("before", "after"))
    opens = (landed[:-1] == "") & (left[:-1] != "")
    closes = (left[1:] == "") & (left[:-1] != landed[1:])
    landed = landed.copy()
    halves = np.flatnonzero((of[:-1] == of[1:]) & opens & closes)
    landed[halves] = landed[halves + 1]
    place = moves.schema.get_field_index("after")
    return moves.set_column(place, "after", pa.array(landed, pa.string()))


def _without_orphans(moves: pa.Table, events: pa.Table) -> pa.Table:
    """Return the moves without those off a server that was gone, or restarted, at that minute."""
    downs = events.filter(pc.is_in(events["kind"], value_set=pa.array((*_DOWN, _RESTART))))
    if not downs.num_rows:
        return moves
    gone: dict[str, list[tuple[int, int]]] = {}
    for row in downs.select(["taken_at", "kind", "subject"]).to_pylist():
        at = row["taken_at"]
        first = at - _RESTART_MS if row["kind"] == _RESTART else at
        gone.setdefault(row["subject"], []).append((first, at))
    came = zip(moves["taken_at"].to_pylist(), moves["before"].to_pylist(), strict=True)
    kept = [
        not any(first <= at <= last for first, last in gone.get(server, ())) for at, server in came
    ]
    return moves.filter(pa.array(kept, pa.bool_()))


def _is_known(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.not_equal(column, ""), fill_value=False)


def _codes(*columns: pa.ChunkedArray) -> Ints:
    """Return one number a row, the same for rows that agree in all columns."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = column.combine_chunks().dictionary_encode()
        found = found * (len(coded.dictionary) + 1) + np.asarray(coded.indices.to_numpy(), np.int64)
    return found


def _returns(moves: pa.Table) -> tuple[Ints, Ints]:
    """Return the rows that bring a bundle back to where it was, and the rows by which it left.

    For every bundle and broker departures and arrivals are put in order; an arrival whose last
    neighbour is a departure is a return.
    """
    count = moves.num_rows
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    subject = _codes(moves["kind"], moves["subject"])
    names = pa.chunked_array([*moves["before"].chunks, *moves["after"].chunks])
    brokers = _codes(names)
    keys = np.concatenate([subject, subject]) * (int(brokers.max()) + 1) + brokers
    row = np.concatenate([np.arange(count), np.arange(count)])
    is_arrival = np.repeat([False, True], count)
    order = np.lexsort((row, keys))
    same = np.append([False], np.diff(keys[order]) == 0)
    came_before = np.append([False], ~is_arrival[order][:-1])
    hit = np.flatnonzero(same & is_arrival[order] & came_before)
    back, left = row[order[hit]], row[order[hit - 1]]
    in_time = np.argsort(back, kind="stable")
    return back[in_time], left[in_time]


def _times(moves: pa.Table) -> Ints:
    return np.asarray(moves["taken_at"].to_numpy(), np.int64)


def _flaps(moves: pa.Table, back: Ints, left: Ints) -> pa.Table:
    returned, gone = moves.take(pa.array(back)), moves.take(pa.array(left))
    return pa.table(
        [
            returned["kind"],
            returned["subject"],
            returned["after"],
            returned["before"],
            gone["taken_at"],
            returned["taken_at"],
            pa.array(_times(returned) - _times(gone)),
            gone["by"],
            returned["by"],
        ],
        schema=FLAPS,
    )


def _movers(moves: pa.Table, back: Ints, left: Ints) -> pa.Table:
    if not moves.num_rows:
        return MOVERS.empty_table()
    times = _times(moves)
    day = times // DAY_MS
    keys = _codes(moves["kind"], moves["subject"]) * (int(day.max()) + 1) + day
    found, first, place = np.unique(keys, return_index=True, return_inverse=True)
    size = found.size
    by = moves["by"].to_numpy(zero_copy_only=False)
    shortest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(shortest, place[back], times[back] - times[left])

    def counts(mask: Flags) -> Ints:
        return np.bincount(place[mask], minlength=size)

    is_ours, is_its = by == "trimtab", by == "cluster"
    some = moves.take(pa.array(first))
    days = np.datetime_as_string(day[first].astype("datetime64[D]"))
    table = pa.table(
        [
            some["kind"],
            some["subject"],
            pa.array(days.tolist(), pa.string()),
            pa.array(np.bincount(place, minlength=size)),
            pa.array(np.bincount(place[back], minlength=size)),
            pa.array(counts(is_its)),
            pa.array(counts(is_ours)),
            pa.array(counts(~is_ours & ~is_its)),
            pa.array(shortest, mask=shortest == np.iinfo(np.int64).max),
        ],
        schema=MOVERS,
    )
    order = [("moves", "descending"), ("kind", "ascending"), ("subject", "ascending")]
    return table.sort_by([*order, ("day", "ascending")])


@dataclass(frozen=True)
class _Windows:
    """The minutes around a move that are compared, in the record's time."""

    side_minutes: float
    side_ms: int
    settle_ms: int

    @classmethod
    def of(cls, request: FlapsRequest, minute_s: float) -> _Windows:
        minute_ms = minute_s * 1000
        return cls(
            request.side_minutes,
            round(request.side_minutes * minute_ms),
            round(request.settle_minutes * minute_ms),
        )


def _rounds(moves: pa.Table, is_back: Flags, minutes: pa.Table, windows: _Windows) -> pa.Table:
    if not moves.num_rows:
        return ROUNDS.empty_table()
    times = _times(moves)
    keys, first, place = np.unique(
        times * 4 + _by_codes(moves), return_index=True, return_inverse=True
    )
    when = keys // 4
    before, after = _sides(when, minutes, windows)
    count = np.bincount(place, minlength=keys.size)
    side, rest = windows.side_ms, windows.settle_ms
    seen = np.searchsorted(times, when + rest + side, side="right")
    others = seen - np.searchsorted(times, when - side, side="left") - count
    is_known = np.isfinite(before) & np.isfinite(after) & (others == 0)
    return pa.table(
        [
            pa.array(when),
            moves["by"].take(pa.array(first)),
            pa.array(count),
            pa.array(np.bincount(place[is_back], minlength=keys.size)),
            pa.array(before, mask=~np.isfinite(before)),
            pa.array(after, mask=~np.isfinite(after)),
            pa.array(after < before - HELPED_RATIO, mask=~is_known),
            pa.array(others),
        ],
        schema=ROUNDS,
    )


def _by_codes(moves: pa.Table) -> Ints:
    names = pa.array(["", "cluster", "trimtab"])
    codes = pc.fill_null(pc.index_in(moves["by"], value_set=names), 3)
    return np.asarray(codes.to_numpy(), np.int64)


def _sides(when: Ints, minutes: pa.Table, windows: _Windows) -> tuple[Floats, Floats]:
    """Return the mean deviation before and after; NaN unless half of the minutes are there."""
    deviation = np.asarray(minutes["deviation"].to_numpy(), np.float64)
    known = np.isfinite(deviation)
    at = np.asarray(minutes["taken_at"].to_numpy(), np.int64)[known]
    sums = np.append(0.0, np.cumsum(deviation[known]))
    side, rest = windows.side_ms, windows.settle_ms

    def mean(start: Ints, end: Ints) -> Floats:
        """Over start <= time < end."""
        low, high = np.searchsorted(at, start), np.searchsorted(at, end)
        enough = (high - low) >= max(windows.side_minutes / 2, 1)
        total = (sums[high] - sums[low]) / np.maximum(high - low, 1)
        return np.where(enough, total, np.nan)

    return mean(when - side, when), mean(when + rest, when + rest + side)


@dataclass(frozen=True, eq=False)
class FlapAnswer:
    """The answer for all clusters: the three tables, ``cluster`` in front, and in words."""

    flaps: pa.Table
    movers: pa.Table
    rounds: pa.Table
    sentence: str

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables by name."""
        return {name: getattr(self, name) for name in TABLES}


def flap_answer(parts: Iterable[tuple[str, dict[str, pa.Table]]]) -> FlapAnswer:
    """Put the answers of clusters together, by name."""
    cluster = pa.field("cluster", pa.string(), nullable=False)
    whole = {name: [pa.schema([cluster, *one]).empty_table()] for name, one in TABLES.items()}
    for name, tables in sorted(parts, key=lambda part: part[0]):
        for key, rows in whole.items():
            names = pa.repeat(pa.scalar(name), tables[key].num_rows)
            rows.append(tables[key].add_column(0, cluster, names))
    joined = {name: pa.concat_tables(tables) for name, tables in whole.items()}
    return FlapAnswer(**joined, sentence=_sentence(joined))


def _sentence(tables: dict[str, pa.Table]) -> str:
    moves = pc.sum(tables["movers"]["moves"]).as_py() or 0
    if not moves:
        return "Nothing moved."
    flaps = tables["flaps"]
    words = [f"{pluralize(moves, 'move')}, {flaps.num_rows:,} returned"]
    if flaps.num_rows:
        median = float(np.median(flaps["dwell_ms"].to_numpy())) / 1000.0
        words[0] += f" (median time away {format_age(median)})"
    often = tables["movers"].sort_by([("moves", "descending")]).slice(0, 1).to_pylist()[0]
    if often["moves"] > 1:
        words.append(
            f"Most often: {often['subject']} of {often['cluster']}, {often['moves']} times on "
            f"{often['day']}"
        )
    effects = [*_effects(tables["rounds"])]
    if effects:
        words.append(f"Effect: {', '.join(effects)}")
    return ". ".join(words) + "."


def _effects(rounds: pa.Table) -> Iterator[str]:
    """Yield the number of moves by their effect on the deviation."""
    helped, others = rounds["helped"], rounds["other_moves"]
    is_known, is_blurred = pc.is_valid(helped), pc.greater(others, 0)
    is_unmeasured = pc.and_(pc.is_null(helped), pc.equal(others, 0))
    for chosen, label in (
        (pc.equal(helped, True), "improved"),  # noqa: FBT003  # Arrow's signature
        (pc.and_(is_known, pc.invert(helped)), "none"),
        (is_blurred, "unknown (other moves at the same time)"),
        (is_unmeasured, "not measured (no snapshots before or after)"),
    ):
        if count := pc.sum(rounds.filter(chosen)["moves"]).as_py():
            yield f"{count:,} {label}"
