"""What damaged answers may cost: time for each, and memory for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import psutil

EACH_WITHIN_S = 20.0
GROWTH_MB = 150.0
LIMITS = {"answer_mib": 1, "bulk_mib": 2, "zookeeper_mib": 1, "capture_mib": 16}
CAPTURE_S = 0.8
"""``read_limits`` and ``timeouts.capture_s`` of the process that reads hostile answers."""


class Bounds:
    """Measures calls; the slowest and the growth of this process are asserted at the end."""

    def __init__(self) -> None:
        self.slowest_s = 0.0

    @contextmanager
    def call(self) -> Iterator[None]:
        began_s = monotonic()
        yield
        self.slowest_s = max(self.slowest_s, monotonic() - began_s)


@contextmanager
def bounded(within_s: float = EACH_WITHIN_S) -> Iterator[Bounds]:
    """Bound the time of each call and the memory of all."""
    process = psutil.Process()
    before = process.memory_info().rss
    bounds = Bounds()
    yield bounds
    grown_mb = (process.memory_info().rss - before) / 2**20
    assert bounds.slowest_s <= within_s
    assert grown_mb <= GROWTH_MB


@contextmanager
def peak_mib() -> Iterator[Callable[[], float]]:
    """Give a function that returns how far the memory of this process grew in the block, MiB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is forgotten
    before = psutil.Process().memory_info().rss
    highest = float(before)

    yield lambda: (highest - before) / 2**20

    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        highest = float(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def left_as_it_was(within_s: float = 5.0) -> Iterator[None]:
    """Assert that the block leaves no thread and no descriptor behind, or soon after none."""
    process = psutil.Process()
    threads, files = threading.active_count(), process.num_fds()
    yield
    until, pause = monotonic() + within_s, threading.Event()
    while monotonic() < until and not pause.wait(0.02):
        if threading.active_count() <= threads and process.num_fds() <= files:
            return
    assert threading.active_count() <= threads, threading.enumerate()
    assert process.num_fds() <= files
