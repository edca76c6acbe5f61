"""TransferShedder moves what Pulsar's own class moves, round after round, on generated fleets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason
from transfer_fleets import EXTENSIBLE, TransferFleet, make_transfer_fleet

from core.pulsar.placement import place_bundle
from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding.model import Decision
from core.pulsar.shedding.transfer_offload import Spread
from core.pulsar.shedding.transfer_shedder import TransferShedder, TransferState
from core.pulsar.view import LoadView

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars

FLEETS = 400
REASONS = {
    "HitCount": {"hit_count", "balanced"},
    "NoLoadData": {"no_load_data"},
    "NoBundles": {"no_bundles"},
    "NoBrokers": {"no_brokers"},
    "OutDatedData": {"outdated_data"},
    "CoolDown": {"cool_down"},
}

Asked = tuple[TransferFleet, Any, list[Decision], TransferState]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    """Every fleet, what the real classes say of it and what ours do; one process for all."""
    command = driver_command("TransferDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)
    fleets = [make_transfer_fleet(seed) for seed in range(FLEETS)]
    cases = (fleet.case() for fleet in fleets)
    told = ask_real_classes(cases, tmp_path_factory.mktemp("transfer"), "TransferDriver")
    return [(fleet, answer, *_decisions(fleet)) for fleet, answer in zip(fleets, told, strict=True)]


def _view(fleet: TransferFleet) -> tuple[LoadView, EffectiveSettings]:
    snapshot = fleet.snapshot()
    overrides = {**fleet.conf, "loadManagerClassName": EXTENSIBLE}
    settings = effective_settings(snapshot, overrides=overrides)
    return LoadView.of(snapshot, settings), settings


def _decisions(fleet: TransferFleet) -> tuple[list[Decision], TransferState]:
    view, settings = _view(fleet)
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


def test_every_move_is_the_real_class_s_move(asked: list[Asked]) -> None:
    wrong, acted, swapped = [], 0, 0
    for fleet, told, decisions, _ in asked:
        for number, (decision, real) in enumerate(zip(decisions, told["rounds"], strict=True)):
            theirs = sorted((source, unit, to) for source, unit, to, _ in real["moves"])
            if _moves(decision) != theirs:
                wrong.append((fleet.seed, number))
            acted += bool(theirs)
            swapped += bool({to for *_, to in theirs} & {source for source, *_ in theirs})
    assert wrong == []
    assert acted > FLEETS // 3
    assert swapped > FLEETS // 20


def test_the_reason_for_doing_nothing_is_the_real_one(
    asked: list[Asked],
) -> None:
    seen = set()
    for fleet, told, decisions, _ in asked:
        before: dict[str, int] = {}
        for decision, real in zip(decisions, told["rounds"], strict=True):
            new = {
                name.partition(":")[2]
                for name, count in real["reasons"].items()
                if count > before.get(name, 0) and name.startswith("Skip")
            }
            before = real["reasons"]
            if not decision.moves:
                (reason,) = new
                assert decision.reason in REASONS[reason], (fleet.seed, decision.sentence)
                seen.add(reason)
            else:
                assert new == set(), fleet.seed
    assert seen >= {"HitCount", "NoLoadData", "NoBundles", "CoolDown"}


def test_the_spread_after_a_round_is_equal_to_the_last_digit(
    asked: list[Asked],
) -> None:
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
        ours = Spread.of(loads.usage).std
        assert math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-9) or math.isnan(theirs)
        compared += 1
    assert compared > FLEETS // 10


def test_who_rests_after_giving_is_the_same(asked: list[Asked]) -> None:
    for fleet, told, _, state in asked:
        assert sorted(state.gave_at_ms) == told["gave_at"], fleet.seed


def test_placement_of_the_extensible_manager_draws_from_the_same_set(
    asked: list[Asked],
) -> None:
    compared = 0
    for fleet, told, *_ in asked:
        if not fleet.owners or not told["picked"]:
            continue
        view, settings = _view(fleet)
        if view.extensible is None:
            continue
        bundle = min(fleet.owners)
        placed = place_bundle(view, bundle, settings, with_filters=False)
        assert set(told["picked"]) == set(placed.distribution), fleet.seed
        compared += 1
    assert compared > FLEETS // 2
