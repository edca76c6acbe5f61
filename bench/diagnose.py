"""How long a diagnosis of a Pulsar cluster takes, and whether its search is complete.

    .venv/bin/python bench/diagnose.py [--small-only] [--seconds 60]

Prints seconds, CPU seconds, changes simulated and not simulated for 12 brokers with 600 bundles
and 1,000 brokers with 100,000 bundles, each with four kinds of trouble, against the default time,
and how much faster changes are tried because simulations share their rounds. ``--seconds`` is the
time of each search, so that a complete one is measured on a slow machine, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fleet_builder import make_snapshot
from fleet_edit import with_settings

from core.diagnosis.pulsar.trials import Change, Trials, judged_trials
from core.diagnosis.request import DEFAULT_SECONDS, DiagnoseRequest
from core.diagnosis.systems import diagnose
from core.simulation.shared import SharedRounds
from core.snapshot import PulsarSnapshot

SIZES: Final = ((12, 600, DEFAULT_SECONDS), (1_000, 100_000, DEFAULT_SECONDS))
"""Brokers, bundles and the limit, seconds."""

EVENLY: Final = "loadBalancerDistributeBundlesEvenlyEnabled"
ON: Final = {"loadBalancerSheddingEnabled": "true"}
TROUBLES: Final[Mapping[str, Mapping[str, str]]] = {
    "shedding off": {"loadBalancerSheddingEnabled": "false"},
    "even distribution": ON,
    "no even distribution": {**ON, EVENLY: "false"},
    "threshold too high": {
        **ON,
        EVENLY: "false",
        "loadBalancerBrokerThresholdShedderPercentage": "40",
    },
}
NO_EFFECT: Final = tuple(
    {"loadBalancerBrokerMaxTopics": count} for count in (20_000, 30_000, 40_000, 60_000)
)
"""Changes that placement reads, and that decide nothing on these clusters."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--small-only", action="store_true")
    arguments.add_argument("--seconds", type=float, default=0.0)
    options = arguments.parse_args()
    for brokers, bundles, limit_s in SIZES[: 1 if options.small_only else None]:
        print(f"{brokers:,} brokers x {bundles:,} bundles, limit {limit_s:g} s")
        snapshot = make_snapshot(brokers=brokers, bundles=bundles, seed=1)
        for name, values in TROUBLES.items():
            rows = ((None, key, value, "dynamic") for key, value in values.items())
            request = DiagnoseRequest(seconds=options.seconds)
            _diagnosed(name, with_settings(snapshot, *rows), request, limit_s)
    rows = ((None, key, value, "dynamic") for key, value in ON.items())
    _shared(with_settings(make_snapshot(brokers=12, bundles=600, seed=1), *rows))


def _diagnosed(
    name: str, snapshot: PulsarSnapshot, request: DiagnoseRequest, limit_s: float
) -> None:
    started, cpu_started = time.perf_counter(), time.process_time()
    found = diagnose(snapshot, request)
    lasted, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    verdict = "within" if lasted <= limit_s else "OVER"
    extent = "complete" if found.is_complete else f"{found.untried:,} not tried"
    causes = ", ".join(cause.code for cause in found.causes) or "no cause"
    print(
        f"  {name:22} {lasted:6.2f} s ({verdict}), CPU {cpu:5.2f} s, {found.tried:4,} tried, "
        f"{extent}: {causes}"
    )


def _shared(snapshot: PulsarSnapshot) -> None:
    """Compare changes that share their rounds with changes that are simulated by themselves."""
    together = judged_trials(Trials(snapshot))
    _ = together.baseline
    started = time.process_time()
    for values in NO_EFFECT:
        together.trial(Change(settings=values))
    shared_s = time.process_time() - started
    alone_s = 0.0
    for values in NO_EFFECT:
        together.shared = SharedRounds()
        trials = together.with_seed(together.seed, compared_with=together)
        started = time.process_time()
        trials.trial(Change(settings=values))
        alone_s += time.process_time() - started
    count = len(NO_EFFECT)
    print(
        f"A change without effect: {shared_s / count * 1000:.1f} ms where rounds are shared, "
        f"{alone_s / count * 1000:.1f} ms by itself: {alone_s / shared_s:.0f} times as fast"
    )


if __name__ == "__main__":
    main()
