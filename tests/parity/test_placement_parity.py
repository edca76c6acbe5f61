"""Placement gives what Pulsar's own classes give, on generated fleets.

The load manager as a whole is asked many times for each bundle: whom it picks must have a
probability in our answer, as often as that probability says.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from placement_fleets import STRATEGIES, Fleet, make_fleet, make_report
from pulsar_jars import SkipReason

from core.pulsar.placement import Placement, PlacementMemory, place_all, place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

FLEETS = 240
DRAWS = 120
# thousands of counts are looked at in each run, so one in a billion is far out
UNBELIEVABLE = 1e-9
ROUNDS = 6

Case = dict[str, Any]


def _questions(fleet: Fleet) -> list[str]:
    """One bundle of each namespace (the others have the same answer), none that was just given."""
    free = [bundle for bundle in fleet.bundles if bundle not in fleet.preallocated]
    return sorted({bundle.rpartition("/")[0]: bundle for bundle in free}.values())


def _asked(fleet: Fleet, draws: int) -> Case:
    return fleet.case([{"bundle": bundle, "draws": draws} for bundle in _questions(fleet)])


def _calm_fleet(seed: int) -> Fleet:
    """Nobody is overloaded: the candidates of the first pick stay to be seen."""
    fleet = make_fleet(seed, "LeastLongTermMessageRate")
    fleet.conf["loadBalancerBrokerOverloadedThresholdPercentage"] = 1_000
    return fleet


def _rounds(seed: int, strategy: str) -> list[Fleet]:
    """The same fleet with other loads, round after round."""
    rng = random.Random(seed)
    first = make_fleet(seed, strategy)
    first.preallocated.clear()
    rounds = [first]
    for _ in range(ROUNDS - 1):
        reports = {name: make_report(rng) for name in first.reports}
        for name, report in reports.items():
            report["bundles"] = first.owned[name]
        rounds.append(replace(first, reports=reports))
    return rounds


def _round_case(rounds: list[Fleet]) -> Case:
    told = [fleet.case([]) for fleet in rounds]
    return {"conf": told[0]["conf"], "rounds": told}


pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars

WHOLE = [make_fleet(seed) for seed in range(FLEETS)]
CALM = [_calm_fleet(seed) for seed in range(1_000, 1_120)]
ALONE = {
    strategy: [_rounds(seed, strategy) for seed in range(2_000, 2_100)]
    for strategy in STRATEGIES[:2]
}
TURNS = [_rounds(seed, STRATEGIES[2])[:1] * 20 for seed in range(3_000, 3_060)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Answers of the real classes, by group of cases; one process for all."""
    command = driver_command()
    if isinstance(command, SkipReason):
        pytest.skip(command)
    groups: dict[str, list[Case]] = {
        "whole": [_asked(fleet, DRAWS) for fleet in WHOLE],
        "calm": [_asked(fleet, 1) for fleet in CALM],
        **{name: [_round_case(rounds) for rounds in fleets] for name, fleets in ALONE.items()},
        "turns": [_round_case(rounds) for rounds in TURNS],
    }
    cases = [case for group in groups.values() for case in group]
    answers = iter(ask_real_classes(cases, tmp_path_factory.mktemp("parity")))
    return {name: [next(answers)["answers"] for _ in group] for name, group in groups.items()}


def _view(fleet: Fleet) -> tuple[LoadView, Any, PlacementMemory]:
    snapshot = fleet.snapshot()
    settings = effective_settings(snapshot, overrides=fleet.overrides())
    memory = PlacementMemory(preallocated=fleet.preallocated)
    return LoadView.of(snapshot, settings), settings, memory


def _takes_turns_twice(fleet: Fleet, placement: Placement) -> bool:
    """Whether two turns of one counter make the pick: then one turn settles the other."""
    return fleet.strategy == "RoundRobinBrokerSelector" and any(
        "another broker is selected" in note for note in placement.notes
    )


def _likelihood(total: int, chance: float, seen: int) -> float:
    """Probability of a count at least as far out as ``seen``; exact, a normal curve is not."""
    weights = [
        math.comb(total, k) * chance**k * (1.0 - chance) ** (total - k) for k in range(total + 1)
    ]
    return 2.0 * min(sum(weights[: seen + 1]), sum(weights[seen:]))


