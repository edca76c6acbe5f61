"""The shedding classes give what Pulsar's own give, move for move, on generated fleets.

What the real ones picked is kept under ``golden``; where Pulsar's jars can be had, a sample is
asked again in every run, and all of them in the long one.
"""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from placement_driver import driver_command
from pulsar_jars import SkipReason
from sampled import EVERY
from shedding_fleets import STRATEGIES, Fleet, make_fleet
from shedding_golden import FLEETS, Round, ask, compact, line_of, load_golden, strategies_of

from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import Decision, find_shedding_strategy
from core.pulsar.view import LoadView

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars

RELEASE = "4.2.4"
OLDER = ("2.10.5", "2.11.0", "3.0.7")
Answers = dict[int, dict[str, list[Round]]]
SAMPLE = range(0, FLEETS, 10)


def _views(fleet: Fleet, settings: EffectiveSettings) -> list[LoadView]:
    return [LoadView.of(fleet.snapshot(load), settings) for load in fleet.loads]


def _decisions(
    fleet: Fleet, settings: EffectiveSettings, strategy_name: str, views: list[LoadView]
) -> list[Decision]:
    strategy = find_shedding_strategy(strategy_name)
    config, state = strategy.config(settings), strategy.initial_state()
    found = []
    for at in fleet.rounds:
        decision, state = strategy.decide(views[at], config, state, frozenset(fleet.recent))
        found.append(decision)
    return found


def _as_told(decisions: list[Decision]) -> list[Round]:
    return [
        [[broker, bundles] for broker, bundles in decision.bundles_by_broker().items()]
        for decision in decisions
    ]


@functools.cache
def _golden(release: str = RELEASE) -> dict[str, Any]:
    return load_golden(release)


@pytest.fixture(scope="module")
def jars() -> None:
    """Skip where the real classes cannot be run."""
    command = driver_command("SheddingDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)


@pytest.fixture(scope="module")
def told(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What the real classes pick on the sample, now."""
    return ask(SAMPLE, tmp_path_factory.mktemp("shedding"))


def test_the_generated_fleets_hold_what_they_are_meant_to() -> None:
    fleets = [make_fleet(seed) for seed in range(FLEETS)]
    sizes = Counter(len(fleet.loads[0].reports) for fleet in fleets)
    reports = [report for fleet in fleets for report in fleet.loads[0].reports.values()]
    counts = Counter(min(len(report["bundles"]), 2) for report in reports)
    assert min(sizes) == 1
    assert max(sizes) == 200
    assert all(counts[size] > 100 for size in (0, 1, 2))
    assert sum(bool(fleet.recent) for fleet in fleets) > 100
    assert sum(len(fleet.rounds) > 1 for fleet in fleets) > 200
    assert sum(len(fleet.loads) > 1 for fleet in fleets) > 80


@EVERY
@pytest.mark.parametrize(
    ("release", "strategies"), [("4.2.4", STRATEGIES), ("4.0.8", ("UniformLoadShedder",))]
)
def test_every_move_is_the_real_class_s_move(
    release: str, strategies: tuple[str, ...], every: int
) -> None:
    line = line_of(release)
    golden = _golden(release)["answers"]
    wrong = []
    acted = Counter[str]()
    seeds = range(0, FLEETS, every)
    for seed in seeds:
        fleet = make_fleet(seed, line)
        settings = EffectiveSettings.defaults(line, fleet.conf)
        views = _views(fleet, settings)
        for name in strategies:
            decisions = _decisions(fleet, settings, name, views)
            acted[name] += any(decision.moves for decision in decisions)
            if compact(fleet, _as_told(decisions)) != golden[str(seed)][name]:
                wrong.append((name, seed))
    assert wrong == []
    assert all(acted[name] > len(seeds) // 4 for name in strategies)


@EVERY
@pytest.mark.parametrize("release", OLDER)
def test_every_move_of_an_older_release_is_its_class_s_move(release: str, every: int) -> None:
    line, golden = line_of(release), _golden(release)
    names = strategies_of(release)
    wrong = []
    acted = Counter[str]()
    seeds = range(0, golden["fleets"], every)
    for seed in seeds:
        fleet = make_fleet(seed, line)
        if len(fleet.loads[0].reports) > 50:
            continue  # large ones take long, and say no more about a release
        settings = EffectiveSettings.defaults(release, fleet.conf)
        views = _views(fleet, settings)
        for name in names:
            decisions = _decisions(fleet, settings, name, views)
            acted[name] += any(decision.moves for decision in decisions)
            if compact(fleet, _as_told(decisions)) != golden["answers"][str(seed)][name]:
                wrong.append((name, seed))
    assert wrong == []
    assert all(acted[name] > len(seeds) // 8 for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("release", OLDER)
def test_the_older_classes_still_pick_what_is_kept(release: str, tmp_path: Path) -> None:
    command = driver_command("SheddingDriver", release)
    if isinstance(command, SkipReason):
        pytest.skip(command)
    line, golden = line_of(release), _golden(release)["answers"]
    for seed, by_name in ask(range(0, 150, 5), tmp_path, release).items():
        fleet = make_fleet(seed, line)
        for name, rounds in by_name.items():
            assert compact(fleet, rounds) == golden[str(seed)][name], (seed, name)


def test_4_0_s_uniform_shedder_takes_bundles_that_4_2_s_leaves() -> None:
    old, new = _golden("4.0.8")["answers"], _golden()["answers"]
    name = "UniformLoadShedder"
    assert sum(old[str(seed)][name] != new[str(seed)][name] for seed in range(FLEETS)) > 10


@pytest.mark.slow
def test_the_real_classes_still_pick_what_is_kept(told: Answers) -> None:
    _compare(told)


@pytest.mark.slow
@pytest.mark.usefixtures("jars")
def test_the_real_classes_still_pick_what_is_kept_on_all_fleets(tmp_path: Path) -> None:
    _compare(ask(range(FLEETS), tmp_path))


def _compare(told: Answers) -> None:
    for seed, by_name in told.items():
        fleet = make_fleet(seed)
        for name, rounds in by_name.items():
            assert compact(fleet, rounds) == _golden()["answers"][str(seed)][name], (seed, name)


def test_avg_shedder_plans_the_destinations_that_the_real_class_plans(told: Answers) -> None:
    compared = 0
    for seed, by_name in told.items():
        fleet = make_fleet(seed)
        settings = EffectiveSettings.defaults("4.2", fleet.conf)
        decisions = _decisions(fleet, settings, "AvgShedder", _views(fleet, settings))
        for at, decision, picked in zip(
            fleet.rounds, decisions, by_name["AvgShedder"], strict=True
        ):
            rates = fleet.loads[at].rates
            planned = {
                name: to
                for _, names, destinations in picked
                for name, to in zip(names, destinations, strict=True)
            }
            # the real class keys its plan by the averages: equal ones share an entry (AVG-1)
            count = Counter(rates[move.bundle] for move in decision.moves)
            for move in decision.moves:
                if count[rates[move.bundle]] == 1:
                    assert move.destination == planned[move.bundle], (seed, move)
                    compared += 1
    assert compared > 50
