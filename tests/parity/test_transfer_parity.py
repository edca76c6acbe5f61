"""TransferShedder moves what Pulsar's own class moves, round after round, on generated fleets.

What the real class answered is kept as digests under ``golden``; where Pulsar's jars can be had, a
sample is asked again in every run, and all of them in the long one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden_digests import ask_digests, digest, load_digests
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason
from sampled import EVERY
from transfer_fleets import (
    EXTENSIBLE,
    OLD_TRANSFER_SEEDS,
    OLD_TRANSFERS,
    TRANSFER_SEEDS,
    TransferFleet,
    make_transfer_fleet,
    transfer_answer,
)

from core.pulsar.placement import place_bundle
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.transfer_shedder import TransferShedder, TransferState, UsageSpread
from core.pulsar.view import LoadView

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars

SAMPLE = list(TRANSFER_SEEDS)[::8]
REASONS = {
    "hit_count": "HitCount",
    "balanced": "HitCount",
    "no_load_data": "NoLoadData",
    "no_bundles": "NoBundles",
    "no_brokers": "NoBrokers",
    "outdated_data": "OutDatedData",
    "cool_down": "CoolDown",
}

Asked = tuple[TransferFleet, Any, list[Decision], TransferState]


@pytest.fixture(scope="module")
def jars() -> None:
    """Skip where the real class cannot be run."""
    command = driver_command("TransferDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)


@pytest.fixture(scope="module")
def asked(jars: None, tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    """Some fleets, what the real classes say of them and what ours do; one process for all."""
    fleets = [make_transfer_fleet(seed) for seed in SAMPLE]
    cases = (fleet.case() for fleet in fleets)
    told = ask_real_classes(cases, tmp_path_factory.mktemp("transfer"), "TransferDriver")
    return [(fleet, answer, *_decisions(fleet)) for fleet, answer in zip(fleets, told, strict=True)]


def _view(fleet: TransferFleet, release: str = "") -> tuple[LoadView, EffectiveSettings]:
    snapshot = fleet.snapshot()
    overrides = {**fleet.conf, "loadManagerClassName": EXTENSIBLE}
    if release:
        settings = EffectiveSettings.defaults(release, overrides)
    else:
        settings = effective_settings(snapshot, overrides=overrides)
    return LoadView.of(snapshot, settings), settings


def _decisions(fleet: TransferFleet, release: str = "") -> tuple[list[Decision], TransferState]:
    view, settings = _view(fleet, release)
    shedder = TransferShedder()
    config = shedder.config(settings)
    state = replace(shedder.initial_state(), gave_at_ms=fleet.gave_at)
    found = []
    for _ in range(fleet.rounds):
        decision, state = shedder.decide(view, config, state, frozenset(fleet.recent))
        found.append(decision)
    return found, state


def _moves(decision: Decision) -> list[tuple[str, str, str]]:
    return sorted((move.broker, move.bundle, move.destination or "") for move in decision.moves)


def _our_answer(fleet: TransferFleet, release: str = "") -> dict[str, Any]:
    decisions, state = _decisions(fleet, release)
    return {
        "rounds": [
            [
                [list(move) for move in _moves(decision)],
                [] if decision.moves else [REASONS[decision.reason]],
            ]
            for decision in decisions
        ],
        "gave_at": sorted(state.gave_at_ms),
        "picked": _picked(fleet),
        "chain": _chain(fleet),
    }


def _chain(fleet: TransferFleet) -> dict[str, list[str]]:
    """Whom the manager's filters leave, bundle by bundle."""
    if not (fleet.policies and fleet.loads):
        return {}
    view, settings = _view(fleet)
    return {
        bundle: sorted(place_bundle(view, bundle, settings).candidates)
        for bundle in fleet.checked_bundles()
    }


def _picked(fleet: TransferFleet) -> list[str]:
    """Whom placement may draw; small clusters only, where enough draws were made to see them."""
    if not (fleet.owners and fleet.loads and fleet.case()["draws"]):
        return []
    view, settings = _view(fleet)
    placed = place_bundle(view, min(fleet.owners), settings, with_filters=False)
    return sorted(placed.distribution)


@EVERY
def test_every_answer_on_every_fleet_is_the_real_class_s(every: int) -> None:
    kept = load_digests("transfer")
    wrong, acted, swapped = [], 0, 0
    seeds = TRANSFER_SEEDS[::every]
    for seed in seeds:
        ours = _our_answer(make_transfer_fleet(seed))
        if digest(ours) != kept[str(seed)]:
            wrong.append(seed)
        moved = [moves for moves, _ in ours["rounds"] if moves]
        acted += bool(moved)
        swapped += any({to for *_, to in moves} & {move[0] for move in moves} for moves in moved)
    assert wrong == []
    assert acted > len(seeds) // 3
    assert swapped > len(seeds) // 20


@EVERY
@pytest.mark.parametrize("release", OLD_TRANSFERS)
def test_every_answer_of_an_older_release_is_its_class_s(release: str, every: int) -> None:
    kept, newest = load_digests("transfer", release), load_digests("transfer")
    seeds = [int(seed) for seed in kept][:: 2 * every]  # the class itself is asked for all
    fleets = {seed: make_transfer_fleet(seed) for seed in seeds}
    found = {seed: digest(_our_answer(fleet, release)) for seed, fleet in fleets.items()}
    assert [seed for seed in seeds if found[seed] != kept[str(seed)]] == []
    changed = [seed for seed in seeds if kept[str(seed)] != newest[str(seed)]]
    assert len(changed) > len(seeds) // 20, "the releases do not differ: the cases say little"


@pytest.mark.slow
@pytest.mark.parametrize("release", OLD_TRANSFERS)
def test_the_older_classes_still_do_what_is_kept(release: str, tmp_path: Path) -> None:
    command = driver_command("TransferDriver", release)
    if isinstance(command, SkipReason):
        pytest.skip(command)
    seeds = list(OLD_TRANSFER_SEEDS)
    assert ask_digests("transfer", seeds, tmp_path, release) == load_digests("transfer", release)


@pytest.mark.slow
def test_a_sample_asked_again_is_what_was_kept(asked: list[Asked]) -> None:
    kept = load_digests("transfer")
    for fleet, told, *_ in asked:
        answer = transfer_answer(fleet, told)
        assert _our_answer(fleet) == answer, fleet.seed
        assert digest(answer) == kept[str(fleet.seed)], fleet.seed


@pytest.mark.slow
def test_all_of_them_asked_again_are_what_was_kept(jars: None, tmp_path: Path) -> None:
    assert ask_digests("transfer", list(TRANSFER_SEEDS), tmp_path) == load_digests("transfer")


def test_the_spread_after_a_round_is_equal_to_the_last_digits(asked: list[Asked]) -> None:
    compared = 0
    for fleet, told, decisions, _ in asked:
        whole = all(name in fleet.loads for name in fleet.brokers)
        fresh = all(fleet.now_ms - load["updatedAt"] < 1e6 for load in fleet.loads.values())
        if not (whole and fresh) or fleet.gave_at or any(item.moves for item in decisions):
            continue
        loads = _view(fleet)[0].extensible
        assert loads is not None
        theirs = float(told["rounds"][-1]["std"])
        # without moves only the order of adding up matters
        ours = UsageSpread.of(loads.usage).std
        assert math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-9) or math.isnan(theirs)
        compared += 1
    assert compared > len(asked) // 10
