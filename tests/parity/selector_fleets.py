"""Clusters for LeastResourceUsageWithWeight of older releases, and what the real class answers.

    .venv/bin/python tests/parity/selector_fleets.py

asks the released classes again and writes ``golden/selector.json``: by release and seed a digest of
the brokers that each of six picks draws from, with the running usage after it.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from placement_driver import ask_real_classes
from placement_fleets import Fleet, make_fleet, make_report

GOLDEN: Final = Path(__file__).parent / "golden" / "selector.json"
RELEASES: Final = ("2.11.0", "3.0.7")
SEEDS: Final = range(5_000, 5_060)
STRATEGY: Final = "LeastResourceUsageWithWeight"
_ROUNDS: Final = 6

Picks = list[dict[str, Any]]
"""``[{"best": brokers, "usage": {broker: ratio}}, ...]``, one a pick."""


def make_rounds(seed: int) -> list[Fleet]:
    """Return a cluster with other loads, pick after pick; many brokers are idle now and then."""
    rng = random.Random(seed)
    first = make_fleet(seed, STRATEGY)
    first.preallocated.clear()
    first.conf |= {
        "loadBalancerHistoryResourcePercentage": rng.choice((0.9, 0.5)),
        "loadBalancerMemoryResourceWeight": rng.choice((1.0, 0.0)),
    }
    first.conf.pop("loadBalancerSheddingExcludedNamespaces", None)
    first.conf.pop("loadBalancerBandwidthInResourceWeight", None)  # spelt otherwise in old releases
    rounds = []
    for _ in range(_ROUNDS):
        reports = {name: make_report(rng) for name in first.reports}
        for name, report in reports.items():
            report["bundles"] = first.owned[name]
            if rng.random() < 0.4:
                report |= {"msgRateIn": 0.0, "msgRateOut": 0.0}
        rounds.append(replace(first, reports=reports))
    return rounds


def ask_selector(seeds: Sequence[int], folder: Path, version: str) -> dict[int, Picks]:
    """Return ``{seed: picks}`` of the released class."""
    cases = []
    for seed in seeds:
        told = [fleet.case([]) for fleet in make_rounds(seed)]
        cases.append({"conf": told[0]["conf"], "rounds": told})
    found = ask_real_classes(cases, folder, "SelectorDriver", version)
    return {seed: answer["answers"] for seed, answer in zip(seeds, found, strict=True)}


def digest(picks: Picks) -> str:
    """Return a short digest."""
    return hashlib.sha256(json.dumps(picks, sort_keys=True).encode()).hexdigest()[:12]


def main() -> None:
    """Write the golden file."""
    body = {}
    for version in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            found = ask_selector(SEEDS, Path(folder), version)
        body[version] = {str(seed): digest(picks) for seed, picks in found.items()}
    GOLDEN.write_text(json.dumps(body, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