def _disagreement(counts: dict[str, int], distribution: dict[str, float], *, exact: bool) -> str:
    """What the draws say against the distribution; blank when they fit."""
    total = sum(counts.values())
    if not distribution:
        return "" if set(counts) == {""} else f"nobody expected, got {counts}"
    for broker in counts.keys() | distribution.keys():
        chance, seen = distribution.get(broker, 0.0), counts.get(broker, 0)
        if chance == 0.0:
            return f"{broker} was picked, and is ruled out"
        if exact and _likelihood(total, chance, seen) < UNBELIEVABLE:
            return f"{broker} was picked {seen} of {total} times, p is {chance:.3f}"
    return ""


@pytest.mark.slow
def test_the_load_manager_picks_whom_we_say_as_often_as_we_say(told: dict[str, list[Any]]) -> None:
    wrong, asked = [], 0
    for fleet, answers in zip(WHOLE, told["whole"], strict=True):
        view, settings, memory = _view(fleet)
        for bundle, answer in zip(_questions(fleet), answers, strict=True):
            placement = place_bundle(view, bundle, settings, memory=memory)
            exact = not _takes_turns_twice(fleet, placement)
            problem = _disagreement(answer["counts"], placement.distribution, exact=exact)
            asked += 1
            if problem:
                wrong.append(f"seed {fleet.seed} {fleet.strategy} {bundle}: {problem}")
    assert asked > 2 * FLEETS
    assert wrong == []


@pytest.mark.slow
def test_the_candidates_are_the_load_managers(told: dict[str, list[Any]]) -> None:
    for fleet, answers in zip(CALM, told["calm"], strict=True):
        view, settings, memory = _view(fleet)
        for bundle, answer in zip(_questions(fleet), answers, strict=True):
            placement = place_bundle(view, bundle, settings, memory=memory)
            assert sorted(placement.candidates) == answer["candidates"], (fleet.seed, bundle)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(ALONE))
def test_a_strategy_alone_draws_from_the_same_set_with_its_memory_carried_on(
    strategy: str, told: dict[str, list[Any]]
) -> None:
    for rounds, answers in zip(ALONE[strategy], told[strategy], strict=True):
        memory = PlacementMemory()
        for fleet, answer in zip(rounds, answers, strict=True):
            view, settings, _ = _view(fleet)
            placement = place_bundle(
                view, fleet.bundles[0], settings, with_filters=False, memory=memory
            )
            assert sorted(placement.distribution) == answer["best"], fleet.seed
            memory = placement.after


@pytest.mark.slow
def test_round_robin_alone_takes_turns_among_all(told: dict[str, list[Any]]) -> None:
    for rounds, answers in zip(TURNS, told["turns"], strict=True):
        view, settings, _ = _view(rounds[0])
        placement = place_bundle(view, rounds[0].bundles[0], settings, with_filters=False)
        chosen = [answer["chosen"] for answer in answers]
        counts = {name: chosen.count(name) for name in placement.distribution}
        assert set(chosen) <= set(placement.distribution)
        assert max(counts.values()) - min(counts.values()) <= 1, rounds[0].seed


@pytest.mark.slow
def test_a_known_counter_names_the_broker_whose_turn_it_is(told: dict[str, list[Any]]) -> None:
    agreeing = 0
    for rounds, answers in zip(TURNS, told["turns"], strict=True):
        view, settings, _ = _view(rounds[0])
        memory = PlacementMemory(round_robin_count=0)
        for answer in answers:
            placement = place_bundle(
                view, rounds[0].bundles[0], settings, with_filters=False, memory=memory
            )
            agreeing += placement.distribution == {answer["chosen"]: 1.0}
            memory = placement.after
    assert agreeing == sum(len(answers) for answers in told["turns"])


def test_asking_for_all_bundles_gives_what_asking_for_each_gives() -> None:
    for seed in range(4_000, 4_060):
        fleet = make_fleet(seed)
        view, settings, _ = _view(fleet)
        table = place_all(view, settings)
        for bundle in fleet.bundles:
            assert table.distribution(bundle) == place_bundle(view, bundle, settings).distribution


def test_the_generator_makes_what_the_filters_are_about() -> None:
    assert {fleet.strategy for fleet in WHOLE} == set(STRATEGIES)
    for wanted in ("isolation", "groups", "domains", "preallocated"):
        assert sum(bool(getattr(fleet, wanted)) for fleet in WHOLE) > FLEETS // 6, wanted
    assert sum(bool(fleet.conf.get("preferLaterVersions")) for fleet in WHOLE) > FLEETS // 6
