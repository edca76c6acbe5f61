"""Scenarios out of public reports on Pulsar's balancing that no other test holds.

The others stand beside the rules that they are about:

* PIP-364 (apache/pulsar pull request 22946): 90 beside 10 that is over-corrected by the weight of
  history; 40, 40, 40, 40, 69, 70; 10, 60, 70, 80, 80. In ``test_shedding_strategies.py``.
* Issue 21299 (UniformLoadShedder between two brokers, its minimums lowered): in
  ``test_shedding_strategies.py``, as is the idle broker beside one at 10 percent.
* Pull request 16476 (isolation that leaves no destination): in ``test_shedding_rounds.py``.
* A bundle of one topic that can never be split: in ``test_split_answer.py``.
"""

from __future__ import annotations

import itertools
from datetime import timedelta

import pyarrow as pa
from actions_world import MOVABLE, plan_of
from actions_world import World as Stage
from fleet_builder import make_snapshot
from shedding_world import MB, Broker, Bundle, World, even

from core.actions.model import RunOptions
from core.ids import parse_range, range_text
from core.pulsar.plan.build import build_unload_plan
from core.pulsar.shedding import find_shedding_strategy, shed_rounds
from core.snapshot import PulsarSnapshot

ROUNDS = 4
HOT = "a:8080"


# -- the bundle that returns to the same broker (pull requests 442 and 16476)


def _busy_by_cpu_idle_by_messages(**conf: object) -> World:
    """The busiest broker has the fewest messages, which is what default placement goes by."""
    big = [Bundle(60 * MB, 5.0), Bundle(50 * MB, 5.0), Bundle(40 * MB, 5.0)]
    brokers = {"a": Broker(80, big)}
    brokers |= {name: Broker(20, even(3, 30 * MB, 9_000)) for name in "bc"}
    return World(brokers, {"loadBalancerDistributeBundlesEvenlyEnabled": False, **conf})


def test_a_bundle_that_would_return_to_its_broker_is_never_unloaded_and_the_answer_says_so() -> (
    None
):
    world = _busy_by_cpu_idle_by_messages()
    strategy = find_shedding_strategy("ThresholdShedder")
    rounds = shed_rounds(strategy, world.view(), world.settings())
    for done in itertools.islice(rounds, ROUNDS):
        picked = {move.bundle for move in done.decision.moves}
        assert {move.broker for move in done.decision.moves} == {HOT}
        assert not done.moves
        assert set(done.skipped) == picked
        assert all("return it" in why for why in done.skipped.values())


def test_placement_by_the_measure_that_shedding_goes_by_lets_it_leave() -> None:
    world = _busy_by_cpu_idle_by_messages(
        loadBalancerLoadPlacementStrategy="LeastResourceUsageWithWeight"
    )
    strategy = find_shedding_strategy("ThresholdShedder")
    done = next(shed_rounds(strategy, world.view(), world.settings()))
    assert done.moves
    assert not done.skipped
    assert all(HOT not in found for found in done.destinations.values())


# -- boundaries that changed by a split between plan and apply (issue 821)


def _split(snapshot: PulsarSnapshot, bundle: str) -> tuple[PulsarSnapshot, list[str]]:
    """Return the cluster a moment later, the bundle cut in two, and the names of the halves."""
    rows = snapshot.bundles.to_pylist()
    whole = next(row for row in rows if row["bundle"] == bundle)
    lower, upper = parse_range(bundle.rpartition("/")[2])
    cut = (lower + upper) // 2
    halves = [
        {
            **whole,
            "bundle": f"{whole['namespace']}/{range_text(*pair)}",
            "lower": pair[0],
            "upper": pair[1],
        }
        for pair in ((lower, cut), (cut, upper))
    ]
    rows = [row for row in rows if row["bundle"] != bundle] + halves
    table = pa.Table.from_pylist(rows, schema=snapshot.bundles.schema)
    tables = {**snapshot.tables, "bundles": table}
    return PulsarSnapshot.build(snapshot.manifest, tables), [half["bundle"] for half in halves]


def test_a_plan_made_before_a_split_is_refused_after_it_and_names_the_parts() -> None:
    before = make_snapshot()
    bundle = next(
        row["bundle"]
        for row in before.bundles.to_pylist()
        if row["owner"] and ":" not in row["namespace"]
    )
    now = before.manifest.taken_at + timedelta(seconds=20)
    assert build_unload_plan(before, [bundle], now=now).applyable
    after, halves = _split(before, bundle)
    again = build_unload_plan(after, [bundle], now=now)
    assert not again.applyable
    (found,) = [item for item in again.diagnostics if item.code == "bundle_split"]
    assert all(half in found.sentence for half in halves)
    assert found.hint == "Specify the parts."
    assert build_unload_plan(after, halves, now=now).applyable


def test_a_bundle_that_is_split_during_the_run_is_skipped_and_nothing_is_sent_for_it() -> None:
    first, second, third = MOVABLE[:3]
    stage = Stage()
    plan = plan_of(stage, [first, second, third])
    stage.ask(plan=plan, options=RunOptions(pace_per_min=600, verify_within_s=5.0))
    stage.at(0.4, lambda: stage.gone.add(second))
    assert stage.work() == "FAILED"  # its parts are where they were
    ended = [step.result.code if step.result else step.state for step in stage.view.steps]
    assert ended == ["landed", "gone", "landed"]
    assert f"Not unloaded: 1 ({second})." in stage.view.sentence
    assert second not in {bundle for _, _, bundle in stage.sends}
