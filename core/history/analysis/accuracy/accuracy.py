"""How far what the shadow balancer predicted agrees with what the real leader did, round by round.

A round of the shadow, decided on one snapshot, is compared with the moves that the cluster itself
made from that snapshot up to the shadow's next round. What a Trimtab run did, what a broker that
went left behind and what happened while the cluster's own balancing was off is no decision of the
leader and is not judged.
"""

from __future__ import annotations

import bisect
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from core.units import pluralize

Verdict = Literal[
    "equal",
    "overlapping",
    "other",
    "nothing",
    "only_real",
    "only_predicted",
    "not_judged",
]
"""The same bundles; some of them; none of them; both nothing; one side only; not comparable."""

MOVE_KINDS: Final = ("move", "primary")
"""Kinds of events that a balancer causes: a bundle's move, a partition's new primary."""

_REACH: Final = 2.5
"""A round is answered for so many usual intervals at most: after a gap nothing was predicted."""

_BEFORE: Final = 2
"""So many rounds back count as predicted early."""

OURS: Final = "moved by a Trimtab run"
ORPHANS: Final = "the source broker was down"
UNOWNED: Final = "the bundle was unassigned before"
NOT_PREDICTED: Final = "no prediction at that time"
"""Why moves are excluded, in addition to the reasons why a round is not judged."""

_DOWN: Final = ("broker_down", "node_down")

_NAMES: Final = pa.list_(pa.string())

