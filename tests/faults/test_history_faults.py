"""A recorder is killed while it writes: nothing that it said it had recorded is lost or doubled."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from history_worlds import minute_of

from core.history.store.store import HistoryLocation, HistoryStore

WRITER = Path(__file__).parents[1] / "support" / "history_writer.py"
PATIENCE_S = 120.0


@contextlib.contextmanager
def writing(folder: Path, first: int) -> Iterator[subprocess.Popen[str]]:
    """A recording process; it is killed at the end in any case."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(first)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(PATIENCE_S, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


def killed_after(folder: Path, first: int, minutes: int, delay_s: float) -> list[tuple[int, str]]:
    """Record, and kill -9 a moment after the last of some minutes was told.

    Returns:
        What the process said it had recorded, with all that it said before it died.
    """
    with writing(folder, first) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(minutes)]
        assert all(told), process.communicate()[1]  # it ended by itself: say why
        threading.Event().wait(delay_s)  # into the middle of the next write
        process.kill()
        told += process.communicate()[0].splitlines(keepends=True)
    whole = [line.split() for line in told if line.endswith("\n")]
    return [(int(number), name) for number, name in whole]


def run_of_kills(folder: Path, kills: int) -> None:
    rng = np.random.default_rng(20261121)
    told: list[tuple[int, str]] = []
    for _ in range(kills):
        # it goes on where its predecessor stopped telling: perhaps with a minute already recorded
        first = told[-1][0] + 1 if told else 0
        told += killed_after(folder, first, int(rng.integers(1, 3)), float(rng.random()) * 0.15)
    store = HistoryStore(HistoryLocation(str(folder)))
    check(store, told)
    for file in folder.rglob("*.parquet"):  # also those that nothing names
        with pq.ParquetFile(file) as parquet:
            parquet.read()
    store.compact("fleet", minute_of(told[-1][0]).manifest.taken_at + timedelta(hours=3))
    check(store, told)


def check(store: HistoryStore, told: list[tuple[int, str]]) -> None:
    """No unreadable file, no lost minute, no minute twice, no row twice."""
    listed = store.minutes("fleet")["snapshot_id"].to_pylist()
    assert len(listed) == len(set(listed))
    assert {name for _, name in told} <= set(listed)
    assert len(listed) <= told[-1][0] + 2  # at most the one that was being written
    for number, name in told:
        moment = minute_of(number).manifest.taken_at
        assert store.snapshot_at("fleet", moment).snapshot_id == name
    assert store.rows("brokers", "fleet").num_rows == 3 * len(listed)


@pytest.mark.slow
def test_a_recorder_that_is_killed_five_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run_of_kills(tmp_path / "history", 5)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_recorder_that_is_killed_fifty_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    run_of_kills(tmp_path / "history", 50)
