"""When a load report is written."""

from __future__ import annotations

import numpy as np
import pytest

from core.pulsar.reports import ReportedLoad, needs_report, percent_change, report_triggers
from core.pulsar.settings import EffectiveSettings

SETTINGS = EffectiveSettings.defaults()
STEADY = ReportedLoad(msg_rate=100.0, msg_throughput=1e6, bundle_count=10, usage=0.5)


@pytest.mark.parametrize(
    ("old", "new", "percent"),
    [(0, 0, 0.0), (0, 5, np.inf), (100, 110, 10.0), (100, 0, 100.0), (200, 100, 50.0)],
)
def test_change_is_in_percent_of_the_old_value(old: float, new: float, percent: float) -> None:
    assert float(percent_change(old, new)) == percent


@pytest.mark.parametrize(
    ("field", "value", "fires"),
    [
        ("msg_rate", 110.0, False),
        ("msg_rate", 110.1, True),
        ("msg_rate", 89.0, True),
        ("msg_throughput", 1.2e6, True),
        ("bundle_count", 11, False),
        ("bundle_count", 12, True),
        ("usage", 0.59, False),
        ("usage", 0.61, True),
    ],
)
def test_a_change_above_the_threshold_writes_a_report(
    field: str, value: float, *, fires: bool
) -> None:
    facts = {
        name: getattr(STEADY, name)
        for name in ("msg_rate", "msg_throughput", "bundle_count", "usage")
    }
    current = ReportedLoad(**{**facts, field: value})
    assert bool(needs_report(STEADY, current, 1_000, SETTINGS)) is fires
    fired = [
        trigger.name
        for trigger in report_triggers(STEADY, current, 1_000, SETTINGS)
        if trigger.fires
    ]
    assert fired == ([field] if fires else [])


def test_an_old_report_is_written_again_only_after_the_whole_interval() -> None:
    quarter_hour_ms = 15 * 60_000
    assert not needs_report(STEADY, STEADY, quarter_hour_ms, SETTINGS)
    assert needs_report(STEADY, STEADY, quarter_hour_ms + 1, SETTINGS)


def test_the_first_report_with_anything_in_it_is_always_written() -> None:
    assert needs_report(ReportedLoad.nothing(1), STEADY, 0, SETTINGS)
    assert not needs_report(ReportedLoad.nothing(1), ReportedLoad.nothing(1), 0, SETTINGS)


def test_many_brokers_are_judged_at_once_with_their_distance() -> None:
    last = ReportedLoad(
        msg_rate=np.array([100.0, 100.0]),
        msg_throughput=np.array([1.0, 1.0]),
        bundle_count=np.array([1, 1]),
        usage=np.array([0.5, 0.5]),
    )
    now = ReportedLoad(
        msg_rate=np.array([104.0, 150.0]),
        msg_throughput=np.array([1.0, 1.0]),
        bundle_count=np.array([1, 1]),
        usage=np.array([0.5, 0.5]),
    )
    assert needs_report(last, now, np.array([0, 0]), SETTINGS).tolist() == [False, True]
    rate = next(t for t in report_triggers(last, now, 0, SETTINGS) if t.name == "msg_rate")
    assert rate.distance.tolist() == [6.0, 0.0]
