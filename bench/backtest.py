"""How fast candidates are played on a recorded window.

    .venv/bin/python bench/backtest.py [--brokers 100] [--bundles 10000] [--minutes 120] [--rival]

A generated fleet whose bundles' load goes up and down, each in its own time; every bundle has an
entry in every minute. The figure is bundle-minutes x candidates per second of processor time of one
process. Then the same with a quarter and with four times the bundles, with two processes at once
(wall clock), and the peak memory. ``--rival``: the naive way, the simulation's own round on a whole
snapshot every minute, on as many minutes as take a few seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
from backtest_records import fleet, waves

from core.history.backtest.model import Candidate
from core.history.backtest.pulsar.engine import simulate_window
from core.history.backtest.pulsar.series import LoadSeries
from core.simulation import Run, simulate
from core.snapshot import PulsarSnapshot

GOAL: Final = 5e6
CANDIDATES: Final = {
    "no shedding": Candidate(shedding=None),
    "ThresholdShedder": Candidate(shedding="ThresholdShedder"),
    "UniformLoadShedder": Candidate(shedding="UniformLoadShedder"),
    "OverloadShedder": Candidate(shedding="OverloadShedder"),
    "AvgShedder": Candidate(shedding="AvgShedder", placement="AvgShedder"),
}
MODEL: Final = "ThresholdShedder"
_RIVAL_S: Final = 10.0
_SERIES: list[LoadSeries] = []


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--brokers", type=int, default=100)
    arguments.add_argument("--bundles", type=int, default=10_000)
    arguments.add_argument("--minutes", type=int, default=120)
    arguments.add_argument("--rival", action="store_true")
    options = arguments.parse_args()
    series = _fleet(options.brokers, options.bundles, options.minutes)
    rows, brokers, bundles = series.shape
    print(
        f"{rows:,} minutes, {brokers:,} brokers, {bundles:,} bundles, "
        f"{series.size_bytes / 1e6:,.0f} MB of arrays"
    )
    for name, candidate in CANDIDATES.items():
        _report(name, series, _timed(lambda one=candidate: simulate_window(series, one, 1)))
    print(f"Peak memory {_peak_mb():,.0f} MB")
    for factor in (0.25, 1, 4):
        other = _fleet(options.brokers, int(options.bundles * factor), options.minutes)
        words = f"{MODEL}, {factor:g} times the bundles"
        _report(words, other, _timed(lambda one=other: simulate_window(one, CANDIDATES[MODEL], 1)))
    _two_processes(series)
    if options.rival:
        _rival(options.brokers, options.bundles)


def _fleet(brokers: int, bundles: int, minutes: int) -> LoadSeries:
    return waves(minutes, brokers=brokers, bundles=bundles, swing=0.2)


def _timed(run: Callable[[], object]) -> tuple[float, object]:
    """Processor seconds; the faster of two."""
    seconds = []
    done: object = None
    for _ in range(2):
        start = time.process_time()
        done = run()
        seconds.append(time.process_time() - start)
    return min(seconds), done


def _report(name: str, series: LoadSeries, timed: tuple[float, object]) -> None:
    seconds, outcome = timed
    rows, _, bundles = series.shape
    moves = outcome.moves.row  # type: ignore[attr-defined]  # what play returned
    print(
        f"{name:45s} {seconds / rows * 1e3:7.2f} ms/minute "
        f"{rows * bundles / seconds / 1e6:7.2f} M bundle-minutes/s   {moves.size:,} moves in "
        f"{np.unique(moves).size} rounds"
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def _play_one(seed: int) -> int:
    return int(simulate_window(_SERIES[0], CANDIDATES[MODEL], seed).moves.row.size)


def _two_processes(series: LoadSeries) -> None:
    """Four runs in one process, and in two: wall clock."""
    _SERIES[:] = [series]
    rows, _, bundles = series.shape
    for count in (1, 2):
        with multiprocessing.get_context("fork").Pool(count) as pool:
            pool.map(_play_one, range(count))  # both have started
            start = time.perf_counter()
            pool.map(_play_one, range(4), chunksize=1)
            seconds = time.perf_counter() - start
        rate = 4 * rows * bundles / seconds / 1e6
        print(f"{MODEL}, four runs, {count} process(es): {rate:.2f} M bundle-minutes/s by the wall")


def _rival(brokers: int, bundles: int) -> None:
    """The naive way: a whole snapshot every minute, and the simulation's round on it."""
    snapshot = fleet(brokers=brokers, bundles=bundles)
    start, minutes = time.process_time(), 0
    while time.process_time() - start < _RIVAL_S:
        moment = snapshot.manifest.taken_at + timedelta(minutes=minutes)
        now = PulsarSnapshot.build(replace(snapshot.manifest, taken_at=moment), snapshot.tables)
        simulate(now, Run(shedding=MODEL, rounds=1))
        minutes += 1
    seconds = time.process_time() - start
    rate = minutes * snapshot.bundles.num_rows / seconds / 1e6
    print(f"Naive way ({minutes} minutes): {rate:.3f} M bundle-minutes/s; goal {GOAL / 1e6:g} M")


if __name__ == "__main__":
    main()
