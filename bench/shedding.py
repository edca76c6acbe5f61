"""How fast a round of shedding is, against Pulsar's own class in the same run.

    .venv/bin/python bench/shedding.py [--brokers 1000] [--bundles 100000] [--strategy NAME ...]

Both sides hold the same load in memory: the real class its ``LoadData``, ours a ``LoadView``. The
real class (4.2.4) is warmed up by as many calls as are measured. Ours is timed once on a fresh view
(grouping bundles by broker included) and then on the prepared one. Settings are set so that brokers
shed: AvgShedder acts in every round. Without Pulsar's jars or a JDK only ours is timed, with the
reason.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
from fleet_builder import make_snapshot
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason

from core.pulsar.settings import EffectiveSettings, effective_settings
from core.pulsar.shedding import find_shedding_strategy
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

MODULAR: Final = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
CONF: Final[dict[str, dict[str, object]]] = {
    "ThresholdShedder": {"loadBalancerBundleUnloadMinThroughputThreshold": 1.0},
    "OverloadShedder": {"loadBalancerBrokerOverloadedThresholdPercentage": 50},
    "UniformLoadShedder": {},
    "AvgShedder": {
        "loadBalancerAvgShedderHitCountLowThreshold": 1,
        "loadBalancerAvgShedderHitCountHighThreshold": 1,
    },
}
RATIO_TARGETS: Final = {"ThresholdShedder": 100.0, "OverloadShedder": 100.0}
LARGE: Final = 100_000
SMALL_MS: Final = 2.0
AVG_MS: Final = 10.0
CALLS: Final = 25
_RATES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_RESOURCES: Final = {
    "cpu": "cpu",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one strategy."""

    first_ms: float
    median_ms: float
    moves: int
    sources: int


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--brokers", type=int, default=1_000)
    arguments.add_argument("--bundles", type=int, default=LARGE)
    arguments.add_argument("--strategy", action="append", choices=MODULAR)
    options = arguments.parse_args()
    snapshot = make_snapshot(brokers=options.brokers, bundles=options.bundles)
    print(f"{options.brokers:,} brokers, {snapshot.bundles.num_rows:,} bundles")
    load = load_of(snapshot)
    for name in options.strategy or MODULAR:
        ours = our_timing(snapshot, name)
        _report(name, ours, real_ms(load, name, options.bundles), options.bundles)


def _settings(snapshot: PulsarSnapshot, name: str) -> EffectiveSettings:
    return effective_settings(snapshot, overrides=CONF[name])


def our_timing(snapshot: PulsarSnapshot, name: str) -> Timing:
    settings = _settings(snapshot, name)
    strategy = find_shedding_strategy(name)
    config = strategy.config(settings)
    view = LoadView.of(snapshot, settings)
    lasted = []
    state = strategy.initial_state()
    for _ in range(CALLS):
        started = time.perf_counter()
        decision, state = strategy.decide(view, config, state, frozenset())
        lasted.append((time.perf_counter() - started) * 1e3)
    sources = len({move.broker for move in decision.moves})
    return Timing(lasted[0], statistics.median(lasted[1:]), len(decision.moves), sources)


def _report(name: str, ours: Timing, real: tuple[float, int] | None, bundles: int) -> None:
    print(f"\n{name}: {ours.moves:,} bundles from {ours.sources:,} brokers", flush=True)
    print(f"  ours: {ours.median_ms:.3f} ms a round, {ours.first_ms:.1f} ms on a fresh view")
    if real is None:
        return
    real_ms, moves = real
    same = "the same number of bundles" if moves == ours.moves else f"BUT {moves} bundles"
    ratio = real_ms / ours.median_ms
    print(f"  the real class: {real_ms:.2f} ms, {same}; ours is {ratio:,.1f} times as fast")
    if bundles < LARGE:
        bound = max(SMALL_MS, real_ms)
        print(f"  target {bound:.1f} ms: {'met' if ours.median_ms <= bound else 'MISSED'}")
    elif name == "AvgShedder":
        bound = max(AVG_MS, real_ms)
        print(f"  target {bound:.1f} ms: {'met' if ours.median_ms <= bound else 'MISSED'}")
    else:
        wanted = RATIO_TARGETS.get(name, 1.0)
        print(f"  target {wanted:.0f} times: {'met' if ratio >= wanted else 'MISSED'}")


def real_ms(load: dict[str, Any], name: str, bundles: int) -> tuple[float, int] | None:
    """Median milliseconds and moves of the real class; ``None`` without it."""
    command = driver_command("SheddingDriver")
    if isinstance(command, SkipReason):
        print(f"without the real class: {command}")
        return None
    ask = {
        "strategy": name,
        "conf": {key: str(value).lower() for key, value in CONF[name].items()},
        "recent": [],
        "rounds": [0],
        "calls": (6 if name == "UniformLoadShedder" else 1) if bundles >= LARGE else 100,
    }
    with tempfile.TemporaryDirectory() as folder:
        case = {"loads": [load], "asks": [ask]}
        (told,) = ask_real_classes([case], Path(folder), "SheddingDriver")
    calls = told["answers"][0]
    return statistics.median(ms for ms, _ in calls), calls[-1][1]


def load_of(snapshot: PulsarSnapshot) -> dict[str, Any]:
    """The snapshot as the driver reads it."""
    bundles = snapshot.bundles
    names = bundles.column("bundle").to_pylist()
    short = [bundles.column(f"short_{rate}").to_pylist() for rate in _RATES]
    reported: dict[str, list[str]] = {}
    for name, broker in zip(names, bundles.column("reported_by").to_pylist(), strict=True):
        reported.setdefault(broker, []).append(name)
    keys = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    brokers = {
        row["broker"]: {
            **{
                key: {"usage": row[f"{ours}_usage"], "limit": row[f"{ours}_limit"]}
                for key, ours in _RESOURCES.items()
            },
            **{key: row[rate] for key, rate in zip(keys, _RATES, strict=True)},
            "bundles": reported.get(row["broker"], []),
        }
        for row in snapshot.brokers.to_pylist()
    }
    order = np.argsort(np.array(names)).tolist()
    rates = list(zip(*short, strict=True))
    return {"brokers": brokers, "bundles": {names[row]: rates[row] for row in order}}


if __name__ == "__main__":
    main()
