"""Decide, plan and preview on a huge cluster: seconds and memory, beside Pulsar's own class.

    .venv/bin/python bench/decide_huge.py [--brokers 10000] [--bundles 1000000]

1. A generated fleet is saved; another process reads it, decides one round of ThresholdShedder, lays
   out the plan of what is unloaded and previews it. Reading is told apart: the target (1 s, 4 GiB)
   is for the decision and the preview with everything in memory; the memory is the highest of that
   process, reading included.
2. In the same run the real ThresholdShedder (4.2.4), on a fleet that it can be asked about in
   minutes: it looks through all bundles once for each broker over the line, so a fleet ten times as
   large takes it a hundred times as long. Without Pulsar's jars or a JDK the reason is told.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fleet_builder import make_snapshot
from shedding import CONF, load_of, our_timing, real_ms

from core.pulsar.plan.build import build_unload_plan
from core.pulsar.plan.preview import preview_plan
from core.pulsar.settings import effective_settings
from core.pulsar.shedding import find_shedding_strategy
from core.pulsar.view import LoadView
from core.snapshot.store import load_snapshot, save_snapshot

STRATEGY: Final = "ThresholdShedder"
TARGET_S: Final = 1.0
TARGET_GIB: Final = 4.0
MOST_PLANNED: Final = 100
"""Moves in the plan: as many as a person would let go in one run."""

T = TypeVar("T")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--brokers", type=int, default=10_000)
    arguments.add_argument("--bundles", type=int, default=1_000_000)
    arguments.add_argument("--rival-brokers", type=int, default=1_000)
    arguments.add_argument("--rival-bundles", type=int, default=100_000)
    arguments.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.measure is not None:
        print(json.dumps(measured(options.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        snapshot = make_snapshot(brokers=options.brokers, bundles=options.bundles)
        print(f"{options.brokers:,} brokers, {snapshot.bundles.num_rows:,} bundles", flush=True)
        save_snapshot(snapshot, Path(folder) / "s")
        del snapshot
        report(measured_apart(Path(folder) / "s"))
    rival(options.rival_brokers, options.rival_bundles)


def measured_apart(directory: Path) -> dict[str, float]:
    """Measure in a process of its own, so that making the fleet costs it no memory."""
    command = [sys.executable, __file__, "--measure", str(directory)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(told.stdout)
    return found


def measured(directory: Path) -> dict[str, float]:
    """Seconds of each step, and the highest memory of this process."""
    found: dict[str, float] = {}

    def timed(name: str, step: Callable[[], T]) -> T:
        started = time.perf_counter()
        done = step()
        found[name] = time.perf_counter() - started
        return done

    snapshot = timed("read", lambda: load_snapshot(directory))
    settings = effective_settings(snapshot, overrides=CONF[STRATEGY])
    view = timed("lay out", lambda: LoadView.of(snapshot, settings))
    strategy = find_shedding_strategy(STRATEGY)
    config = strategy.config(settings)
    for name in ("decide (first time)", "decide"):
        decision, _ = timed(
            name, lambda: strategy.decide(view, config, strategy.initial_state(), frozenset())
        )
    bundles = [move.bundle for move in decision.moves[:MOST_PLANNED]]
    for name in ("plan (first time)", "plan"):
        plan = timed(
            name,
            lambda: build_unload_plan(
                snapshot, bundles, overrides=CONF[STRATEGY], now=datetime.now(tz=UTC)
            ),
        )
    for name in ("preview (first time)", "preview"):
        timed(name, lambda: preview_plan(snapshot, plan))
    found["moves"] = len(decision.moves)
    found["planned"] = len(plan.steps)
    found["gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return found


def report(found: dict[str, float]) -> None:
    """Print the steps, and the target beside what was measured."""
    gib, moves, planned = (found.pop(name) for name in ("gib", "moves", "planned"))
    print(f"{STRATEGY}: {moves:,.0f} bundles are picked, a plan of {planned:,.0f} is previewed")
    for name, lasted in found.items():
        print(f"  {name}: {lasted:.3f} s")
    for title, ending in (("the first time", " (first time)"), ("from then on", "")):
        for steps in (("decide", "preview"), ("decide", "plan", "preview")):
            total = sum(found[f"{step}{ending}"] for step in steps)
            verdict = "met" if total <= TARGET_S else "MISSED"
            name = " + ".join(steps)
            print(f"  {name} {title}: {total:.3f} s (target {TARGET_S:g}): {verdict}")
    verdict = "met" if gib <= TARGET_GIB else "MISSED"
    print(f"  highest memory: {gib:.2f} GiB (target {TARGET_GIB:g}): {verdict}", flush=True)


def rival(brokers: int, bundles: int) -> None:
    """Ask the real class and ours about a fleet that the real one answers in minutes."""
    snapshot = make_snapshot(brokers=brokers, bundles=bundles)
    ours = our_timing(snapshot, STRATEGY)
    print(f"\n{brokers:,} brokers, {snapshot.bundles.num_rows:,} bundles, deciding alone")
    print(f"  ours: {ours.median_ms:.1f} ms a round")
    real = real_ms(load_of(snapshot), STRATEGY, bundles)
    if real is not None:
        print(f"  the real class: {real[0]:,.0f} ms a round, {real[1]:,} bundles picked")


if __name__ == "__main__":
    main()
