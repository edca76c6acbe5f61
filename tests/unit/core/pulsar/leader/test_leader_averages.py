"""Averages that are brought up to date lazily equal those of the loop over every bundle."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.pulsar.leader.averages import FOLLOWER, LEADER, UNKNOWN, BundleAverages

CAPS = (10, 1000)
ERROR = 1.5e-14
"""Relative to the largest sample. A loop over many samples of one value rounds each time and ends
next to it (7.3 becomes 7.299999999999988), the closed form at the value itself; measured against
values that leaders wrote the difference was at most 1.5e-15."""

BUNDLES = [f"acme/orders/0x{n:08x}_0x{n + 1:08x}" for n in range(6)]
BROKERS = 3


@dataclass
class Naive:
    """``updateBundleData`` as it is written: every run goes over every report and every bundle."""

    reports: dict[int, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    held: dict[str, list[list[float]]] = field(default_factory=dict)
    samples: dict[str, list[int]] = field(default_factory=dict)

    def run(self) -> None:
        for code in sorted(self.reports):
            for name, stats in self.reports[code].items():
                values = self.held.setdefault(name, [[0.0] * 4, [0.0] * 4])
                counts = self.samples.setdefault(name, [0, 0])
                for term, cap in enumerate(CAPS):
                    counts[term] = min(counts[term] + 1, cap)
                    n = counts[term]
                    values[term] = [
                        ((n - 1) * old + new) / n
                        for old, new in zip(values[term], stats, strict=True)
                    ]
        named = {name for report in self.reports.values() for name in report}
        self.held = {name: values for name, values in self.held.items() if name in named}
        self.samples = {name: counts for name, counts in self.samples.items() if name in named}


rates = st.tuples(*[st.floats(0.0, 1e6, allow_subnormal=False)] * 4)
reports = st.dictionaries(st.sampled_from(BUNDLES), rates, max_size=len(BUNDLES))
steps = st.lists(
    st.one_of(
        st.tuples(st.integers(0, BROKERS - 1), reports, st.integers(1, 25)),
        st.tuples(st.integers(0, BROKERS - 1), st.none(), st.just(2)),
        st.tuples(st.just(-1), st.none(), st.integers(1, 3)),
    ),
    min_size=1,
    max_size=25,
)


def applied(lazy: BundleAverages, code: int, report: dict | None, runs: int) -> None:
    """Apply one step to the lazy averages; code -1: the leader writes its averages."""
    order = {code: code for code in range(BROKERS)}
    if code < 0:
        lazy.run(runs, sides=(LEADER,))
    elif report is None:
        lazy.report(code, None, runs=runs, order=order)
    else:
        rows = lazy.rows(report)
        stats = np.array(list(report.values())).reshape(-1, 4).T
        topics = np.ones(rows.size, np.int64)
        lazy.report(code, (rows, stats, topics), runs=runs, order=order)


def looped(sides: tuple[Naive, Naive], code: int, report: dict | None, runs: int) -> None:
    """Apply the same step to the loops."""
    for side in sides if code >= 0 else sides[LEADER:]:
        side.reports.pop(code, None)
        if report is not None:
            side.reports[code] = dict(report)
        for _ in range(runs):
            side.run()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(steps)
def test_lazy_averages_equal_the_loop(taken: list[tuple[int, dict | None, int]]) -> None:
    lazy, sides = BundleAverages(), (Naive(), Naive())
    for step in taken:
        applied(lazy, *step)
        looped(sides, *step)
    lazy.catch_up_all()
    sampled = [
        rate for _, report, _ in taken for rates in (report or {}).values() for rate in rates
    ]
    largest = max([1.0, *sampled])
    held = {lazy.names[row] for row in np.flatnonzero(lazy.is_held[: lazy.size])}
    for side in (FOLLOWER, LEADER):
        assert held == set(sides[side].held)
        for name, values in sides[side].held.items():
            row = lazy.index[name]
            assert np.abs(lazy.values[side][:, :4, row] - values).max() <= ERROR * largest
            assert lazy.samples[side, :, row].tolist() == sides[side].samples[name]


def one(lazy: BundleAverages, code: int, value: float, *, runs: int = 1) -> None:
    rows = lazy.rows(BUNDLES[:1])
    lazy.report(code, (rows, np.full((4, 1), value), np.ones(1, np.int64)), runs=runs, order={})


def test_a_long_history_of_one_value_errs_by_no_more_than_was_measured() -> None:
    lazy, average = BundleAverages(), 3.0
    one(lazy, 0, 3.0)
    one(lazy, 0, 7.3, runs=400)
    for n in range(2, 402):
        count = min(n, 10)
        average = ((count - 1) * average + 7.3) / count
    lazy.catch_up_all()
    assert abs(lazy.values[LEADER, 0, 0, 0] - average) <= ERROR * 7.3


def test_a_bundle_in_two_reports_is_sampled_twice() -> None:
    lazy = BundleAverages()
    one(lazy, 0, 1.0)
    one(lazy, 1, 4.0)
    lazy.catch_up_all()
    # run 1: 1; run 2: 1 again and 4
    assert lazy.samples[LEADER, 0, 0] == 3
    assert lazy.values[LEADER, 0, 0, 0] == 2.0
    assert list(lazy.several) == [0]
    lazy.report(0, None, runs=1, order={})
    lazy.catch_up_all()
    assert lazy.values[LEADER, 0, 0, 0] == 2.5
    assert not lazy.several


def test_a_bundle_in_no_report_is_dropped_and_begins_again() -> None:
    lazy = BundleAverages()
    one(lazy, 0, 8.0, runs=5)
    lazy.report(0, None, runs=2, order={})
    assert not lazy.is_held[0]
    one(lazy, 1, 3.0)
    lazy.catch_up_all()
    assert lazy.values[LEADER, 0, 0, 0] == 3.0
    assert lazy.samples[LEADER, 0, 0] == 1


def test_a_new_bundle_begins_with_what_is_written_then_with_its_quota() -> None:
    lazy = BundleAverages()
    lazy.store(lazy.row(BUNDLES[0]), (4, 40), ((10.0,) * 4, (20.0,) * 4))
    lazy.quotas[lazy.row(BUNDLES[1])] = (100.0,) * 4
    rows = lazy.rows(BUNDLES[:2])
    lazy.report(0, (rows, np.zeros((4, 2)), np.ones(2, np.int64)), runs=1, order={})
    lazy.catch_up_all()
    assert lazy.values[LEADER, :, 0, 0].tolist() == [10.0 * 4 / 5, 20.0 * 40 / 41]
    assert lazy.values[LEADER, :, 0, 1].tolist() == [90.0, 99.9]
    assert lazy.samples[LEADER, :, 1].tolist() == [10, 1000]


def test_history_from_before_watching_fades_by_a_tenth_a_sample() -> None:
    lazy = BundleAverages()
    one(lazy, 0, 5.0, runs=0)
    lazy.begin_unknown()
    one(lazy, 0, 5.0, runs=3)
    lazy.catch_up_all()
    assert abs(lazy.values[LEADER, 0, UNKNOWN, 0] - 0.9**3) < 1e-15


def test_a_new_leader_goes_on_with_what_a_follower_has() -> None:
    lazy = BundleAverages()
    one(lazy, 0, 1.0)
    one(lazy, 0, 2.0)
    lazy.run(3, sides=(LEADER,))
    lazy.catch_up_all()
    assert lazy.values[LEADER, 0, 0, 0] != lazy.values[FOLLOWER, 0, 0, 0] == 1.5
    lazy.new_leader()
    assert lazy.values[LEADER, 0, 0, 0] == 1.5
