"""Splits are cut where Pulsar's own algorithms cut, and when both managers' checks say so.

What the real classes answered is kept as digests under ``golden``; where Pulsar's jars can be had,
a sample is asked again in every run, and all of them in the long one.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from golden_digests import ask_digests, digest, load_digests
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason
from split_cases import (
    EXTENSIBLE_SEEDS,
    MODULAR_SEEDS,
    SPLIT_SEEDS,
    WHERE_SEEDS,
    Case,
    is_concentrated,
    loads_of,
    split_case,
    where_case,
)

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


@pytest.fixture(scope="module")
def jars() -> None:
    """Skip where the real classes cannot be run."""
    command = driver_command("SplitDriver")
    if isinstance(command, SkipReason):
        pytest.skip(command)


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


def _our_answer(seed: int) -> Any:
    case, snapshots = split_case(seed)
    if "where" in case:
        return _where(case)
    if is_concentrated(case):
        return None
    if "modular" in case:
        found, _ = find_bundles_to_split(snapshots[0], _settings(case))
        stats = case["modular"]["stats"]
        assert all(choice.bundle in stats[choice.broker] for choice in found)
        return sorted(choice.bundle for choice in found)
    return _rounds(case, snapshots)


def _where(case: Case) -> Any:
    where = case["where"]
    bounds = (where["lower"], where["upper"])
    if bounds[1] - bounds[0] <= 1 and where["algorithm"] == ALGORITHMS[0]:
        return None
    try:
        positions = list(_positions(case))
    except InputError:
        return "error"
    is_refused = bool(positions) and bool(refusal(bounds, positions))
    edges = [bounds[0], *sorted(positions), bounds[1]]
    parts = [f"0x{low:08x}_0x{high:08x}" for low, high in pairwise(edges)]
    return [positions, parts if positions and not is_refused else [], is_refused]


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


def test_every_answer_is_the_real_classes() -> None:
    kept = load_digests("split")
    ours = {seed: _our_answer(seed) for seed in SPLIT_SEEDS}
    assert [seed for seed in SPLIT_SEEDS if digest(ours[seed]) != kept[str(seed)]] == []
    cut: Counter[str] = Counter()
    for seed in WHERE_SEEDS:
        answer = ours[seed]
        cut[where_case(seed)["where"]["algorithm"]] += answer not in (None, "error") and bool(
            answer[0]
        )
    assert all(cut[name] > 20 for name in ALGORITHMS), cut
    assert sum(answer[2] for answer in ours.values() if _is_where(answer)) > 3
    assert sum(len(ours[seed] or []) for seed in MODULAR_SEEDS) > 100
    assert sum(len(done) for seed in EXTENSIBLE_SEEDS for done in ours[seed] or []) > 100


def _is_where(answer: Any) -> bool:
    return isinstance(answer, list) and len(answer) == 3 and isinstance(answer[2], bool)


@pytest.mark.slow
def test_where_a_namespace_is_nearly_full_as_many_are_chosen(jars: None, tmp_path: Path) -> None:
    """Whoever comes first is chosen: which order that is nobody sees (deviation SP-1)."""
    made = [split_case(seed) for seed in list(MODULAR_SEEDS)[::4]]
    concentrated = [(case, snapshots[0]) for case, snapshots in made if is_concentrated(case)]
    told = ask_real_classes((case for case, _ in concentrated), tmp_path, "SplitDriver")
    for (case, snapshot), answer in zip(concentrated, told, strict=True):
        ours, _ = find_bundles_to_split(snapshot, _settings(case))
        theirs = Counter(name.rpartition("/")[0] for name in answer["chosen"])
        counted = Counter(choice.bundle.rpartition("/")[0] for choice in ours)
        for namespace in theirs:  # one too narrow to be cut may take a place on either side
            assert abs(theirs[namespace] - counted[namespace]) <= 1
    assert len(concentrated) > 5


@pytest.mark.slow
def test_a_sample_asked_again_is_what_was_kept(jars: None, tmp_path: Path) -> None:
    kept = load_digests("split")
    again = ask_digests("split", list(SPLIT_SEEDS)[::15], tmp_path)
    assert again == {seed: kept[seed] for seed in again}


@pytest.mark.slow
def test_all_of_them_asked_again_are_what_was_kept(jars: None, tmp_path: Path) -> None:
    assert ask_digests("split", list(SPLIT_SEEDS), tmp_path) == load_digests("split")
