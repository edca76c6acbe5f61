"""A whole back-test: which units a grid makes of a history, their runs, and what they come to.

The units are the same wherever they run; this module runs them in this process,
:mod:`core.spark.jobs.backtest` on many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from core.errors import InputError, SnapshotError, UnknownNameError
from core.files import whole_file
from core.history.backtest.advice import describe_advice
from core.history.backtest.convergence import simulated_candidates
from core.history.backtest.model import Grid, Stretch, Unit, backtest_units, window_key
from core.history.backtest.ranking import ranked
from core.history.backtest.results import UnitResult, together
from core.history.backtest.schemas import MOVES, RUNS, TIMELINE
from core.history.backtest.system import Tick
from core.history.backtest.systems import system_named, system_of, which_fields
from core.history.store.store import HistoryLocation, HistoryStore
from core.progress import Progress
from core.snapshot.record import TAKEN_AT
from core.snapshot.store import Storable
from core.units import datetime_to_ms, ms_to_datetime, pluralize

Ints = NDArray[np.int64]
_JUST_AFTER: Final = timedelta(milliseconds=1)
_TICK_MINUTES: Final = 16

TABLES: Final[Mapping[str, str]] = {
    "candidates": "The candidates, best first, with the actual result.",
    "recommended": "Setting changes for the best candidate of each cluster.",
    "runs": "Every run: one cluster, window, candidate and seed.",
    "timeline": "Every simulated minute: max deviation and moves.",
    "moves": "Every move: bundle or replica, source, destination, time.",
}
"""The result tables, and what each holds."""

_GAP_MINUTES: Final = 2.5
"""So many minutes, or usual distances of two snapshots, without one are a gap."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """Location of the records of a back-test; small, because it is sent to executors.

    Attributes:
        location: Of the history.
        ends: Last minute of each cluster that counts.
        system: Name of the system that they are of.
    """

    location: HistoryLocation
    ends: Mapping[str, datetime]
    system: str

    def load(self, unit: Unit) -> object:
        """Return the record of a unit's window.

        Raises:
            HistoryError: Nothing was recorded then, or it cannot be read.
        """
        store = HistoryStore(self.location)
        window = unit.window
        window = replace(window, end=min(window.end, self.ends[unit.cluster] + _JUST_AFTER))
        return system_named(self.system).load(store, unit.cluster, window, unit.minute_s)

    def latest(self, cluster: str) -> Storable:
        """Return the snapshot of a cluster's last minute that counts.

        Raises:
            HistoryError: It cannot be read.
        """
        return HistoryStore(self.location).snapshot_at(cluster, self.ends[cluster])

    def simulate(self, record: object, unit: Unit, tick: Tick | None = None) -> UnitResult:
        """Simulate one unit on its window's record: the same unit, the same tables."""
        return system_named(self.system).simulate(record, unit, tick)


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """A grid on a history, ready to run.

    Attributes:
        grid: What is tried.
        units: Every run.
        records: Of the clusters up to now; what is recorded later does not count, so that every
            run of a window sees the same.
        minutes: Recorded minutes that each candidate is simulated on, of all windows.
    """

    grid: Grid
    units: tuple[Unit, ...]
    records: Records
    minutes: int

    @classmethod
    def prepared(cls, store: HistoryStore, grid: Grid) -> Backtest:
        """Find out what there is to run.

        Raises:
            UnknownNameError: A cluster that is not recorded, or a name in the grid that is none.
            InputError: No record of the kind that the grid asks about, no minute in its range, or
                too many runs.
        """
        spans = _spans(store, grid)
        system = system_of(grid)
        candidates = system.candidates(grid)
        requested = replace(grid, clusters=tuple(sorted(spans)))
        sources = {
            name: stretches_of(store, name, minute_s=grid.minute_s, start=grid.start, end=grid.end)
            for name in spans
        }
        units = backtest_units(requested, spans, candidates, sources)
        ends = {name: end for name, (_, end) in spans.items()}
        records = Records(location=store.location, ends=ends, system=system.name)
        taken_at = {name: np.sort(store.minutes(name)[TAKEN_AT].to_numpy()) for name in spans}
        minutes = sum(
            _minutes_of(taken_at[unit.cluster], unit, ends[unit.cluster])
            for unit in units
            if unit.candidate.is_record  # one for each window
        )
        return cls(grid=grid, units=units, records=records, minutes=minutes)

    @property
    def windows(self) -> int:
        """Number of windows of all clusters."""
        return sum(unit.candidate.is_record for unit in self.units)

    @property
    def simulated_minutes(self) -> int:
        """Minutes of all runs; every window has the same runs."""
        return self.minutes * len(self.units) // self.windows

    @property
    def words(self) -> str:
        """Amount of work, as text."""
        chosen = len({unit.candidate_number for unit in self.units}) - 2  # actual and replayed
        candidates = f"{pluralize(chosen, 'candidate')} and " if chosen > 0 else ""
        recorded = pluralize(self.minutes, "snapshot")
        return (
            f"{candidates}the recorded settings on {recorded}, "
            f"{pluralize(self.windows, 'window')}: {pluralize(len(self.units), 'run')}"
        )


