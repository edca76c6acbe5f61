"""Splits are cut where Pulsar's own algorithms cut, and when both managers' checks say so."""

from __future__ import annotations

import functools
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason
from split_cases import Case, extensible_case, loads_of, modular_case, where_case

from core.errors import InputError
from core.pulsar.settings import EffectiveSettings
from core.pulsar.split import (
    ALGORITHMS,
    SplitLimits,
    SplitState,
    find_bundles_to_split,
    split_positions,
)
from core.pulsar.split.algorithms import refusal
from core.snapshot import PulsarSnapshot

pytestmark = pytest.mark.timeout(900)  # the first test may have to fetch the jars

REASONS = {
    "topics": "Topics",
    "sessions": "Sessions",
    "msg_rate": "MsgRate",
    "bandwidth": "Bandwidth",
}


@functools.cache
def where_cases() -> list[Case]:
    return [where_case(seed) for seed in range(600)]


@functools.cache
def modular_cases() -> list[tuple[Case, PulsarSnapshot]]:
    return [modular_case(seed) for seed in range(1_000, 1_200)]


@functools.cache
def extensible_cases() -> list[tuple[Case, list[PulsarSnapshot]]]:
    return [extensible_case(seed) for seed in range(2_000, 2_150)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the real classes answer, by group; one process for all."""
    command = driver_command("SplitDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)
    groups: dict[str, list[Case]] = {
        "where": where_cases(),
        "modular": [case for case, _ in modular_cases()],
        "extensible": [case for case, _ in extensible_cases()],
    }
    cases = [case for group in groups.values() for case in group]
    answers = iter(ask_real_classes(cases, tmp_path_factory.mktemp("split"), "SplitDriver"))
    return {name: [next(answers) for _ in group] for name, group in groups.items()}


def _settings(case: Case) -> EffectiveSettings:
    return EffectiveSettings.defaults("4.2", case["conf"])


def _positions(case: Case) -> tuple[int, ...]:
    where = case["where"]
    bounds = (where["lower"], where["upper"])
    limits = SplitLimits.of(_settings(case))
    found = split_positions(
        where["algorithm"], bounds, loads_of(case), limits=limits, given=where["positions"]
    )
    return found.values


def test_every_algorithm_cuts_where_the_real_one_cuts(told: dict[str, list[Any]]) -> None:
    seen: Counter[str] = Counter()
    for case, answer in zip(where_cases(), told["where"], strict=True):
        where = case["where"]
        try:
            ours: list[int] | str = list(_positions(case))
        except InputError:
            ours = "error"
        if where["upper"] - where["lower"] <= 1 and where["algorithm"] == ALGORITHMS[0]:
            continue  # the class itself names the lower bound; what cuts refuses it, as ours does
        theirs = "error" if "error" in answer else answer["positions"] or []
        assert ours == theirs, (where["namespace"], where["algorithm"])
        seen[where["algorithm"]] += bool(ours)
    assert all(seen[name] > 20 for name in ALGORITHMS), seen


def test_the_factory_takes_what_we_say_it_takes(told: dict[str, list[Any]]) -> None:
    taken = refused = 0
    for case, answer in zip(where_cases(), told["where"], strict=True):
        where = case["where"]
        bounds = (where["lower"], where["upper"])
        positions = answer.get("positions")
        if not positions:
            continue
        why = refusal(bounds, positions)
        assert bool(why) is ("refused" in answer), (where["namespace"], positions, why, answer)
        if "parts" in answer and not why:
            edges = [bounds[0], *sorted(positions), bounds[1]]
            ours = [f"0x{a:08x}_0x{b:08x}" for a, b in pairwise(edges)]
            assert answer["parts"] == ours
        taken += not why
        refused += bool(why)
    assert taken > 100
    assert refused > 3


def _is_crowded(case: Case, group: str) -> bool:
    """Whether a namespace may run into its largest number of bundles: then order decides."""
    most = case["conf"]["loadBalancerNamespaceMaximumBundles"]
    return any(2 * count > most for count in case[group]["counts"].values())


def test_the_leader_s_check_chooses_the_same_bundles(told: dict[str, list[Any]]) -> None:
    chosen = 0
    for (case, snapshot), answer in zip(modular_cases(), told["modular"], strict=True):
        ours, _ = find_bundles_to_split(snapshot, _settings(case))
        wide = {name for name in answer["chosen"] if not name.endswith("0x00000000_0x00000001")}
        if _is_crowded(case, "modular"):
            # as many of each namespace, whoever comes first (deviation SP-1)
            theirs = Counter(name.rpartition("/")[0] for name in answer["chosen"])
            narrow = Counter(name.rpartition("/")[0] for name in set(answer["chosen"]) - wide)
            counted = Counter(choice.bundle.rpartition("/")[0] for choice in ours)
            for namespace in theirs:
                assert abs(theirs[namespace] - counted[namespace]) <= max(narrow[namespace], 1)
            continue
        assert {choice.bundle for choice in ours} == wide
        assert {choice.broker for choice in ours} <= set(answer["chosen"].values())
        chosen += len(wide)
    assert chosen > 100


def _rounds(case: Case, snapshots: list[PulsarSnapshot]) -> list[dict[str, str]]:
    state, found = SplitState(), []
    settings = _settings(case)
    for snapshot in snapshots:
        chosen, state = find_bundles_to_split(
            snapshot, settings, state, busy=case["extensible"]["busy"]
        )
        found.append(
            {item.bundle: REASONS[item.reason] for item in chosen if item.broker == "me:1"}
        )
    return found


def test_the_extensible_manager_s_check_chooses_the_same_round_by_round(
    told: dict[str, list[Any]],
) -> None:
    chosen = compared = 0
    for (case, snapshots), answer in zip(extensible_cases(), told["extensible"], strict=True):
        if _is_crowded(case, "extensible"):
            continue
        ours = _rounds(case, snapshots)
        # of the reasons the real class keeps the word of its decision only
        assert [set(done) for done in ours] == [set(done) for done in answer["rounds"]]
        assert ours == answer["rounds"]
        chosen += sum(len(done) for done in ours)
        compared += 1
    assert compared > 50
    assert chosen > 100
