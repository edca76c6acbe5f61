"""What the Rebalance page says of plans and gates: one measure, and no digits that say nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from fleet_builder import make_snapshot

from core.findings.measures import Spread
from core.optimize import Proposal
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan
from core.pulsar.shedding import BrokerTrace, Gate
from core.pulsar.shedding.gates import at_least
from dashboard.charts.bars import BeforeAfter, before_after_bars
from dashboard.charts.dumbbell import MAX_A_SIDE, deviation_dumbbells, pairs_of
from dashboard.charts.template import band_legend
from dashboard.presenters.pulsar import rebalance_plan
from dashboard.presenters.pulsar.rebalance import (
    gates_table,
    missed_target,
    missed_target_sentence,
    trail_table,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def spread(*values: float) -> Spread:
    names = tuple(f"b{row}" for row in range(len(values)))
    return Spread("throughput", "traffic", "bytes/s", names, np.array(values))


@pytest.mark.parametrize(
    ("values", "busiest", "band"),
    [
        ((100.0, 110.0, 30.0), 0.375, 0.625),
        ((100.0, 160.0, 100.0), 1 / 3, 1 / 3),
        ((100.0, np.nan, 50.0), 1 / 3, 1 / 3),
        ((0.0, 0.0), 0.0, 0.0),
        ((np.nan,), None, None),
    ],
)
def test_the_max_deviation_is_of_the_busiest_broker_and_the_band_of_all(values, busiest, band):
    found = spread(*values)
    assert (found.max_deviation_ratio, found.band_ratio) == (
        pytest.approx(busiest),
        pytest.approx(band),
    )


def test_the_plan_speaks_of_the_busiest_broker_and_who_takes_the_bundles():
    snapshot = make_snapshot(brokers=4, bundles=60, now=NOW)
    rows = snapshot.bundles.to_pylist()
    hot = max(
        (row for row in rows if row["owner"] == "10.1.0.1:8080"),
        key=lambda row: row["msg_throughput_in"] or 0.0,
    )
    plan = build_unload_plan(snapshot, [hot["bundle"]], destination="10.1.0.4:8080", now=NOW)
    said = rebalance_plan.answer(plan, preview_plan(snapshot, plan))
    assert said.startswith("Unload 1 bundle (")
    assert "max traffic deviation from +" in said
    assert said.endswith("%; requested destination: 10.1.0.4:8080.")


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("times", 302_393_412.0, "more than 1,000 times, far above 4.00 times"),
        ("percent", 3e10, "more than 100,000%, far above 4%"),
        ("times", 6.5, "6.50 times is 2.50 times above 4.00 times"),
    ],
)
def test_a_value_divided_by_next_to_nothing_is_said_in_words(unit, value, words):
    gate = at_least("the highest over the lowest", value, 4.0, unit)
    assert gate.is_open
    assert gate.measured == value
    assert words in gate.sentence
    assert ("lowest has almost" in gate.sentence) == (value > 1_000)


def test_every_colour_of_the_diamonds_has_its_entry_in_the_legend():
    after = np.array([100.0, 130.0, 160.0, 10.0])
    data = BeforeAfter(["a", "b", "c", "d"], after, after, after, after, 100.0, 0.2, "bytes/s")
    names = [trace.name for trace in before_after_bars(data).data]
    assert names == ["before", *(f"after, {one}" for one in band_legend(0.2).values())]
    assert list(band_legend(0.2).values()) == ["within ±20%", "outside ±20%", "outside ±40%"]


@pytest.mark.parametrize(
    ("measured", "threshold", "expected"),
    [
        (5.0, 10.0, 50.0),
        (10.0, 10.0, 100.0),
        (90.0, 10.0, 900.0),
        (np.nan, 10.0, None),
        (1.0, 0.0, None),
    ],
)
def test_a_gate_is_a_bar_of_the_measured_value_against_the_threshold(measured, threshold, expected):
    gate = Gate(
        name="points over the mean",
        measured=measured,
        threshold=threshold,
        unit="points",
        is_open=False,
        distance=1.0,
        sentence="",
    )
    trace = BrokerTrace(broker="b1", sheds=False, gates=(gate,), sentence="It stays.")
    for rows in (trail_table(trace), gates_table([trace])):
        row = rows.iloc[0]
        reached = row["reached"]
        assert pd.isna(reached) if expected is None else reached == expected
        assert row["threshold"] == f"{threshold:.1f} points"
        assert row["distance"] == "1.0 points to threshold"


def test_on_a_large_fleet_the_worst_of_each_side_are_drawn():
    deviations = np.linspace(-1.0, 1.0, 101)
    deviations[50] = np.nan
    names = [f"b{row}" for row in range(101)]
    pairs = pairs_of(names, deviations, deviations / 2)
    assert len(pairs.brokers) == 2 * MAX_A_SIDE
    assert pairs.left_out == 100 - 2 * MAX_A_SIDE
    assert pairs.brokers[0] == "b100"
    assert pairs.brokers[-1] == "b0"
    assert np.all(np.diff(pairs.now) < 0)
    assert np.array_equal(pairs.after, pairs.now / 2)
    band, *traces = deviation_dumbbells(pairs, 0.2).data
    assert band.mode == "lines"
    assert [trace.name for trace in traces] == ["now", "after"]


def test_a_fleet_without_a_plan_is_drawn_as_it_is():
    pairs = pairs_of(["a", "b"], np.array([-0.5, 0.5]), np.array([np.nan, np.nan]))
    assert [trace.name for trace in deviation_dumbbells(pairs, 0.2).data[1:]] == ["now"]


def test_what_a_plan_moves_is_summed_by_source_and_destination():
    snapshot = make_snapshot(brokers=4, bundles=60, now=NOW)
    owned = [
        row["bundle"] for row in snapshot.bundles.to_pylist() if row["owner"] == "10.1.0.1:8080"
    ]
    plan = build_unload_plan(snapshot, owned[:3], destination="10.1.0.4:8080", now=NOW)
    rows = rebalance_plan.transfers(preview_plan(snapshot, plan))
    assert rows[["from", "to", "bundles"]].to_numpy().tolist() == [
        ["10.1.0.1:8080", "10.1.0.4:8080", 3]
    ]


def proposal(**fields):
    known = {"verdict": "best_effort", "sentence": "", "measure": "throughput", "goal": ""}
    band = {"low": 80.0, "high": 120.0, "deviation_after": 0.3, "deviation_floor": 0.264}
    return Proposal(**{**known, **band, **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verdict": "reached"}, ("", "")),
        (
            {},
            (
                "Target ±20% not reached",
                "Target ±20% not reached; best plan: ±30%. Reasons: tab Why.",
            ),
        ),
        (
            {"lower_bound_bytes_per_s": None},
            (
                "Target ±20% not reachable",
                (
                    "Target ±20% not reachable; best plan: ±30%, "
                    "lower bound: ±26.4%. Reasons: tab Why."
                ),
            ),
        ),
        (
            {"low": float("-inf"), "high": 0.5, "measure": "usage"},
            (
                "Target max usage 50% not reached",
                "Target max usage 50% not reached; best plan: max usage 65%. Reasons: tab Why.",
            ),
        ),
    ],
)
def test_a_missed_target_is_said_with_what_the_best_plan_reaches(fields, expected):
    optimal = proposal(**fields)
    said = missed_target(optimal, 0.2), missed_target_sentence(optimal, 0.2)
    assert said == expected
