"""AvgShedder of releases that rank by whole points: the real class's moves and counts.

Its comparison is no total order, so the ranking follows from what Java's sort compares; that sort
is compared by itself as well.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from avg_fleets import AVG, GOLDEN, LARGE_SEEDS, RELEASE, SEEDS, Round, ask_avg, digest
from avg_fleets import make_avg_fleet as make_fleet
from placement_driver import driver_command
from pulsar_jars import SkipReason

from connectors.sandbox.java import find_java
from core.errors import ConfigError
from core.pulsar.java.sort import ContractError, java_sorted
from core.pulsar.releases import Release
from core.pulsar.settings import EffectiveSettings
from core.pulsar.shedding import find_shedding_strategy
from core.pulsar.view import LoadView

pytestmark = pytest.mark.timeout(900)  # the first test with jars may have to fetch them

SORT_GOLDEN = GOLDEN.with_name("sort.json")
SORT_DRIVER = Path(__file__).parent / "java" / "SortDriver.java"


def _our_rounds(seed: int, release: str = RELEASE) -> tuple[list[Round], list[str]]:
    """Return our rounds in the real class's form, and the reason of each."""
    fleet = make_fleet(seed)
    settings = EffectiveSettings.defaults(release, fleet.conf)
    views = [LoadView.of(fleet.snapshot(load), settings) for load in fleet.loads]
    strategy = find_shedding_strategy(AVG)
    config, state = strategy.config(settings), strategy.initial_state()
    rounds, reasons = [], []
    for at in fleet.rounds:
        decision, state = strategy.decide(views[at], config, state, frozenset(fleet.recent))
        failed = decision.reason == "sort_failed"
        reasons.append(decision.reason)
        rounds.append(
            {
                "picked": None if failed else decision.bundles_by_broker(),
                "low": {name: count for name, count in state.low_hits.items() if count},
                "high": {name: count for name, count in state.high_hits.items() if count},
            }
        )
    return rounds, reasons


def _kept() -> dict[str, str]:
    body: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found: dict[str, str] = body["digests"]
    return found


@pytest.mark.slow
def test_moves_and_counts_of_every_round_are_the_real_class_s() -> None:
    kept, wrong, seen, acted = _kept(), [], Counter[str](), 0
    for seed in SEEDS:
        rounds, reasons = _our_rounds(seed)
        acted += any(item["picked"] for item in rounds)
        seen.update(reasons)
        if digest(rounds) != kept[str(seed)]:
            wrong.append(seed)
    assert wrong == []
    assert acted > len(SEEDS) // 3
    assert seen["sort_failed"] > 5, "no sort fails: the cases say little"


def test_the_exact_ranking_of_later_releases_gives_other_moves() -> None:
    kept = _kept()
    seeds = [seed for seed in SEEDS if seed not in LARGE_SEEDS]
    other = [seed for seed in seeds if digest(_our_rounds(seed, "4.0.8")[0]) != kept[str(seed)]]
    assert len(other) > len(seeds) // 4


def test_a_failed_sort_leaves_the_counts_and_moves_nothing() -> None:
    for seed in LARGE_SEEDS:
        rounds, reasons = _our_rounds(seed)
        for at, reason in enumerate(reasons):
            if reason == "sort_failed" and at:
                assert rounds[at]["low"] == rounds[at - 1]["low"]
                assert rounds[at]["high"] == rounds[at - 1]["high"]
                return
    pytest.fail("no sort fails after a first round")


def test_the_releases_that_rank_by_whole_points() -> None:
    old = ("3.0.6", "3.0.17", "3.2.4", "3.3.9", "4.0.0", "4.0.7", "4.1.0", "4.1.1")
    new = ("4.0.8", "4.0.13", "4.1.2", "4.1.3", "4.2.0", "5.0")
    assert all(Release.of(version).rules.avg_ranks_by_points for version in old)
    assert not any(Release.of(version).rules.avg_ranks_by_points for version in new)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.0.7", "3.3.2", RELEASE])
def test_the_released_classes_still_do_what_is_kept(release: str, tmp_path: Path) -> None:
    command = driver_command("SheddingDriver", release)
    if isinstance(command, SkipReason):
        pytest.skip(command)
    seeds = SEEDS if release == RELEASE else SEEDS[::3]
    found = ask_avg(seeds, tmp_path, release)
    kept = _kept()
    assert [seed for seed in seeds if digest(found[seed]) != kept[str(seed)]] == []


def _numbers(seed: int) -> list[float]:
    """Return a list for the sort: crowded, in steps, nearly sorted, or with values that are NaN."""
    rng = random.Random(seed)
    size = rng.choice((1, 2, 3, 10, 31, 32, 33, 40, 64, 65, 80, 100, 150, 200, 400, 1000))
    kind = rng.randrange(5)
    if kind == 0:
        return [rng.uniform(0, rng.choice((4, 100))) for _ in range(size)]
    if kind == 1:
        return [rng.choice((0.0, 0.5, 1.0, 1.5, 2.2, 3.1)) for _ in range(size)]
    if kind == 2:
        return [at * 0.3 + rng.uniform(0, 2) for at in range(size)]
    if kind == 3:
        return [rng.choice((math.nan, 1.0, rng.uniform(0, 9))) for _ in range(size)]
    found = sorted((rng.uniform(0, 10) for _ in range(size)), reverse=rng.random() < 0.5)
    for _ in range(rng.randrange(6)):
        found[rng.randrange(size)] = rng.uniform(0, 10)
    cut = rng.randrange(size)
    return found[cut:] + found[:cut]


def _our_order(values: list[float]) -> str:
    def compare(one: int, other: int) -> float:
        difference = values[one] - values[other]
        return 0 if math.isnan(difference) else int(difference)

    try:
        return " ".join(map(str, java_sorted(range(len(values)), compare)))
    except ContractError:
        return "failed"


def _short(answer: str) -> str:
    return answer if answer == "failed" else hashlib.sha256(answer.encode()).hexdigest()[:12]


def test_the_sort_is_java_s_comparison_by_comparison() -> None:
    kept: list[str] = json.loads(SORT_GOLDEN.read_text(encoding="utf-8"))
    assert [_short(_our_order(_numbers(seed))) for seed in range(len(kept))] == kept
    assert kept.count("failed") > len(kept) // 20


@pytest.mark.slow
def test_java_still_sorts_as_is_kept(tmp_path: Path) -> None:
    try:
        java = find_java().path
    except ConfigError as error:
        pytest.skip(f"no Java for the parity driver: {error}")
    kept: list[str] = json.loads(SORT_GOLDEN.read_text(encoding="utf-8"))
    assert [_short(line) for line in ask_java(java, tmp_path, len(kept))] == kept


def ask_java(java: str | Path, folder: Path, count: int) -> list[str]:
    """Return the positions in the order of Java's sort, or ``failed``, of each list."""
    lines = [" ".join(map(_as_java, _numbers(seed))) for seed in range(count)]
    cases = folder / "lists.txt"
    cases.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [str(java), str(SORT_DRIVER), str(cases)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


def _as_java(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)
