"""Measures: one definition of balanced, and what is unknown is never green."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_builder import make_snapshot
from fleet_edit import edited, every

from core.findings.measures import Spread
from core.pulsar.measures import (
    TARGETS,
    MeasureName,
    Measures,
    Target,
    balance_sentence,
    measure,
    top_share_sentence,
)

NAN = float("nan")
_UNITS = {
    "usage": "ratio",
    "throughput": "bytes/s",
    "msg_rate": "msgs/s",
    "bundle_count": "bundles",
}


def spread(*values: float, name: MeasureName = "throughput") -> Spread:
    brokers = tuple(f"b{number}:8080" for number in range(len(values)))
    return Spread(name, "traffic", _UNITS[name], brokers, np.array(values, np.float64))


def measures(*traffic: float) -> Measures:
    return Measures(
        usage=spread(*traffic, name="usage"),
        throughput=spread(*traffic),
        msg_rate=spread(*traffic, name="msg_rate"),
        bundle_count=spread(*traffic, name="bundle_count"),
    )


def test_the_published_figures_come_out() -> None:
    one = spread(10.0, 20.0, 30.0)
    assert one.mean == 20.0
    assert one.max_deviation_ratio == pytest.approx(0.5)
    assert one.std == pytest.approx(np.std([10, 20, 30]))
    assert one.coefficient_ratio == pytest.approx(np.std([10, 20, 30]) / 20)
    assert one.worst == "b2:8080"
    assert one.coolest == "b0:8080"
    assert one.share_of_top(1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "deviation", "coefficient"),
    [
        ((), None, None),
        ((NAN, NAN), None, None),
        ((0.0, 0.0), 0.0, 0.0),
        ((7.0,), 0.0, 0.0),
        ((NAN, 4.0), 0.0, 0.0),
    ],
)
def test_edges_have_a_defined_value(values, deviation, coefficient) -> None:
    assert spread(*values).max_deviation_ratio == deviation
    assert spread(*values).coefficient_ratio == coefficient


def test_an_unknown_broker_takes_no_part_in_the_mean() -> None:
    one = spread(10.0, NAN, 30.0)
    assert one.mean == 20.0
    assert one.known_count == 2
    assert one.ranked == (2, 0)
    assert one.value_of("b1:8080") is None


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((10.0, 10.0, 10.0), "balanced"),
        ((10.0, 10.0, 13.0), "balanced"),
        ((10.0, 10.0, 16.0), "unbalanced"),
        ((10.0, NAN, 10.0), "unknown"),
        ((10.0, NAN, 90.0), "unbalanced"),
        ((NAN, NAN), "unknown"),
        ((), "unknown"),
    ],
)
def test_the_verdict_has_three_values(values, verdict) -> None:
    assert measures(*values).verdict(TARGETS[0]) == verdict


def test_exactly_on_the_target_is_balanced() -> None:
    target = Target(
        code="t", label="t", measure="throughput", statistic="max_deviation", bound=0.5, source=""
    )
    assert measures(10.0, 20.0, 30.0).verdict(target) == "balanced"


def test_a_target_may_look_at_the_standard_deviation() -> None:
    target = next(one for one in TARGETS if one.statistic == "std")
    assert measures(0.1, 0.9).verdict(target) == "unbalanced"
    assert measures(0.4, 0.6).verdict(target) == "balanced"


def test_a_snapshot_is_measured_by_its_reports_and_its_ownership() -> None:
    fleet = make_snapshot()
    found = measure(fleet)
    rows = fleet.brokers.to_pylist()
    assert found.throughput.values.tolist() == [
        row["msg_throughput_in"] + row["msg_throughput_out"] for row in rows
    ]
    assert found.bundle_count.total == found.owned_bundle_count == 600
    assert found.brokers == tuple(row["broker"] for row in rows)


def test_bundles_whose_owners_are_unknown_are_not_counted_as_none() -> None:
    fleet = every(make_snapshot(), "bundles", {"owner": None, "owner_source": None})
    found = measure(fleet)
    assert found.owned_bundle_count is None
    assert found.bundle_count.known_count == 0
    nobody = measure(every(make_snapshot(), "bundles", {"owner": None}))
    assert nobody.owned_bundle_count == 0


def test_a_rate_beyond_all_numbers_is_unknown() -> None:
    fleet = edited(
        make_snapshot(),
        "brokers",
        {"10.1.0.1:8080": {"msg_rate_in": 1.7e308, "msg_rate_out": 1.7e308}},
    )
    assert measure(fleet).msg_rate.value_of("10.1.0.1:8080") is None


def test_half_a_throughput_is_no_throughput() -> None:
    fleet = edited(make_snapshot(), "brokers", {"10.1.0.1:8080": {"msg_throughput_in": None}})
    assert measure(fleet).throughput.value_of("10.1.0.1:8080") is None


def test_without_bundles_the_reports_count_them() -> None:
    fleet = make_snapshot(missing=("bundles",))
    assert measure(fleet).bundle_count.total == 612


def test_without_brokers_everything_is_unknown() -> None:
    found = measure(make_snapshot(missing=("brokers",)))
    assert all(one.mean is None for one in found)
    assert found.verdict() == "unknown"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((), "No broker is known"),
        ((NAN, NAN), "None of the 2 brokers reports"),
        ((0.0, 0.0), "carry no traffic at all"),
        ((5.0,), "balancing does not apply"),
        ((10.0, 10.0, 10.0, 10.0), "25% of the traffic on 1 broker of 4; balanced"),
        (
            (10.0, 10.0, 10.0, 90.0),
            "75% of the traffic on 1 broker of 4; b3:8080 is 200%",
        ),
        ((10.0, NAN, 10.0, 10.0), "; the balance is unknown: 1 broker without a known value"),
    ],
)
def test_the_answer_is_one_sentence_for_every_state(values, words) -> None:
    sentence = balance_sentence(measures(*values))
    assert words in sentence
    assert sentence.endswith(".")


def test_the_busiest_quarter_is_named() -> None:
    assert top_share_sentence(spread(*range(1, 13))) == "42.3% of the traffic on 3 brokers of 12"


def test_values_are_written_with_their_unit() -> None:
    assert spread(1.0, name="usage").text_of(0.5) == "50%"
    assert spread(1.0).text_of(1.5e6) == "1.5 MB/s"
    assert spread(1.0, name="msg_rate").text_of(1.5e3) == "1.5k msg/s"
    assert spread(1.0, name="bundle_count").text_of(3.0) == "3 bundles"
    assert spread(1.0).text_of(None) == "unknown"


def test_every_broker_without_a_usage_is_unknown() -> None:
    blank = {
        f"{name}_{part}": None
        for name in ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")
        for part in ("usage", "limit", "ratio")
    }
    assert measure(every(make_snapshot(), "brokers", blank)).usage.known_count == 0
