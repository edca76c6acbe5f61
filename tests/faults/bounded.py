"""What damaged answers may cost: time for each, and memory for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import psutil

EACH_WITHIN_S = 20.0
GROWTH_MB = 150.0


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
