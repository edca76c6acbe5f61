"""AvgShedder's plans follow its picks, as those of Pulsar's own class do.

The real class draws at random: its pick must have a probability in our answer, and the plans after
that pick must be ours for the same pick.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from placement_fleets import IMPL, make_fleet
from pulsar_jars import SkipReason

from core.pulsar.placement import PlacementMemory, place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

AVG = "AvgShedder"
SEQUENCES = 80
PICKS = 12

Case = dict[str, Any]

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars


def _case(seed: int) -> tuple[Case, Any]:
    """Make a sequence of picks: with and without plan, planned brokers that are no candidates."""
    rng = random.Random(seed)
    fleet = make_fleet(seed, AVG)
    brokers = sorted(fleet.reports)
    bundles = rng.sample(fleet.bundles, min(4, len(fleet.bundles)))
    planned = {name: rng.choice(brokers) for name in bundles if rng.random() < 0.5}
    picks = [
        {
            "bundle": rng.choice(bundles),
            "candidates": sorted(rng.sample(brokers, rng.randint(1, len(brokers)))),
        }
        for _ in range(PICKS)
    ]
    conf = {f"loadBalancerLoad{part}Strategy": IMPL + AVG for part in ("Placement", "Shedding")}
    return {"conf": conf, "bundles": bundles, "planned": planned, "picks": picks}, fleet


SEQUENCE = [_case(seed) for seed in range(SEQUENCES)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the picks and plans of the real class, by sequence."""
    command = driver_command()
    if isinstance(command, SkipReason):
        pytest.skip(command)
    cases = [case for case, _ in SEQUENCE]
    found = ask_real_classes(cases, tmp_path_factory.mktemp("memory"))
    return [answer["answers"] for answer in found]


@pytest.mark.slow
def test_the_plans_after_each_pick_are_those_of_the_real_class(answers: list[Any]) -> None:
    wrong, new_plans, changed_plans = [], 0, 0
    for (case, fleet), picked in zip(SEQUENCE, answers, strict=True):
        snapshot = fleet.snapshot()
        settings = effective_settings(snapshot, overrides=case["conf"])
        view = LoadView.of(snapshot, settings)
        memory = PlacementMemory(planned=case["planned"])
        for at, (pick, answer) in enumerate(zip(case["picks"], picked, strict=True)):
            bundle, chosen = pick["bundle"], answer["chosen"]
            before = memory.planned.get(bundle)
            placed = place_bundle(
                view,
                bundle,
                settings,
                candidates=pick["candidates"],
                with_filters=False,
                memory=memory,
            )
            kept = before in pick["candidates"]
            expected = [before] if kept else pick["candidates"]
            assert sorted(placed.distribution) == expected, (fleet.seed, at)
            assert chosen in placed.distribution, (fleet.seed, at)
            memory = placed.after.with_picked(bundle, chosen)
            if len(placed.distribution) == 1:  # nothing is left to chance
                assert placed.after.planned == memory.planned
            if memory.planned != answer["planned"]:
                wrong.append((fleet.seed, at, bundle, memory.planned, answer["planned"]))
            new_plans += before is None
            changed_plans += before is not None and not kept
    assert wrong == []
    assert min(new_plans, changed_plans) > SEQUENCES // 2, "the cases say little"
