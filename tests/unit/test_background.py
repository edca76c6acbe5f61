"""Results that are computed beside the pages: asked for without waiting, the latest first."""

from __future__ import annotations

import threading
from threading import Event

import pytest

from core.errors import InvariantError
from dashboard.queries.background import BackgroundResults

WAIT_S = 20.0


def test_asking_does_not_wait_and_the_result_comes():
    gate = Event()

    def compute(key: int) -> int:
        gate.wait(WAIT_S)
        return key * 2

    later = BackgroundResults(compute)
    assert later(21) is None
    gate.set()
    assert later.wait(21, WAIT_S) == 42
    assert later(21) == 42


def test_what_was_asked_for_last_is_computed_first_and_each_once():
    gate, begun, order = Event(), Event(), []

    def compute(key: str) -> str:
        begun.set()
        gate.wait(WAIT_S)
        order.append(key)
        return key

    later = BackgroundResults(compute)
    later("busy")
    assert begun.wait(WAIT_S)
    for key in ("old", "busy", "new", "old"):
        later(key)
    gate.set()
    assert later.wait("old", WAIT_S) == "old"
    assert later.wait("new", WAIT_S) == "new"
    assert order == ["busy", "old", "new"]


def test_a_key_that_is_pushed_out_comes_back_when_it_is_asked_for():
    gate, begun = Event(), Event()

    def compute(key: int) -> int:
        begun.set()
        gate.wait(WAIT_S)
        return key

    later = BackgroundResults(compute, max_waiting=2)
    later(0)
    assert begun.wait(WAIT_S)
    for key in (1, 2, 3):
        later(key)
    gate.set()
    assert later.wait(2, WAIT_S) == 2
    assert later.wait(1, WAIT_S) == 1


def test_only_so_many_results_are_kept():
    later = BackgroundResults(lambda key: key, max_entries=2)
    assert [later.wait(key, WAIT_S) for key in (1, 2, 3)] == [1, 2, 3]
    assert later(3) == 3
    assert later(1) is None  # computed anew


def test_a_failure_is_told_logged_and_does_not_stop_the_rest(monkeypatch):
    logged = Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: logged.set())

    def compute(key: int) -> float:
        return 1 / key

    later = BackgroundResults(compute)
    with pytest.raises(InvariantError, match="the log has the details"):
        later.wait(0, WAIT_S)
    assert logged.wait(WAIT_S)
    assert later.wait(2, WAIT_S) == 0.5
