"""Being told to end at a bad moment, or twice, still ends."""

from __future__ import annotations

import signal
import threading

import pytest

from dashboard.cli.supervisor import shutting_down


@pytest.mark.timeout(20)
def test_a_signal_that_finds_the_events_lock_taken_does_not_hang() -> None:
    stop = threading.Event()
    with shutting_down(stop):
        with stop._cond:  # as a wait that is interrupted, or a first signal's handler, holds it
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(5)
