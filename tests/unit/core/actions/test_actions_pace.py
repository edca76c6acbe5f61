"""The pace rises step by step and falls at trouble; the first step can be a canary."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from actions_world import BASE, MOVABLE, OWNERS, Faults, World, plan_of

from core.actions.events import StepStarted, StepWaiting
from core.actions.model import RunOptions
from core.actions.pace import pace_of
from core.actions.request import RunLimits, check_options
from core.errors import InputError
from core.plan.model import BrokerExpectation, Expected, sealed
from core.pulsar.measures import measure

FOUR = MOVABLE[:4]
LOAD = measure(BASE)
BROKER = OWNERS[MOVABLE[0]]


def begun_at_s(world: World) -> list[float]:
    return [
        (entry.record.at - world.entries[0].record.at).total_seconds()
        for entry in world.entries
        if isinstance(entry.record.event, StepStarted)
    ]


def gaps(world: World) -> list[float]:
    times = begun_at_s(world)
    return [round(after - before) for before, after in itertools.pairwise(times)]


def test_a_run_begins_at_a_quarter_of_its_pace_and_rises_with_each_good_step() -> None:
    world = World()
    world.ask(bundles=MOVABLE[:6], options=RunOptions(pace_per_min=6, is_gradual=True))
    world.outlive()
    assert world.view.state == "DONE"
    # 60/6 = 10 s at the limit; after the first good step half of it, then three quarters, then all
    assert gaps(world) == [20, 13, 10, 10, 10]


def test_without_it_the_pace_is_the_limit_from_the_first_step_on() -> None:
    world = World()
    world.ask(bundles=FOUR, options=RunOptions(pace_per_min=6))
    world.outlive()
    assert gaps(world) == [10, 10, 10]
    assert pace_of(world.view).why == ""


def test_a_failed_step_halves_the_pace_and_says_so() -> None:
    world = World()
    world.faults[FOUR[1]] = Faults(answer="refused")
    options = RunOptions(pace_per_min=6, is_gradual=True, max_failures=2)
    world.ask(bundles=MOVABLE[:6], options=options)
    world.outlive()
    # one good step: a half; the refused one: a quarter; then a half and three quarters again
    assert gaps(world)[:4] == [20, 40, 20, 13]


def test_a_slow_step_halves_the_pace() -> None:
    world = World()
    world.faults[FOUR[0]] = Faults(after_s=20.0)
    world.ask(bundles=FOUR, options=RunOptions(pace_per_min=6, is_gradual=True))
    world.at(25.0, lambda: None)
    world.outlive()
    first = pace_of(replace(world.view, steps=world.view.steps[:1]))
    assert first.per_min == 0.75
    assert "step 1 took 20" in first.why
    assert "0.75 of at most 6 steps/min" in first.sentence


def test_a_worker_that_takes_over_goes_on_at_the_same_pace() -> None:
    whole, broken = World(), World()
    for world in (whole, broken):
        world.ask(bundles=FOUR, options=RunOptions(pace_per_min=6, is_gradual=True))
    whole.outlive()
    broken.outlive(deaths=[len(whole.crossings) // 2])
    assert broken.view.takeovers == 1
    assert broken.view.state == "DONE"
    assert all(gap >= least for gap, least in zip(gaps(broken), gaps(whole), strict=True))
    assert pace_of(broken.view) == pace_of(whole.view)


def expecting(world: World, **numbers: float) -> None:
    """Request four moves, with what the brokers carried before."""
    expected = Expected(brokers=(BrokerExpectation(broker=BROKER, **numbers),))
    plan = sealed(replace(plan_of(world, FOUR), expected=expected))
    world.ask(plan=plan, options=RunOptions(pace_per_min=600, canary_s=60))


def carried() -> tuple[float, float]:
    usage, traffic = LOAD.usage.value_of(BROKER), LOAD.throughput.value_of(BROKER)
    assert usage is not None
    assert traffic is not None
    return usage, traffic


def test_the_rest_begins_after_the_first_step_was_observed() -> None:
    world = World()
    usage, traffic = carried()
    expecting(world, usage_before=usage, throughput_before=traffic)
    world.outlive()
    assert world.view.state == "DONE"
    assert gaps(world)[0] >= 60
    assert max(gaps(world)[1:]) < 5
    told = [event.sentence for event in world.events(StepWaiting)]
    assert "observed for 60 s" in told[0]
    assert "carry" in told[1]
    assert "before:" in told[1]


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ((1.0, 4.0), "at least"),  # its clients did is not back
        ((0.0, 1.0), "at most"),  # it is busier than any was to be
    ],
)
def test_a_cluster_that_is_not_well_ends_the_run_with_figures_and_limit(factors, said) -> None:
    world = World()
    usage, traffic = carried()
    assert usage > 0.1
    expecting(
        world,
        usage_before=factors[0] * usage,
        usage_after=factors[0] * usage,
        throughput_before=factors[1] * traffic,
    )
    world.outlive()
    assert world.view.state == "FAILED"
    assert len(world.sends) == 1
    assert [step.state for step in world.view.steps] == ["DONE", *["SKIPPED"] * 3]
    result = world.view.steps[1].result
    assert result is not None
    assert result.code == "canary_failed"
    assert said in result.sentence
    assert BROKER in result.sentence or "carry" in result.sentence


def test_a_canary_that_fails_ends_the_run_whatever_the_options_allow() -> None:
    world = World()
    world.faults[FOUR[0]] = Faults(answer="refused")
    world.ask(bundles=FOUR, options=RunOptions(pace_per_min=600, max_failures=4, canary_s=60))
    world.outlive()
    assert world.view.steps[1].result is not None
    assert world.view.steps[1].result.code == "canary_failed"
    assert len(begun_at_s(world)) == 1


def test_killed_anywhere_around_the_gate_the_next_worker_observes_again() -> None:
    """Every crossing of every port is a kill point: what was sent stays sent once."""
    usage, traffic = carried()
    whole = World()
    expecting(whole, usage_before=usage, throughput_before=traffic)
    whole.outlive()
    points = len(whole.crossings)
    assert points > 200
    for point in range(0, points, 3):
        world = World()
        expecting(world, usage_before=usage, throughput_before=traffic)
        view = world.outlive(deaths=[point])
        assert view.is_ended, point
        sent = [bundle for _, _, bundle in world.sends]
        assert len(sent) == len(set(sent)), point
        if len(begun_at_s(world)) > 1:
            assert gaps(world)[0] >= 60, point


def test_a_run_may_ask_for_a_longer_look_and_never_for_a_shorter_one() -> None:
    limits = RunLimits(
        pace_per_min=10, max_failures=1, max_steps=9, is_read_only=False, canary_s=30
    )
    check_options(RunOptions(canary_s=60), limits)
    for asked in (0, 301):
        with pytest.raises(InputError, match="canary_s"):
            check_options(RunOptions(canary_s=asked), limits)