def _minutes_of(taken_at: Ints, unit: Unit, last: datetime) -> int:
    """Return the number of distinct recorded minutes in a unit."""
    first, after = np.searchsorted(
        taken_at, [datetime_to_ms(unit.window.start), datetime_to_ms(unit.window.end)]
    )
    at_ms = taken_at[first : min(after, np.searchsorted(taken_at, datetime_to_ms(last), "right"))]
    return np.unique(np.rint((at_ms - at_ms[:1]) / (unit.minute_s * 1000.0))).size


def _spans(store: HistoryStore, grid: Grid) -> dict[str, tuple[datetime, datetime]]:
    """Return first and last minute of the clusters that the grid asks about."""
    system = system_of(grid)
    recorded = store.clusters()
    for name in grid.clusters or ():
        if name not in recorded:
            raise UnknownNameError.of("cluster", name, recorded, place="the history")
        if _system(store, name) != system.name:
            raise InputError(
                f"The grid is for {system.title}, but {name} is a "
                f"{_system(store, name).capitalize()} cluster.",
                hint=which_fields(),
            )
    names = grid.clusters or [name for name in recorded if _system(store, name) == system.name]
    spans = {name: store.span(name) for name in names}
    found = {name: span for name, span in spans.items() if span is not None}
    if not found:
        raise InputError(
            f"No history of a {system.title} cluster is recorded.",
            hint="Run `trimtab collect` for a while; `[history]` in the configuration sets the "
            "location of the history.",
        )
    return found


def _system(store: HistoryStore, cluster: str) -> str:
    systems: list[str] = store.minutes(cluster)["system"].slice(0, 1).to_pylist()
    return systems[0] if systems else ""


def run_window(
    load: Callable[[Unit], object],
    simulate: Callable[[object, Unit, Tick], UnitResult],
    units: Iterable[Unit],
    tick: Callable[[Unit, int, int], None],
) -> Iterator[UnitResult]:
    """Simulate units of one window: its record is loaded once.

    A window without a recorded minute gives runs that say so, it does not cost the others theirs.

    Args:
        load: Returns the record of their window.
        simulate: Runs a unit on it.
        units: Of one window.
        tick: Gets the unit, minutes done and minutes in all; may raise to stop it.
    """
    record: object = None
    problem = ""
    for unit in units:
        tick(unit, 0, 0)
        if record is None and not problem:
            try:
                record = load(unit)
            except SnapshotError as exc:
                problem = str(exc)
        if record is None:
            yield _unplayed(unit, problem)
        else:
            yield simulate(record, unit, partial(tick, unit))


def _unplayed(unit: Unit, problem: str) -> UnitResult:
    row = {
        "cluster": unit.cluster,
        "window": unit.window.number,
        "candidate_number": unit.candidate_number,
        "candidate": unit.candidate.label,
        "seed": unit.seed,
        "is_record": unit.candidate.is_record,
        "settings": "{}",
        "start": int(unit.window.start.timestamp() * 1000),
        "end": int(unit.window.end.timestamp() * 1000),
        "minutes": 0,
        "days": 0.0,
        "problem": problem,
    }
    runs = pa.Table.from_pylist([row], schema=RUNS)
    return UnitResult(runs=runs, timeline=TIMELINE.empty_table(), moves=MOVES.empty_table())


def run_here(backtest: Backtest, progress: Progress) -> list[UnitResult]:
    """Run everything in this process, window by window.

    Args:
        backtest: What is to be run.
        progress: Reported in units; several times during a unit.
    Raises:
        JobStoppedError: A stop was requested.
    """
    records = backtest.records
    done: list[UnitResult] = []
    total = len(backtest.units)

    def tick(unit: Unit, minute: int, minutes: int) -> None:
        if minute % _TICK_MINUTES == 0:  # often enough to be stopped at once
            where = f"{unit.cluster}, window {unit.window.number + 1}"
            part = f" ({minute:,} of {minutes:,} minutes)" if minutes else ""
            progress.step(len(done), total, f"{where}: {unit.candidate.label}{part}")

    for _, group in groupby(backtest.units, key=window_key):
        for result in run_window(records.load, records.simulate, group, tick):
            done.append(result)  # noqa: PERF402  # tick counts them meanwhile
    progress.step(total, total, f"{pluralize(total, 'run')} done")
    return done