ROUNDS: Final = pa.schema(
    [
        pa.field("taken_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("until", pa.int64(), nullable=False, metadata={"unit": "ms"}),  # inclusive
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("why", pa.string(), nullable=False),  # not judged: why; else empty
        pa.field("predicted", _NAMES, nullable=False),  # bundles
        pa.field("moved", _NAMES, nullable=False),  # bundles
        pa.field("both", pa.int64(), nullable=False),
        pa.field("early", pa.int64(), nullable=False),  # of moved: predicted a round or two before
        pa.field("brokers_predicted", _NAMES, nullable=False),
        pa.field("brokers_moved", _NAMES, nullable=False),
        pa.field("same_brokers", pa.bool_()),  # null: one of the two did nothing
        pa.field("sentence", pa.string(), nullable=False),  # the shadow's own
    ]
)
"""One row a round of the shadow, oldest first."""

LANDINGS: Final = pa.schema(
    [
        pa.field("taken_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),  # the round
        pa.field("seen_at", pa.int64(), nullable=False, metadata={"unit": "ms"}),
        pa.field("bundle", pa.string(), nullable=False),
        pa.field("broker", pa.string()),
        pa.field("landed", pa.string()),
        pa.field("predicted_destination", pa.string()),
        pa.field("probability", pa.float64(), metadata={"unit": "ratio"}),  # of where it landed
        pa.field("expected", pa.float64(), metadata={"unit": "ratio"}),  # mean of it, if p is right
    ]
)
"""One row a move that was predicted and made: where it landed, how likely that was said to be."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Comparison of predicted and actual moves.

    Attributes:
        strategy: Whose rounds; empty when there are none.
        rounds: Table of :data:`ROUNDS`.
        landings: Table of :data:`LANDINGS`.
        counts: Rounds by verdict.
        moves: Moves of the leader within judged rounds.
        moves_predicted: Those of them that the same round predicted.
        moves_early: Those that one of the two rounds before predicted.
        excluded: Moves that are judged nowhere, by why.
        landing_ratio: Mean probability that was given to where bundles landed; ``None``: no move.
        landing_expected: What that mean should be if the probabilities were exactly right.
    """

    strategy: str
    rounds: pa.Table = field(repr=False)
    landings: pa.Table = field(repr=False)
    counts: Mapping[str, int]
    moves: int
    moves_predicted: int
    moves_early: int
    excluded: Mapping[str, int]
    landing_ratio: float | None
    landing_expected: float | None

    @property
    def moves_by_others(self) -> int:
        """Moves left out, whatever the reason."""
        return sum(self.excluded.values())

    @property
    def judged(self) -> int:
        """Rounds that were judged."""
        return sum(self.counts.values()) - self.counts.get("not_judged", 0)

    @property
    def acting(self) -> int:
        """Judged rounds in which at least one of the two did something."""
        return self.judged - self.counts.get("nothing", 0)

    @property
    def agreed_ratio(self) -> float | None:
        """Share of the judged rounds with the same bundles, or nothing on both sides."""
        same = self.counts.get("equal", 0) + self.counts.get("nothing", 0)
        return same / self.judged if self.judged else None

    @property
    def acting_ratio(self) -> float | None:
        """Share of the acting rounds with exactly the same bundles."""
        return self.counts.get("equal", 0) / self.acting if self.acting else None

    @property
    def sentence(self) -> str:
        """The answer for people."""
        if not self.rounds.num_rows:
            return "No predictions in this period: no round of the shadow balancer is recorded."
        if not self.judged:
            why = Counter(self.rounds["why"].to_pylist()).most_common(1)[0][0]
            return f"No round can be compared: {why}"
        equal, acting = self.counts.get("equal", 0), self.acting
        if not acting:
            rounds = pluralize(self.judged, "round")
            quiet = f"{self.strategy} predicted no moves and none happened in {rounds}"
            return f"{quiet}{self._unjudged()}."
        if not self.moves:
            rounds = pluralize(acting, "round")
            return (
                f"{self.strategy} predicted moves in {rounds}; the leader made none"
                f"{self._unjudged()}."
            )
        return (
            f"In {equal} of {pluralize(acting, 'round')} with moves the leader made exactly the "
            f"moves that {self.strategy} predicted; {self.moves_predicted} of its "
            f"{pluralize(self.moves, 'move')} were predicted by their own round, "
            f"{self.moves_early} by one of the two before{self._unjudged()}."
        )

    def _unjudged(self) -> str:
        """Return the note on rounds that cannot be compared."""
        count = self.counts.get("not_judged", 0)
        if not count:
            return ""
        moved = sum(len(row) for row in self.rounds["moved"].to_pylist()) - self.moves
        with_moves = f" with {pluralize(moved, 'move')}" if moved else ""
        return f"; {pluralize(count, 'round')}{with_moves} cannot be compared"


@dataclass(frozen=True, slots=True)
class _Window:
    """A round of the shadow and the time that it answers for: after ``start`` up to ``end``."""

    start: int
    end: int
    rows: tuple[dict[str, Any], ...]

    @property
    def predicted(self) -> dict[str, dict[str, Any]]:
        return {row["bundle"]: row for row in self.rows if row["bundle"] is not None}


def agreement(
    shadow: pa.Table, events: pa.Table, *, strategy: str | None = None, until: int | None = None
) -> Agreement:
    """Compare the rounds of one strategy with the moves of the real leader.

    Args:
        shadow: Rows of kind ``shadow`` of one cluster (further columns do not matter).
        events: Rows of kind ``events`` of the same cluster and time.
        strategy: Strategy of the rounds; ``None`` for the one configured at their time.
        until: The last recorded minute, ms: a round whose time is not over then is left out.
            ``None`` for the last time in rounds or events.
    """
    windows = _windows(_chosen(shadow, strategy))
    last = _latest(shadow, events) if until is None else until
    windows = [window for window in windows if window.end <= last]
    moves = _moves(events)
    runs = _run_spans(events)
    downs = _downs(events)
    by_window, outside = _sorted_in(moves, windows)
    excluded = Counter({NOT_PREDICTED: outside})
    rounds, landings = [], []
    for index, window in enumerate(windows):
        real, others = _leaders_own(by_window[index], downs, window)
        excluded.update(others)
        why = _not_judged(window, runs)
        if why:
            excluded[why.rstrip(".")] += len(real)
        early = {name for one in windows[max(index - _BEFORE, 0) : index] for name in one.predicted}
        rounds.append(_judged(window, real, early, why))
        if not why:
            landings += _landed(window, real)
    return _summed(strategy or _name(windows), rounds, landings, +excluded)


def _latest(*tables: pa.Table) -> int:
    return max((pc.max(one["taken_at"]).as_py() or 0 for one in tables), default=0)


def _chosen(shadow: pa.Table, strategy: str | None) -> list[dict[str, Any]]:
    if strategy is None:
        chosen = shadow.filter(shadow["is_configured"])
    else:
        chosen = shadow.filter(pc.equal(shadow["strategy"], strategy))
    rows: list[dict[str, Any]] = chosen.sort_by("taken_at").to_pylist()
    return rows


def _windows(rows: Sequence[dict[str, Any]]) -> list[_Window]:
    rounds: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        rounds.setdefault(row["taken_at"], []).append(row)
    starts = list(rounds)
    gaps = [after - before for before, after in pairwise(starts)]
    usual = statistics.median(gaps) if gaps else 60_000.0
    reach = round(usual * _REACH)
    ends = [min(after, start + reach) for start, after in pairwise(starts)]
    if starts:
        ends.append(starts[-1] + round(usual))
    return [
        _Window(start, end, tuple(rounds[start])) for start, end in zip(starts, ends, strict=True)
    ]


def _moves(events: pa.Table) -> list[dict[str, Any]]:
    is_move = pc.is_in(events["kind"], value_set=pa.array(MOVE_KINDS))
    rows: list[dict[str, Any]] = events.filter(is_move).sort_by("taken_at").to_pylist()
    return rows


def _run_spans(events: pa.Table) -> list[tuple[int, int]]:
    """Return from when to when Trimtab's runs acted: the first to the last event of each."""
    spans: dict[str, tuple[int, int]] = {}
    is_ours = pc.is_in(events["kind"], value_set=pa.array(["run", "step"]))
    for row in events.filter(is_ours).select(["taken_at", "run_id"]).to_pylist():
        first, last = spans.get(row["run_id"] or "", (row["taken_at"], row["taken_at"]))
        spans[row["run_id"] or ""] = min(first, row["taken_at"]), max(last, row["taken_at"])
    return sorted(spans.values())


def _downs(events: pa.Table) -> dict[str, list[int]]:
    """Return the times at which brokers or nodes left, by name."""
    found: dict[str, list[int]] = {}
    is_down = pc.is_in(events["kind"], value_set=pa.array(_DOWN))
    for row in events.filter(is_down).select(["taken_at", "subject"]).to_pylist():
        found.setdefault(row["subject"], []).append(row["taken_at"])
    return found


def _sorted_in(
    moves: Iterable[dict[str, Any]], windows: Sequence[_Window]
) -> tuple[list[list[dict[str, Any]]], int]:
    """Return the moves of each window, and how many are in none."""
    found: list[list[dict[str, Any]]] = [[] for _ in windows]
    starts = [window.start for window in windows]
    outside = 0
    for move in moves:
        at = bisect.bisect_left(starts, move["taken_at"]) - 1
        if at >= 0 and move["taken_at"] <= windows[at].end:
            found[at].append(move)
        else:
            outside += 1
    return found, outside


def _leaders_own(
    moves: Sequence[dict[str, Any]], downs: Mapping[str, list[int]], window: _Window
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the moves that a leader decided, and how many others there are, by why."""
    length = window.end - window.start

    def why_not(move: dict[str, Any]) -> str:
        if move["by"] == "trimtab":
            return OURS
        if not move["before"]:
            return UNOWNED
        went = downs.get(move["before"], [])
        is_orphan = any(window.start - length < at <= window.end for at in went)
        return ORPHANS if is_orphan else ""

    reasons = [why_not(move) for move in moves]
    own = [move for move, why in zip(moves, reasons, strict=True) if not why]
    return own, Counter(why for why in reasons if why)


def _not_judged(window: _Window, runs: Sequence[tuple[int, int]]) -> str:
    first = window.rows[0]
    if first["label"] == "failure":
        return f"the shadow balancer could not decide: {first['sentence']}"
    if not first["is_switched_on"]:
        return "load shedding was off at the time of the prediction."
    if any(start <= window.end and end > window.start for start, end in runs):
        return "a Trimtab run was active."
    return ""


def _judged(
    window: _Window, real: Sequence[dict[str, Any]], early: set[str], why: str
) -> dict[str, Any]:
    predicted = window.predicted
    moved = dict.fromkeys(move["subject"] for move in real)
    both = [name for name in moved if name in predicted]
    said = dict.fromkeys(row["broker"] for row in predicted.values())
    shed = dict.fromkeys(move["before"] for move in real)
    return {
        "taken_at": window.start,
        "until": window.end,
        "strategy": window.rows[0]["strategy"],
        "verdict": "not_judged" if why else _verdict(set(predicted), set(moved)),
        "why": why,
        "predicted": list(predicted),
        "moved": list(moved),
        "both": len(both),
        "early": sum(name in early and name not in predicted for name in moved),
        "brokers_predicted": list(said),
        "brokers_moved": list(shed),
        "same_brokers": set(said) == set(shed) if said and shed else None,
        "sentence": window.rows[0]["sentence"],
    }


def _verdict(predicted: set[str], moved: set[str]) -> Verdict:
    if not predicted and not moved:
        return "nothing"
    if not predicted or not moved:
        return "only_real" if moved else "only_predicted"
    if predicted == moved:
        return "equal"
    return "overlapping" if predicted & moved else "other"


def _landed(window: _Window, real: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for move in real:
        row = window.predicted.get(move["subject"])
        if row is None or not move["after"]:
            continue
        likely = _distribution(row)
        found.append(
            {
                "taken_at": window.start,
                "seen_at": move["taken_at"],
                "bundle": move["subject"],
                "broker": move["before"],
                "landed": move["after"],
                "predicted_destination": row["destination"],
                "probability": likely.get(move["after"], 0.0) if likely else None,
                "expected": _expected(likely, move["before"]) if likely else None,
            }
        )
    return found


def _distribution(row: Mapping[str, Any]) -> dict[str, float]:
    if row.get("distribution"):
        distribution: dict[str, float] = json.loads(row["distribution"])
        return distribution
    return {} if row["destination"] is None else {row["destination"]: row["probability"]}


def _expected(likely: Mapping[str, float], owner: str | None) -> float:
    """Return the mean probability of where it lands, given that it does move."""
    away = {broker: p for broker, p in likely.items() if broker != owner}
    total = sum(away.values())
    return sum(p * p for p in away.values()) / total if total else 0.0


def _name(windows: Sequence[_Window]) -> str:
    return str(windows[-1].rows[0]["strategy"]) if windows else ""


def _summed(
    strategy: str,
    rounds: list[dict[str, Any]],
    landings: list[dict[str, Any]],
    excluded: Mapping[str, int],
) -> Agreement:
    judged = [one for one in rounds if not one["why"]]
    known = [one for one in landings if one["probability"] is not None]
    return Agreement(
        strategy=strategy,
        rounds=pa.Table.from_pylist(rounds, schema=ROUNDS),
        landings=pa.Table.from_pylist(landings, schema=LANDINGS),
        counts=Counter(one["verdict"] for one in rounds),
        moves=sum(len(one["moved"]) for one in judged),
        moves_predicted=sum(one["both"] for one in judged),
        moves_early=sum(one["early"] for one in judged),
        excluded=excluded,
        landing_ratio=statistics.fmean(one["probability"] for one in known) if known else None,
        landing_expected=statistics.fmean(one["expected"] for one in known) if known else None,
    )
