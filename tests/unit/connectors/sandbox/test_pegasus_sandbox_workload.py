"""The sandbox's traffic: it only grows, goes up and down around its mean, and bursts."""

from __future__ import annotations

import numpy as np
import pytest

from connectors.sandbox.pegasus.cluster import STEADY, TrafficPattern, rhythms

SECONDS = np.arange(-60.0, 7_200.0, 5.0)


def rates(rhythm: TrafficPattern) -> np.ndarray:
    return np.diff([rhythm.until(float(one)) for one in SECONDS]) / 5.0


@pytest.mark.parametrize("rhythm", rhythms(6, 7))
def test_traffic_only_grows_and_keeps_its_mean(rhythm):
    found = rates(rhythm)
    assert found.min() > 0.5
    assert found.max() > 1.1
    assert 0.95 < found.mean() < 1.5
    assert rhythm.until(0.0) == 0.0


def test_some_tables_have_bursts_that_end():
    bursting = [one for one in rhythms(6, 7) if one.burst]
    assert len(bursting) == 2
    for rhythm in bursting:
        is_high = (
            rates(TrafficPattern(burst=rhythm.burst, burst_every_s=rhythm.burst_every_s)) > 1.5
        )
        assert 0.05 < is_high.mean() < 0.3


def test_steady_traffic_is_the_time_itself():
    assert [STEADY.until(one) for one in (-3.0, 0.0, 12.5)] == [-3.0, 0.0, 12.5]
