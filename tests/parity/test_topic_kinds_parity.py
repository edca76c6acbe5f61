"""Bundles with non-persistent topics have the candidates that Pulsar's load manager gives them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from placement_fleets import Fleet, make_fleet
from pulsar_jars import SkipReason

from core.pulsar.placement import place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView

FLEETS = 80

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars


def _kinds(seed: int) -> tuple[Fleet, dict[str, Any]]:
    """Make a fleet whose brokers serve persistent topics, non-persistent ones, both or none."""
    rng = random.Random(seed)
    fleet = make_fleet(seed, "LeastLongTermMessageRate")
    fleet.preallocated.clear()
    fleet.conf["loadBalancerBrokerOverloadedThresholdPercentage"] = 1_000
    for report in fleet.reports.values():
        kinds = ("persistentTopicsEnabled", "nonPersistentTopicsEnabled")
        report |= {kind: rng.random() < 0.6 for kind in kinds}
    names = sorted({bundle.rpartition("/")[0]: bundle for bundle in fleet.bundles}.values())
    questions = [
        {"bundle": name, "draws": 1, "non_persistent": kind}
        for name in names
        for kind in (False, True)
    ]
    return fleet, fleet.case(questions)


KINDS = [_kinds(seed) for seed in range(11_000, 11_000 + FLEETS)]


@pytest.mark.slow
def test_the_candidates_by_kind_of_topics_are_the_load_managers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    command = driver_command()
    if isinstance(command, SkipReason):
        pytest.skip(command)
    answers = ask_real_classes([case for _, case in KINDS], tmp_path_factory.mktemp("kinds"))
    differing = 0
    for (fleet, case), answer in zip(KINDS, answers, strict=True):
        snapshot = fleet.snapshot()
        settings = effective_settings(snapshot, overrides=fleet.overrides())
        view = LoadView.of(snapshot, settings)
        found = {}
        for question, real in zip(case["questions"], answer["answers"], strict=True):
            such = question["non_persistent"]
            placed = place_bundle(view, question["bundle"], settings, non_persistent=such)
            where = (fleet.seed, question)
            assert sorted(placed.candidates) == real["candidates"], where
            found[question["bundle"], such] = placed.candidates
        names = {name for name, _ in found}
        differing += sum(found[name, True] != found[name, False] for name in names)
    assert differing > FLEETS // 2, "the kinds of topics hardly matter in these fleets"
