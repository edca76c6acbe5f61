"""LeastResourceUsageWithWeight of older releases: the brokers drawn from, and its running usage."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from placement_driver import driver_command
from pulsar_jars import SkipReason
from selector_fleets import GOLDEN, RELEASES, SEEDS, Picks, ask_selector, digest, make_rounds

from core.pulsar.placement import PlacementMemory, place_bundle
from core.pulsar.settings import EffectiveSettings
from core.pulsar.view import LoadView

pytestmark = pytest.mark.timeout(900)  # the first test with jars may have to fetch them


@functools.cache
def _kept() -> dict[str, dict[str, str]]:
    held: dict[str, dict[str, str]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return held


def _our_picks(seed: int, release: str) -> Picks:
    memory, picks = PlacementMemory(), []
    for fleet in make_rounds(seed):
        settings = EffectiveSettings.defaults(release, fleet.overrides())
        view = LoadView.of(fleet.snapshot(), settings)
        bundle = fleet.bundles[0]
        placed = place_bundle(view, bundle, settings, with_filters=False, memory=memory)
        memory = placed.after
        usage = dict(sorted(memory.smoothed_usage.items()))
        picks.append({"best": sorted(placed.distribution), "usage": usage})
    return picks


@pytest.mark.parametrize("release", RELEASES)
def test_every_pick_and_the_usage_after_it_are_the_real_class_s(release: str) -> None:
    kept = _kept()[release]
    assert [s for s in SEEDS if digest(_our_picks(s, release)) != kept[str(s)]] == []


def test_2_11_keeps_the_past_of_idle_brokers() -> None:
    heap = "loadBalancerMemoryResourceWeight"
    seeds = [seed for seed in SEEDS if not make_rounds(seed)[0].conf[heap]]
    old, new = (_kept()[release] for release in RELEASES)
    assert sum(old[str(seed)] != new[str(seed)] for seed in seeds) > len(seeds) // 2


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_the_released_classes_still_answer_what_is_kept(release: str, tmp_path: Path) -> None:
    command = driver_command("SelectorDriver", release)
    if isinstance(command, SkipReason):
        pytest.skip(command)
    found = ask_selector(SEEDS, tmp_path, release)
    assert {str(seed): digest(picks) for seed, picks in found.items()} == _kept()[release]
