"""What the Rebalance page says of plans and gates: one measure, and no digits that say nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from fleet_builder import make_snapshot

from core.findings.measures import Spread
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.clients import ClientImpact
from core.pulsar.plan.preview import preview_plan
from core.pulsar.shedding import Decision, Round
from core.pulsar.shedding.gates import at_least
from dashboard.charts.bars import BeforeAfter, before_after_bars
from dashboard.presenters.pulsar import rebalance_plan
from dashboard.presenters.pulsar.rebalance import IN_FORCE, Line, answer

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def spread(*values: float) -> Spread:
    names = tuple(f"b{row}" for row in range(len(values)))
    return Spread("throughput", "traffic", "bytes/s", names, np.array(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((100.0, 110.0, 30.0), (0.625, "b2")),
        ((100.0, 160.0, 100.0), (1 / 3, "b1")),
        ((100.0, np.nan, 50.0), (1 / 3, "b0")),
        ((0.0, 0.0), None),
        ((np.nan,), None),
    ],
)
def test_the_farthest_broker_is_the_one_farthest_above_or_below_the_mean(values, expected):
    found = rebalance_plan.farthest(spread(*values))
    assert found == (None if expected is None else (pytest.approx(expected[0]), expected[1]))


def test_the_plan_speaks_of_the_farthest_broker_and_who_takes_the_bundles():
    snapshot = make_snapshot(brokers=4, bundles=60, now=NOW)
    rows = snapshot.bundles.to_pylist()
    hot = max(
        (row for row in rows if row["owner"] == "10.1.0.1:8080"),
        key=lambda row: row["msg_throughput_in"] or 0.0,
    )
    plan = build_unload_plan(snapshot, [hot["bundle"]], destination="10.1.0.4:8080", now=NOW)
    said = rebalance_plan.answer(plan, preview_plan(snapshot, plan))
    assert said.startswith("Unloading 1 bundle (")
    assert "farthest broker" in said
    assert said.endswith("deviation from mean traffic; 10.1.0.4:8080 is asked to take it.")


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("times", 302_393_412.0, "more than 1,000 times, far over 4.00 times"),
        ("percent", 3e10, "more than 100,000%, far over 4%"),
        ("times", 6.5, "6.50 times is 2.50 times over 4.00 times"),
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
    assert names == [
        "before",
        "after, within 20% of the mean",
        "after, 20% to 40% off",
        "after, farther than 40%",
    ]


def test_a_strategy_whose_bundles_all_stay_is_not_said_to_do_nothing_and_unload():
    stays = "placement would give it back to the broker that it is on"
    selects = Decision(
        label="success", reason="overloaded", sentence="UniformLoadShedder unloads 2 bundles."
    )
    line = Line(
        name="UniformLoadShedder",
        mark=IN_FORCE,
        settings="",
        first=Round(
            decision=selects, moves=(), skipped={"a/b/0x0_0x1": stays, "a/b/0x1_0x2": stays}
        ),
        acting=0,
        impact=ClientImpact(
            bundles=0,
            producers=0,
            consumers=0,
            topics=0,
            cache_bytes=0,
            msg_rate_msgs_per_s=0.0,
            throughput_bytes_per_s=0.0,
        ),
        simulated=None,
    )
    assert answer(line, (), None) == (
        "UniformLoadShedder, active here, would unload nothing now: "
        f"it selects 2 bundles and unloads none ({stays})."
    )