def tasks_of(units: Sequence[Unit], count: int) -> list[tuple[Unit, ...]]:
    """Cut units into about so many parts, each of one window, in the order of the units.

    Args:
        units: As :func:`core.history.backtest.model.backtest_units` returns them.
        count: How many parts are wanted; windows alone may make more.
    """
    windows = [list(group) for _, group in groupby(units, key=window_key)]
    parts = max(-(-count // max(len(windows), 1)), 1)
    tasks: list[tuple[Unit, ...]] = []
    for window in windows:
        size = max(-(-len(window) // parts), 1)
        tasks += [tuple(window[at : at + size]) for at in range(0, len(window), size)]
    return tasks


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a back-test.

    Attributes:
        tables: By the names of :data:`TABLES`.
        sentence: The best candidate, how far the model is off, and what is recommended.
        system: Name of the system of its clusters.
    """

    tables: Mapping[str, pa.Table]
    sentence: str
    system: str

    @classmethod
    def of(cls, grid: Grid, results: Iterable[UnitResult], records: Records) -> Outcome:
        """Put the results of all units together, and simulate the best candidates to convergence.

        Args:
            grid: What was tried.
            results: In the order of the units.
            records: Of the clusters: the best candidates are simulated on their last minutes.
        """
        tables = together(results)
        system = system_of(grid)
        candidates = ranked(tables["runs"], grid.target, system.nouns)
        candidates = simulated_candidates(
            tables["runs"], candidates, grid.target, system, records.latest
        )
        wanted = system.recommended(tables["runs"], candidates, grid.target, system.nouns, None)
        found = {**tables, "candidates": candidates, "recommended": wanted}
        whole = {name: found[name] for name in TABLES}
        advice = describe_advice(tables["runs"], candidates, grid.target, system.nouns)
        words = f"{_sentence(candidates)} {advice}"
        return cls(whole, words, system.name)

    def write(self, folder: Path) -> None:
        """Write every table as ``<name>.parquet``."""
        for name, table in self.tables.items():
            with whole_file(folder / f"{name}.parquet") as out:
                pq.write_table(table, out, compression="zstd")


def _sentence(candidates: pa.Table) -> str:
    """Return the sentence about the best candidate, over all clusters if there are several."""
    names = set(candidates["cluster"].to_pylist())
    if None in names:
        candidates = candidates.filter(pc.is_null(candidates["cluster"]))
    best = candidates.filter(pc.equal(candidates["rank"], 1))
    rows = best if best.num_rows else candidates
    return str(rows["sentence"][0]) if rows.num_rows else "No run was simulated."


def stretches_of(
    store: HistoryStore,
    cluster: str,
    *,
    minute_s: float,
    start: datetime | None = None,
    end: datetime | None = None,
) -> tuple[Stretch, ...]:
    """Return the uninterrupted stretches of a cluster's record to simulate, oldest first.

    Args:
        cluster: Its name there.
        minute_s: Seconds of the record that count as a minute of the cluster.
        start: Stretches without a recorded moment from then on are left out.
        end: And those without one before then.
    Raises:
        HistoryError: It cannot be read.
    """
    minutes = store.minutes(cluster)
    if not minutes.num_rows:
        return ()
    changed = np.zeros(0, np.int64)
    breaks = system_named(minutes["system"][0].as_py()).breaks
    if breaks:
        events = store.rows("events", cluster, columns=["kind"])
        changed = events.filter(pc.is_in(events["kind"], pa.array(breaks)))[TAKEN_AT].to_numpy()
    moments = minutes[TAKEN_AT].to_numpy()
    return recorded_between(stretches_between(moments, changed, minute_s), moments, start, end)


def stretches_between(taken_at: Ints, changed: Ints, minute_s: float) -> tuple[Stretch, ...]:
    """Return the stretches between gaps and changes.

    Args:
        taken_at: Recorded moments, ms, rising.
        changed: First recorded moments under other settings or policies, ms.
        minute_s: Seconds that count as a minute.
    """
    minute_ms = minute_s * 1000.0
    steps = np.diff(taken_at)
    usual = float(np.median(steps)) if steps.size else 0.0
    is_gap = steps > _GAP_MINUTES * max(usual, minute_ms)
    is_new = np.isin(taken_at[1:], changed)
    firsts = np.flatnonzero(is_gap | is_new) + 1
    found = []
    for first, after in zip([0, *firsts], [*firsts, taken_at.size], strict=True):
        is_whole = after < taken_at.size and not is_gap[after - 1]
        end = int(taken_at[after]) if is_whole else round(int(taken_at[after - 1]) + minute_ms)
        found.append((ms_to_datetime(int(taken_at[first])), ms_to_datetime(end)))
    return tuple(found)


def recorded_between(
    stretches: Sequence[Stretch], taken_at: Ints, start: datetime | None, end: datetime | None
) -> tuple[Stretch, ...]:
    """Return the stretches of which a range holds a recorded moment.

    Args:
        stretches: What is simulated without a break.
        taken_at: Recorded moments, ms, rising.
        start: Of the range; ``None`` for that of the record.
        end: Of the range, not in it any more; ``None`` for that of the record.
    """
    chosen = []
    for stretch in stretches:
        first = datetime_to_ms(max(stretch[0], start) if start else stretch[0])
        last = datetime_to_ms(min(stretch[1], end) if end else stretch[1])
        at = int(np.searchsorted(taken_at, first))
        if at < taken_at.size and taken_at[at] < last:
            chosen.append(stretch)
    return tuple(chosen)
