"""Which candidate is best: one rule, said in words.

A candidate that meets the target comes before one that does not. Of those that meet it the one with
the fewest unloads a day is first, then the one with the smaller deviation. Of those that do not,
the one that misses it least: by the larger of deviation and unloads, each as a multiple of what the
target allows. A candidate that sheds nothing needs no moves, and would come first by that where the
others need many: the others are compared with it, and it is ranked only where it meets the target.
Of equal ones the one with the fewest changes to the recorded settings is first.
Figures are means over windows, weighted by minutes, and then over seeds. A window that nothing was
recorded of counts for no candidate; one that could not be simulated in one of the others is not
ranked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.history.backtest.model import REPLAYED, Target, is_without_shedding
from core.history.backtest.schemas import CANDIDATES, METRICS
from core.history.backtest.wording import Wording
from core.units import format_ratio, pluralize

_MAXIMA: Final = ("deviation_max",)


@dataclass(frozen=True)
class _Bars:
    """Mean over seeds and the range over seeds; ``None`` if unknown."""

    mean: float | None
    low: float | None
    high: float | None


def ranked(runs: pa.Table, target: Target, nouns: Wording) -> pa.Table:
    """Return the candidates, best first, as ``CANDIDATES``; see the head of this module.

    Args:
        runs: Rows of ``RUNS``; with several clusters there is a ranking for each and one for all.
        target: What is good enough.
        nouns: Of the system that the runs are of.
    """
    rows = runs.to_pylist()
    clusters = sorted({row["cluster"] for row in rows})
    found: list[dict[str, Any]] = []
    for cluster in clusters:
        mine = [row for row in rows if row["cluster"] == cluster]
        found += _ranking(mine, target, cluster, nouns)
    if len(clusters) > 1:
        found += _ranking(rows, target, None, nouns)
    return pa.Table.from_pylist(found, schema=CANDIDATES)


def _ranking(
    rows: Sequence[dict[str, Any]], target: Target, cluster: str | None, nouns: Wording
) -> list[dict[str, Any]]:
    there = recorded_windows(rows)
    rows = [row for row in rows if (row["cluster"], row["window"]) in there] or rows
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_number.setdefault(row["candidate_number"], []).append(row)
    found = [_candidate(mine, target, cluster) for _, mine in sorted(by_number.items())]
    changed = {number: _changes(mine, rows) for number, mine in by_number.items()}
    found.sort(
        key=lambda row: (
            _is_idle(row),
            order_of(row, target),
            changed[row["candidate_number"]],
            row["candidate_number"],
        )
    )
    record, again = really(found), the(found, REPLAYED)
    ranks = [
        row
        for row in found
        if not row["is_record"] and row["deviation_p95"] is not None and not _is_idle(row)
    ]
    on_front = _front(ranks)
    for row in found:
        number = row["candidate_number"]
        row["rank"] = next((n for n, one in enumerate(ranks, 1) if one is row), None)
        row["is_pareto"] = number in on_front
        row["sentence"] = _sentence(row, (record, again), target, nouns)
    return found


def _is_idle(row: Mapping[str, Any]) -> bool:
    """Whether a candidate disables shedding and does not meet the target.

    Others shed nothing where the record's own switches are off: they differ in placement.
    """
    return is_without_shedding(row["candidate"]) and not row["meets_target"]


def recorded_windows(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, int]]:
    """Return cluster and window of those rows of ``RUNS`` whose record could be read."""
    return {(row["cluster"], row["window"]) for row in rows if _is_record_read(row)}


def _is_record_read(row: Mapping[str, Any]) -> bool:
    return bool(row["is_record"]) and row["problem"] is None


def the(rows: Iterable[dict[str, Any]], label: str) -> dict[str, Any] | None:
    """Return the candidate of a label."""
    return next((row for row in rows if row["candidate"] == label), None)


def really(rows: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the row of what really happened."""
    return next((row for row in rows if row["is_record"]), None)


