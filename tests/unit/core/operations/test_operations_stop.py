"""An operation that is stopped ends at once, wherever its computation is."""

from __future__ import annotations

import pytest
from fleet_builder import make_snapshot
from pegasus_snapshots import generated

from core.facts import NOTHING_ASSUMED, facts_of
from core.operations.registry import operations
from core.progress import JobStoppedError
from core.request import parse

BUNDLE = "acme/invoices/0x00000000_0x19999999"
REQUESTS = {
    "balance": {"rounds": 3},
    "diagnose": {"seconds": 5.0},
    "drill": {},
    "health": {},
    "place": {"bundle": BUNDLE},
    "shed": {"strategy": "ThresholdShedder", "rounds": 2},
    "simulate": {"rounds": 3},
}
CASES = [
    (name, kind)
    for name, operation in operations().items()
    for kind in operation.answers
    if name in REQUESTS and (name, kind) != ("diagnose", "pegasus")  # it takes no two seconds
]


class Stopping:
    """Progress that stops the computation at one of its steps."""

    def __init__(self, at: int | None = None) -> None:
        self.count, self.at = 0, at

    def step(self, done: int, total: int, words: str) -> None:
        assert words
        self.count += 1
        if self.at is not None and self.count > self.at:
            raise JobStoppedError("Stopped.")


@pytest.fixture(scope="module")
def snapshots():
    return {
        "pulsar": make_snapshot(brokers=4, bundles=60),
        "pegasus": generated(3, 8, 4),
    }


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_stop_is_never_taken_for_a_part_that_cannot_be_computed(snapshots, name, kind):
    operation = operations()[name]
    request = parse(operation.request, REQUESTS[name])

    def run(progress):
        return operation.answer(facts_of(snapshots[kind], NOTHING_ASSUMED), request, progress)

    whole = Stopping()
    run(whole)
    assert whole.count
    last = min(whole.count, 20) - 1  # a search that is limited by time has no fixed number
    for at in sorted({0, last // 2, last}):
        with pytest.raises(JobStoppedError):
            run(Stopping(at))
