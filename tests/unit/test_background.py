"""Results that are computed in the background: requested without waiting, the latest first."""

from __future__ import annotations

import threading
from threading import Event
from unittest.mock import Mock

import pytest

from core.errors import InvariantError, SnapshotError
from dashboard.queries.background import BackgroundResults

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