def _front(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the numbers of candidates on the front; of equal ones that of the first only.

    What really happened is none of them: a model is compared with models.
    """
    points = [(row["deviation_p95"], row["unloads_per_day"]) for row in rows]
    firsts: dict[tuple[float, float], int] = {}
    for row, point, is_on in zip(rows, points, pareto(points), strict=True):
        if is_on:
            firsts.setdefault(point, row["candidate_number"])
    return set(firsts.values())


def _changes(mine: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> int:
    """Number of changed settings vs. the last window of the record."""
    own = mine[-1]
    record = next((row for row in reversed(rows) if _is_record_read(row)), None)
    if record is None or own["is_record"] or own["candidate"] == REPLAYED:
        return 0
    force: dict[str, Any] = json.loads(record["settings"])
    wished: dict[str, Any] = json.loads(own["settings"])
    named = sum(bool(own[name] != record[name]) for name in ("shedding", "placement"))
    return named + sum(bool(force.get(key) != value) for key, value in wished.items())


def _candidate(
    rows: Sequence[dict[str, Any]], target: Target, cluster: str | None
) -> dict[str, Any]:
    """One candidate over its windows and seeds."""
    simulated = [row for row in rows if row["problem"] is None]
    is_whole = len(simulated) == len(rows)
    last = (simulated or rows)[-1]  # the recorded strategies are those of the last window
    problem = next((row["problem"] for row in rows if row["problem"]), None)
    if problem and simulated:
        counts = f"{len(rows) - len(simulated)} of {pluralize(len(rows), 'run')}"
        problem = f"Not ranked: {counts} could not be simulated. {problem}"
    simulated = simulated if is_whole else []
    seeds = sorted({row["seed"] for row in simulated})
    by_seed = [[row for row in simulated if row["seed"] == seed] for seed in seeds]
    whole = {
        "cluster": cluster,
        "rank": None,
        "settings": "{}" if last["is_record"] else last["settings"],
        "runs": len(rows),
        "seeds": len(seeds),
        "minutes": sum(row["minutes"] for row in by_seed[0]) if by_seed else 0,
        "problem": problem,
        "placed_again": sum(row["placed_again"] or 0 for row in by_seed[0]) if by_seed else None,
    }
    for name in METRICS:
        bars = _over_seeds(name, by_seed)
        whole |= {name: bars.mean, f"{name}_low": bars.low, f"{name}_high": bars.high}
    same = ("candidate_number", "candidate", "is_record", "shedding", "placement")
    whole |= {name: last[name] for name in same}
    whole["meets_target"] = bool(simulated) and _miss(whole, target) <= 1.0
    return whole


def _over_seeds(name: str, by_seed: Iterable[Sequence[dict[str, Any]]]) -> _Bars:
    values = [value for rows in by_seed if (value := _over_windows(name, rows)) is not None]
    if not values:
        return _Bars(None, None, None)
    return _Bars(float(np.mean(values)), min(values), max(values))


def _over_windows(name: str, rows: Sequence[dict[str, Any]]) -> float | None:
    known = [row for row in rows if row[name] is not None and row["minutes"]]
    if not known:
        return None
    values = [float(row[name]) for row in known]
    if name in _MAXIMA:
        return max(values)
    return float(np.average(values, weights=[row["days"] for row in known]))


def _miss(row: Mapping[str, Any], target: Target) -> float:
    """Ratio to the target; at most 1 if it is met."""
    deviation, unloads = row["deviation_p95"], row["unloads_per_day"]
    if deviation is None or unloads is None:
        return float("inf")
    return max(_times(deviation, target.deviation), _times(unloads, target.unloads_per_day))


def _times(value: float, allowed: float) -> float:
    if value <= allowed:
        return value / allowed if allowed else 0.0
    return value / allowed if allowed else float("inf")


def order_of(row: Mapping[str, Any], target: Target) -> tuple[float, ...]:
    """Return the sort key of candidates, best first; see the module docstring."""
    miss = _miss(row, target)
    deviation = float("inf") if row["deviation_p95"] is None else row["deviation_p95"]
    unloads = float("inf") if row["unloads_per_day"] is None else row["unloads_per_day"]
    if miss <= 1.0:
        return (0.0, unloads, deviation)
    return (1.0, miss, unloads, deviation)


def pareto(points: Sequence[tuple[float | None, float | None]]) -> list[bool]:
    """Return the Pareto-optimal points.

    Args:
        points: Two figures each, the smaller the better; unknown ones are never on the front.
    """
    known = [
        (x, y, index) for index, (x, y) in enumerate(points) if x is not None and y is not None
    ]
    found = [False] * len(points)
    lowest = float("inf")
    for _, group in groupby(sorted(known), key=lambda point: point[0]):
        column = list(group)  # of one x the lowest come first
        least = column[0][1]
        if least < lowest:
            for _, y, index in column:
                found[index] = y == least
        lowest = min(lowest, least)
    return found


def _sentence(
    row: Mapping[str, Any],
    references: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
    target: Target,
    nouns: Wording,
) -> str:
    """Describe a candidate's result next to what really happened and its replay."""
    record, again = references
    if row["deviation_p95"] is None:
        nothing = f"No {nouns.server} traffic is recorded in this window."
        return row["problem"] or nothing
    held = (
        f"max {nouns.server} deviation p95 {format_ratio(row['deviation_p95'])}, "
        f"{row['unloads_per_day']:,.1f} {nouns.moves} a day"
    )
    if row["is_record"]:
        return f"Actual: {held}."
    allowed = f"{target.unloads_per_day:,g}"
    goal = f"the target of {format_ratio(target.deviation)}"
    if row["rank"] == 1 and not row["meets_target"]:
        words = (
            f"No candidate meets {goal} deviation and {allowed} {nouns.moves} a day. Closest: "
            f"{row['candidate']} ({_figures(row)})."
        )
    else:
        verdict = "meets" if row["meets_target"] else "misses"
        words = (
            f"{_subject(row['candidate'])} would have had {held}; it {verdict} {goal} and "
            f"{allowed} a day."
        )
    if record is None or record["deviation_p95"] is None:
        return words
    words = f"{words} Actual: {_figures(record)}."
    if again is None or again is row or again["deviation_p95"] is None:
        return words
    return f"{words} Recorded settings, replayed: {_figures(again)}."


def _subject(label: str) -> str:
    """Return a candidate's label as a sentence begins with it."""
    if label == REPLAYED:
        return f"The {label},"
    return label if "=" in label else label[:1].upper() + label[1:]  # a setting keeps its spelling


def _figures(row: Mapping[str, Any]) -> str:
    return f"{format_ratio(row['deviation_p95'])}, {row['unloads_per_day']:,.1f} a day"
