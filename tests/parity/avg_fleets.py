"""Generated clusters for AvgShedder's ranking by whole points, and what the real class does there.

    .venv/bin/python tests/parity/avg_fleets.py

asks the released class again and writes ``golden/avg-<release>.json``: a digest of each cluster's
rounds, with the bundles that are picked and the counts of both thresholds after each.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from placement_driver import ask_real_classes
from shedding_fleets import Fleet, Load, make_fleet

AVG: Final = "AvgShedder"
RELEASE: Final = "4.0.0"
SEEDS: Final = range(140)
LARGE_SEEDS: Final = range(120, 140)
GOLDEN: Final = Path(__file__).parent / "golden" / f"avg-{RELEASE}.json"

Round = dict[str, Any]
"""``{"picked": {broker: [bundle, ...]}, "low": {broker: rounds}, "high": {broker: rounds}}``."""


def make_avg_fleet(seed: int) -> Fleet:
    """Return a cluster of 3 to 80 brokers (some of up to 250) that are near each other in usage."""
    rng = random.Random(seed + 7_000_000)
    size = rng.choice((100, 150, 200, 250)) if seed in LARGE_SEEDS else rng.randint(3, 80)
    fleet = make_fleet(seed, "4.0", count=size)
    base = fleet.loads[0]
    fleet.loads = [_close_load(rng, base) for _ in range(rng.choice((1, 2, 3)))]
    fleet.rounds = [rng.randrange(len(fleet.loads)) for _ in range(6)]
    fleet.conf |= {
        "loadBalancerAvgShedderLowThreshold": rng.choice((0, 1, 2, 5, 15)),
        "loadBalancerAvgShedderHighThreshold": rng.choice((3, 10, 40)),
        "loadBalancerAvgShedderHitCountLowThreshold": rng.choice((2, 3, 4)),
        "loadBalancerAvgShedderHitCountHighThreshold": rng.choice((1, 2, 3)),
        "loadBalancerCPUResourceWeight": 1.0,
        "loadBalancerDirectMemoryResourceWeight": 0.0,
        "minUnloadMessage": rng.choice((0, 100)),
        "minUnloadMessageThroughput": 0,
        "maxUnloadPercentage": rng.choice((0.2, 0.5, 1.0)),
    }
    return fleet


def _close_load(rng: random.Random, base: Load) -> Load:
    """Return the load with other usages: within a few points, in steps, or sorted with flaws."""
    width = rng.choice((1.5, 4.0, 12.0, 40.0))
    style = rng.choice(("even", "steps", "sorted"))
    usages = [30 + width * rng.random() for _ in base.reports]
    if style == "steps":
        usages = [30 + rng.choice((0, 0.4, 0.9, 1.0, 1.6, 2.5)) * width / 2 for _ in usages]
    elif style == "sorted":
        usages.sort(reverse=rng.random() < 0.5)
        usages[rng.randrange(len(usages))] = 30 + width
    idle = {"usage": 0.0, "limit": 100.0}  # the weights of bandwidth have other keys in 3.x
    stay = [name for name in base.reports if rng.random() < 0.97] or list(base.reports)
    reports = {
        name: base.reports[name]
        | {"cpu": {"usage": usage, "limit": 100.0}, "bandwidthIn": idle, "bandwidthOut": idle}
        for name, usage in zip(base.reports, usages, strict=True)
        if name in stay
    }
    kept = {bundle for report in reports.values() for bundle in report["bundles"]}
    return Load(reports, {name: rates for name, rates in base.rates.items() if name in kept})


def ask_avg(seeds: Sequence[int], folder: Path, version: str = RELEASE) -> dict[int, list[Round]]:
    """Return ``{seed: rounds}`` of the released class."""
    cases = []
    for seed in seeds:
        case = make_avg_fleet(seed).case((AVG,))
        case["asks"][0]["memory"] = True
        cases.append(case)
    told = ask_real_classes(cases, folder, "SheddingDriver", version)
    return {
        seed: [_as_round(item) for item in answer["answers"][0]]
        for seed, answer in zip(seeds, told, strict=True)
    }


def _as_round(told: dict[str, Any]) -> Round:
    picked = told["picked"]
    moves = None if picked is None else {broker: names for broker, names, _ in picked}
    counts = {
        part: {name: count for name, count in told[part].items() if count}
        for part in ("low", "high")
    }
    return {"picked": moves, **counts}


def digest(rounds: list[Round]) -> str:
    """Return a short digest; the order of the bundles of a broker counts."""
    return hashlib.sha256(json.dumps(rounds, sort_keys=True).encode()).hexdigest()[:16]


def main() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        found = ask_avg(SEEDS, Path(folder))
    kept = {str(seed): digest(rounds) for seed, rounds in found.items()}
    body = {"release": RELEASE, "digests": kept}
    GOLDEN.write_text(json.dumps(body, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
