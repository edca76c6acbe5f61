"""Which setting would have kept a recorded period calm: a short list of them, back-tested.

The recorded settings, replayed, are what candidates are compared with: model with model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from core.diagnosis.model import Effect, effect_sentence
from core.errors import OpsError
from core.findings.finding import Fix
from core.history.backtest.advice import WORSE_BY, format_minutes
from core.history.backtest.convergence import convergence
from core.history.backtest.job import Records, stretches_of
from core.history.backtest.model import AGAIN, RECORD, Candidate, Grid, Unit, backtest_units
from core.history.backtest.systems import system_named
from core.progress import Progress
from core.units import format_ratio, pluralize

if TYPE_CHECKING:
    from core.history.backtest.system import AnyBacktest
    from core.history.store.store import HistoryStore
    from core.snapshot.store import Storable

MIN_BUDGET_S: Final = 10.0
_MAX_CELLS: Final = 20_000_000
"""Bundles times minutes that are loaded; of a longer period the end is back-tested."""

_MIN_MINUTES: Final = 5
_MIN_GAIN: Final = 0.05
_EVEN_RATIO: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One candidate over the period.

    Attributes:
        label: Of the candidate.
        moves: Unloads, or moves of the balancer.
        returned: Of these, back to a server that was left before.
        deviation: Max deviation of a server from the mean, p95 of the minutes, share of the mean.
        rows: Its rows of ``RUNS``.
    """

    label: str
    moves: int
    returned: int
    deviation: float
    rows: tuple[dict[str, Any], ...]

    @property
    def figures(self) -> str:
        """Its figures, for a person."""
        moves = pluralize(self.moves, "move")
        return f"{moves}, {self.returned:,} returned, deviation {format_ratio(self.deviation)}"

    def as_json(self) -> dict[str, Any]:
        """Its figures as JSON values."""
        return {
            "candidate": self.label,
            "moves": self.moves,
            "returned": self.returned,
            "deviation": self.deviation,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevention:
    """Back-test of a period.

    Attributes:
        minutes: Of the record, replayed.
        tried: Candidates that were replayed to the end.
        untried: Candidates that the time did not allow.
        recorded: What really happened; ``None`` if nothing could be back-tested.
        replayed: The recorded settings, replayed.
        best: The candidate that prevents most; ``None`` if none is better.
        fix: What puts it in force.
        effect: What it does to the newest minute, simulated to convergence.
        rejected: Candidates better over the period that the newest minute does not bear.
        problem: Why nothing could be back-tested; empty: it was.
    """

    minutes: int = 0
    tried: int = 0
    untried: int = 0
    recorded: Replay | None = None
    replayed: Replay | None = None
    best: Replay | None = None
    fix: Fix = field(default_factory=Fix)
    effect: Effect | None = None
    rejected: tuple[str, ...] = ()
    problem: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result, two short sentences at most."""
        if self.problem:
            return (f"Not back-tested: {self.problem}",)
        rest = f", {self.untried:,} not run for lack of time" if self.untried else ""
        length = format_minutes(self.minutes)
        tried = f"{pluralize(self.tried, 'change')} back-tested over {length}{rest}"
        if self.recorded is None or self.replayed is None:
            return (f"{tried}.",)
        if self.best is None or self.effect is None:
            why = f" ({self.rejected[0]})" if self.rejected else ""
            return (f"{tried}: none is better{why}. Recorded: {self.recorded.figures}.",)
        runs = (
            f"With {self.best.label}: {self.best.figures}; recorded: {self.recorded.figures}; "
            f"recorded settings, replayed: {self.replayed.figures}."
        )
        effect = effect_sentence(self.effect)
        return runs, f"{tried}. On the newest minute {effect[:1].lower()}{effect[1:]}"

    def as_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        runs = {"recorded": self.recorded, "replayed": self.replayed, "best": self.best}
        return {
            "minutes": self.minutes,
            "tried": self.tried,
            "untried": self.untried,
            **{name: run and run.as_json() for name, run in runs.items()},
            "fix": {
                "dynamic": dict(self.fix.wanted),
                "broker_conf": list(self.fix.lines),
                "restart": self.fix.restart,
            },
            "effect": self.effect and self.effect.as_json(),
            "rejected": list(self.rejected),
            "problem": self.problem or None,
        }


class _TimeUpError(Exception):
    """The time for replays is over."""


def prevention(
    store: HistoryStore,
    cluster: str,
    period: tuple[datetime, datetime],
    snapshot: Storable,
    fixes: Sequence[Fix],
    progress: Progress,
    *,
    budget_s: float = MIN_BUDGET_S,
    minute_s: float = 60.0,
) -> Prevention:
    """Back-test what might have kept a period calm.

    Args:
        cluster: Its name there.
        period: First and last recorded minute.
        snapshot: The newest minute.
        fixes: Of the causes: they are tried first.
        progress: Where the number of candidates replayed goes.
        budget_s: Seconds for the replays; the first two are always finished.
        minute_s: Seconds of the record that count as a minute of the cluster.
    """
    system = system_named(snapshot.manifest.kind)
    try:
        candidates = (RECORD, AGAIN, *system.preventing(snapshot, fixes))
        start, end = _limited(snapshot, period, minute_s)
        sources = stretches_of(store, cluster, minute_s=minute_s, start=start)
        grid = Grid(clusters=(cluster,), start=start, seeds=(1,), minute_s=minute_s)
        units = backtest_units(grid, {cluster: (start, end)}, candidates, {cluster: sources})
        records = Records(location=store.location, ends={cluster: end}, system=system.name)
        replays, untried = _replayed(records, units, candidates, progress, budget_s)
    except OpsError as exc:
        return Prevention(problem=f"{exc.message} {exc.hint or ''}".strip())
    if len(replays) < len((RECORD, AGAIN)):
        return Prevention(problem="the recorded settings could not be replayed.")
    recorded, again, *others = replays
    tried = len(others)
    minutes = sum(row["minutes"] for row in recorded.rows)
    found = Prevention(
        minutes=minutes, tried=tried, untried=untried, recorded=recorded, replayed=again
    )
    return _chosen(found, system, snapshot, [one for one in others if _helps(one, again)])


def _limited(
    snapshot: Storable, period: tuple[datetime, datetime], minute_s: float
) -> tuple[datetime, datetime]:
    """Return the part of a period, its end included, that fits into memory."""
    start, end = period
    rows = max(table.num_rows for table in snapshot.tables.values())
    minutes = max(_MAX_CELLS // max(rows, 1), _MIN_MINUTES)
    return max(start, end - timedelta(seconds=minutes * minute_s)), end


def _replayed(
    records: Records,
    units: Sequence[Unit],
    candidates: Sequence[Candidate],
    progress: Progress,
    budget_s: float,
) -> tuple[list[Replay], int]:
    """Replay candidate by candidate until the time is over."""
    ends_at = time.perf_counter() + budget_s
    loaded: dict[int, object] = {}
    found: list[Replay] = []
    untried = 0
    for number, candidate in enumerate(candidates):
        is_free = number < len((RECORD, AGAIN))
        progress.step(number, len(candidates), f"back-testing {candidate.label}")
        mine = [unit for unit in units if unit.candidate_number == number]
        try:
            rows = list(_rows(records, mine, loaded, None if is_free else ends_at))
        except _TimeUpError:
            untried += 1
            continue
        replay = _replay(candidate, rows)
        if replay is not None:
            found.append(replay)
        elif is_free:
            break
    progress.step(len(candidates), len(candidates), "back-tested")
    return found, untried


def _rows(
    records: Records, units: Sequence[Unit], loaded: dict[int, object], ends_at: float | None
) -> list[dict[str, Any]]:
    tick = _deadline(ends_at)
    found = []
    for unit in units:
        tick(0, 0)
        if unit.window.number not in loaded:
            loaded[unit.window.number] = records.load(unit)
        runs = records.simulate(loaded[unit.window.number], unit, tick).runs
        found += runs.to_pylist()
    return found


def _deadline(ends_at: float | None) -> Callable[[int, int], None]:
    def tick(_minute: int, _minutes: int) -> None:
        if ends_at is not None and time.perf_counter() > ends_at:
            raise _TimeUpError

    return tick


def _replay(candidate: Candidate, rows: Sequence[dict[str, Any]]) -> Replay | None:
    """Return the figures over all windows; ``None`` if one could not be simulated."""
    known = [row for row in rows if row["problem"] is None and row["deviation_p95"] is not None]
    if not known or len(known) < len(rows):
        return None
    weights = [row["minutes"] for row in known]
    return Replay(
        label=candidate.label,
        moves=sum(row["unloads"] for row in known),
        returned=sum(row["ping_pongs"] for row in known),
        deviation=float(np.average([row["deviation_p95"] for row in known], weights=weights)),
        rows=tuple(known),
    )


def _helps(one: Replay, again: Replay) -> bool:
    """Whether fewer moves return, or the load is more even, and nothing else is worse."""
    is_no_worse = one.deviation <= max(again.deviation + WORSE_BY, _EVEN_RATIO)
    if again.returned:
        return one.returned < again.returned and is_no_worse
    return not one.returned and one.deviation <= again.deviation - _MIN_GAIN


def _chosen(
    found: Prevention, system: AnyBacktest, snapshot: Storable, better: Sequence[Replay]
) -> Prevention:
    """Return the result with the best candidate that the newest minute bears."""
    recorded = found.recorded
    if recorded is None:
        return found
    rejected: list[str] = []
    is_restless = bool(found.replayed and found.replayed.returned)
    for one in sorted(better, key=lambda run: _order(run, is_restless=is_restless)):
        effect = convergence(system, snapshot, one.rows[-1], recorded.rows[-1])
        if effect is not None and not effect.is_harmful:
            fix = system.fix(one.rows[-1], recorded.rows[-1])
            return replace(found, best=one, effect=effect, fix=fix, rejected=tuple(rejected))
        why = "it cannot be simulated." if effect is None else effect_sentence(effect)
        rejected.append(f"{one.label}: {why}")
    return replace(found, rejected=tuple(rejected))


def _order(run: Replay, *, is_restless: bool) -> tuple[float, ...]:
    if is_restless:
        return (run.returned, run.deviation, run.moves)  # no moves at all leave it uneven
    return (run.deviation, run.moves)
