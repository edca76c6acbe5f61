"""Results that are computed in the background: requested without waiting, the latest first."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from threading import Event
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from core.errors import InvariantError, SnapshotError
from core.progress import JobStoppedError
from dashboard.queries.background import BackgroundResults, in_own_process

if TYPE_CHECKING:
    from core.progress import Progress

WAIT_S = 20.0


def test_asking_does_not_wait_and_the_result_comes():
    gate = Event()

    def compute(key: int) -> int:
        gate.wait(WAIT_S)
        return key * 2

    results = BackgroundResults(compute)
    assert results(21) is None
    gate.set()
    assert results.wait(21, WAIT_S) == 42
    assert results(21) == 42


def test_what_was_asked_for_last_is_computed_first_and_each_once():
    gate, begun, order = Event(), Event(), []

    def compute(key: str) -> str:
        begun.set()
        gate.wait(WAIT_S)
        order.append(key)
        return key

    results = BackgroundResults(compute)
    results("busy")
    assert begun.wait(WAIT_S)
    for key in ("old", "busy", "new", "old"):
        results(key)
    gate.set()
    assert results.wait("old", WAIT_S) == "old"
    assert results.wait("new", WAIT_S) == "new"
    assert order == ["busy", "old", "new"]


def test_a_key_that_is_pushed_out_comes_back_when_it_is_asked_for():
    gate, begun = Event(), Event()

    def compute(key: int) -> int:
        begun.set()
        gate.wait(WAIT_S)
        return key

    results = BackgroundResults(compute, max_waiting=2)
    results(0)
    assert begun.wait(WAIT_S)
    for key in (1, 2, 3):
        results(key)
    gate.set()
    assert results.wait(2, WAIT_S) == 2
    assert results.wait(1, WAIT_S) == 1


def test_only_so_many_results_are_stored():
    results = BackgroundResults(lambda key: key, max_entries=2)
    assert [results.wait(key, WAIT_S) for key in (1, 2, 3)] == [1, 2, 3]
    assert results(3) == 3
    assert results(1) is None  # computed again


def test_a_failure_is_raised_logged_and_does_not_stop_the_rest(monkeypatch):
    logged = Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: logged.set())

    def compute(key: int) -> float:
        return 1 / key

    results = BackgroundResults(compute)
    with pytest.raises(InvariantError, match="See the log"):
        results.wait(0, WAIT_S)
    assert logged.wait(WAIT_S)
    assert results.wait(2, WAIT_S) == 0.5


def test_what_an_error_of_ours_says_is_raised_as_it_is(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    results = BackgroundResults(Mock(side_effect=SnapshotError("It is damaged.", hint="Read it.")))
    for _ in range(2):
        with pytest.raises(SnapshotError, match="It is damaged"):
            results.wait(1, WAIT_S)


def test_a_failed_key_stays_failed_until_newer_failures_push_it_out(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    computed = []

    def compute(key: int) -> int:
        computed.append(key)
        raise ValueError

    results = BackgroundResults(compute, max_entries=2)
    for key in (1, 1, 2, 3, 1):
        with pytest.raises(InvariantError):
            results.wait(key, WAIT_S)
    assert computed == [1, 2, 3, 1]


class Steps:
    """Progress that remembers the steps."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def step(self, done: int, total: int, words: str) -> None:
        self.steps.append((done, total, words))


def counted(count: int, progress: Progress) -> tuple[int, int]:
    for number in range(count):
        progress.step(number, count, "counting")
    return os.getpid(), count


def killed(_: object, progress: Progress) -> None:
    progress.step(1, 1, "last words")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_of_its_own_reports_its_steps_and_its_result() -> None:
    progress = Steps()
    process, count = in_own_process(counted, 3, progress)
    assert process != os.getpid()
    assert count == 3
    assert progress.steps == [(number, 3, "counting") for number in range(3)]


def test_a_process_that_dies_is_an_error_and_leaves_nothing() -> None:
    with pytest.raises(InvariantError, match="background process failed"):
        in_own_process(killed, None, Steps())
    assert not multiprocessing.active_children()


def test_a_step_that_stops_the_computation_ends_its_process() -> None:
    class Stopping(Steps):
        def step(self, done: int, total: int, words: str) -> None:
            raise JobStoppedError(words)

    with pytest.raises(JobStoppedError):
        in_own_process(counted, 3, Stopping())
    assert not multiprocessing.active_children()
