"""Usage in 32-bit floats, weights, the limiting resource, time averages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from core.pulsar.load import (
    DEFAULT_BYTES_PER_S,
    DEFAULT_MSGS_PER_S,
    RATE_STEP_MSGS_S,
    TRAFFIC_STEP_BYTES_S,
    in_steps,
    limiting_resource,
    max_resource_usage,
    next_average,
    next_smoothed_usage,
    overload_usage,
    percent_usage,
    weighted_max_usage,
)
from core.pulsar.settings import EffectiveSettings
from core.schemas import PULSAR_TABLES, conform

RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


def _brokers(*percents: tuple[float | None, ...]) -> pa.Table:
    rows = []
    for number, values in enumerate(percents):
        row: dict[str, object] = {"broker": f"b{number}:1", "is_leader": False}
        for name, value in zip(RESOURCES, values, strict=True):
            row[f"{name}_usage"] = value
            row[f"{name}_limit"] = None if value is None else 100.0
        rows.append(row)
    return conform(pa.Table.from_pylist(rows), PULSAR_TABLES["brokers"], name="brokers")


def _weights(cpu: float, direct: float, inward: float, outward: float) -> EffectiveSettings:
    return EffectiveSettings.defaults(
        overrides={
            "loadBalancerCPUResourceWeight": cpu,
            "loadBalancerDirectMemoryResourceWeight": direct,
            "loadBalancerBandwidthInResourceWeight": inward,
            "loadBalancerBandwidthOutResourceWeight": outward,
        }
    )


@pytest.mark.parametrize(
    ("usage", "limit", "percent"),
    [
        (30.0, 100.0, 30.000001907348633),
        (60.0, 100.0, 60.000003814697266),
        (150.0, 400.0, 37.5),
        (10.0, 0.0, 0.0),
        (-1.0, -1.0, 0.0),
        (np.nan, 100.0, 0.0),
        (10.0, np.nan, 0.0),
    ],
)
def test_percent_usage_is_a_32_bit_number(usage: float, limit: float, percent: float) -> None:
    found = percent_usage(np.array([usage]), np.array([limit]))
    assert found.dtype == np.float32
    assert float(found[0]) == percent


@pytest.mark.parametrize(
    ("weights", "usage"),
    [
        ((1.0, 0.0, 1.0, 1.0), 0.3000000190734863),
        ((1.0, 1.0, 1.0, 1.0), 0.6000000381469727),
        ((0.5, 0.0, 2.0, 1.0), 0.4),
    ],
)
def test_weighted_usage_is_what_the_real_class_says(
    weights: tuple[float, float, float, float], usage: float
) -> None:
    brokers = _brokers((30.0, 95.0, 60.0, 20.0, 10.0))
    assert weighted_max_usage(brokers, _weights(*weights))[0] == pytest.approx(usage, abs=1e-8)


def test_unweighted_usage_leaves_the_heap_out() -> None:
    assert float(max_resource_usage(_brokers((30.0, 95.0, 60.0, 20.0, 10.0)))[0]) == pytest.approx(
        0.6000000238418579, abs=1e-12
    )


def test_a_broker_that_reports_nothing_is_unknown_and_not_idle() -> None:
    brokers = _brokers((10.0,) * 5, (None,) * 5)
    settings = EffectiveSettings.defaults()
    usage = weighted_max_usage(brokers, settings)
    assert usage[0] > 0
    assert np.isnan(usage[1])
    assert limiting_resource(brokers, settings) == ["cpu", None]


def test_the_limiting_resource_is_the_one_that_weighs_most() -> None:
    brokers = _brokers((30.0, 99.0, 60.0, 20.0, 10.0), (5.0, 0.0, 0.0, 0.0, 70.0))
    assert limiting_resource(brokers, EffectiveSettings.defaults()) == ["cpu", "bandwidth_out"]
    assert limiting_resource(brokers, _weights(1, 1, 1, 1)) == ["direct_memory", "bandwidth_out"]


@pytest.mark.parametrize(
    ("old", "new", "usage"), [(1.0, 3.0, 3.0), (2.0, 3.0, 2.0), (1.0, 1.0, 1.0)]
)
def test_the_misspelt_weight_counts_while_the_right_one_is_one(
    new: float, old: float, usage: float
) -> None:
    settings = EffectiveSettings.defaults(
        overrides={
            "loadBalancerBandwidthOutResourceWeight": old,
            "loadBalancerBandwithOutResourceWeight": new,
        }
    )
    brokers = _brokers((0.0, 0.0, 0.0, 0.0, 50.0))
    assert weighted_max_usage(brokers, settings)[0] == 0.5 * usage


def test_averages_are_means_first_and_then_forget_slowly() -> None:
    average, samples = np.zeros(1), np.zeros(1, np.int64)
    seen = []
    for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        average, samples = next_average(average, samples, np.array([value]), max_samples=3)
        seen.append(round(float(average[0]), 4))
    assert seen == [1.0, 1.5, 2.0, 2.6667, 3.4444, 4.2963]
    assert samples.tolist() == [3]


def test_one_zero_sample_on_ample_history_takes_its_share() -> None:
    for cap, left in ((10, 900.0), (1000, 999.0)):
        average, _ = next_average(
            np.array([1000.0]), np.array([cap]), np.array([0.0]), max_samples=cap
        )
        assert float(average[0]) == left


def test_smoothing_keeps_the_given_share_of_the_past() -> None:
    assert float(next_smoothed_usage(np.array([0.8]), np.array([0.2]), 0.9)[0]) == pytest.approx(
        0.74
    )


@pytest.mark.parametrize("seed", [DEFAULT_MSGS_PER_S, DEFAULT_BYTES_PER_S])
def test_the_first_sample_takes_the_place_of_what_is_assumed(seed: float) -> None:
    assert (DEFAULT_MSGS_PER_S, DEFAULT_BYTES_PER_S) == (50.0, 50_000.0)
    average, samples = next_average(
        np.array([seed]), np.zeros(1, np.int64), np.array([7.0]), max_samples=10
    )
    assert (float(average[0]), int(samples[0])) == (7.0, 1)


@pytest.mark.parametrize(
    ("load", "step", "steps"),
    [
        (49_999.0, TRAFFIC_STEP_BYTES_S, 0.0),
        (50_000.0, TRAFFIC_STEP_BYTES_S, 1.0),
        (250_000.0, TRAFFIC_STEP_BYTES_S, 3.0),  # halves go up, not to the even neighbour
        (49.0, RATE_STEP_MSGS_S, 0.0),
        (50.0, RATE_STEP_MSGS_S, 1.0),
    ],
)
def test_loads_rank_by_steps_as_the_real_class_compares_them(
    load: float, step: float, steps: float
) -> None:
    assert float(in_steps(np.array([load]), step)[0]) == steps


@pytest.mark.parametrize(
    ("release", "weighted", "limited"),
    [
        ("2.8.4", 0.98, 0.98),
        ("2.9.3", 0.98, 0.98),
        ("2.9.5", 0.98, 0.2),
        ("2.10.5", 0.98, 0.2),
        ("2.10.0", 0.98, 0.98),
        ("2.11.0", 0.98, 0.2),
        ("2.11.4", 0.98, 0.2),
        ("3.0.17", 0.2, 0.2),
        ("4.2.4", 0.1, 0.1),
    ],
)
def test_heap_and_direct_memory_weigh_what_the_release_gives_them(
    release: str, weighted: float, limited: float
) -> None:
    brokers = _brokers((10.0, 98.0, 20.0, 5.0, 5.0))
    settings = EffectiveSettings.defaults(release)
    assert weighted_max_usage(brokers, settings)[0] == pytest.approx(weighted, abs=1e-6)
    assert overload_usage(brokers, settings)[0] == pytest.approx(limited, abs=1e-6)
    assert limiting_resource(brokers, settings)[0] == (
        "memory" if weighted > 0.9 else "direct_memory" if weighted > 0.1 else "cpu"
    )
