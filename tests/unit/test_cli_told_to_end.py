"""Being told to end twice, or at a bad moment, still ends."""

from __future__ import annotations

import os
import signal
import threading

from dashboard.supervisor import told_to_end


def test_many_signals_in_a_row_are_one_order_to_end() -> None:
    for _ in range(20):
        stop = threading.Event()
        with told_to_end(stop):
            storm = threading.Thread(
                target=lambda: [os.kill(os.getpid(), signal.SIGTERM) for _ in range(50)]
            )
            storm.start()
            while not stop.wait(0.0001):
                assert storm.is_alive() or stop.wait(5)
            storm.join(10)
            assert not storm.is_alive()
