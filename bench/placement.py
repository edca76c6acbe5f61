"""How fast placement is, against Pulsar's own class in the same run.

    .venv/bin/python bench/placement.py [--brokers 1000] [--bundles 100000] [--isolation]

Prints milliseconds for one bundle (reasons for every broker included), seconds for all bundles at
once, and how many times faster that is than one call of ``ModularLoadManagerImpl#selectBroker``
(4.2.4, warmed up, on the same fleet) for each. Without Pulsar's jars or a JDK the ratio is left
out, with the reason. ``--isolation`` keeps the generated fleet's policy of some hundred host
expressions, which the real class matches anew for every bundle; without it there is none.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from fleet_builder import make_snapshot
from placement_driver import ask_real_classes, driver_command
from pulsar_jars import SkipReason

from core.pulsar.placement import STRATEGY_NAMES, place_all, place_bundle
from core.pulsar.settings import effective_settings
from core.pulsar.view import LoadView
from core.snapshot import PulsarSnapshot

IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
CALLS: Final = 3_000
SAMPLE: Final = 300
TARGET_ONE_MS: Final = 20.0
TARGET_RATIO: Final = 50.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--brokers", type=int, default=1_000)
    arguments.add_argument("--bundles", type=int, default=100_000)
    arguments.add_argument("--isolation", action="store_true")
    options = arguments.parse_args()
    snapshot = make_snapshot(brokers=options.brokers, bundles=options.bundles)
    if not options.isolation:
        tables = {**snapshot.tables, "policies": snapshot.policies.slice(0, 0)}
        snapshot = PulsarSnapshot.build(snapshot.manifest, tables)
    counts = [table.num_rows for table in (snapshot.bundles, snapshot.namespaces)]
    print(f"{options.brokers:,} brokers, {counts[0]:,} bundles, {counts[1]:,} namespaces")
    settings = effective_settings(snapshot)
    started = time.perf_counter()
    view = LoadView.of(snapshot, settings)
    print(f"load view: {(time.perf_counter() - started) * 1e3:.0f} ms")
    real_ms = _real_ms(snapshot, view)
    for strategy in STRATEGY_NAMES:
        _report(view, settings, strategy, real_ms.get(strategy))


def _report(view: LoadView, settings: Any, strategy: str, real_ms: float | None) -> None:
    step = max(len(view.bundles) // SAMPLE, 1)
    sampled = view.bundles[::step].tolist()
    first = _ms(lambda: place_bundle(view, sampled[0], settings, strategy=strategy))
    each = [
        _ms(lambda b=name: place_bundle(view, b, settings, strategy=strategy)) for name in sampled
    ]
    whole = min(_ms(lambda: place_all(view, settings, strategy=strategy)) for _ in range(3))
    slowest = sorted(each)[int(len(each) * 0.99)]
    print(f"\n{strategy}")
    print(
        f"  one bundle: median {statistics.median(each):.2f} ms, p99 {slowest:.2f} ms, "
        f"first {first:.1f} ms (target {TARGET_ONE_MS:.0f} ms)"
    )
    print(f"  all bundles: {whole / 1e3:.3f} s")
    if real_ms is not None:
        all_ms = real_ms * len(view.bundles)
        verdict = "met" if all_ms / whole >= TARGET_RATIO else "MISSED"
        print(
            f"  the real class: {real_ms:.3f} ms a call, {all_ms / 1e3:.1f} s for all; "
            f"{all_ms / whole:,.0f} times faster in bulk (target {TARGET_RATIO:.0f}: {verdict})"
        )


def _ms(ask: Callable[[], object]) -> float:
    started = time.perf_counter()
    ask()
    return (time.perf_counter() - started) * 1e3


def _real_ms(snapshot: PulsarSnapshot, view: LoadView) -> dict[str, float]:
    """Milliseconds of one call of the real class by strategy; empty without it."""
    command = driver_command()
    if isinstance(command, SkipReason):
        print(f"without the real class: {command}")
        return {}
    step = max(len(view.bundles) // CALLS, 1)
    question = {"bundle": view.bundles[0], "bundles": view.bundles[::step].tolist(), "calls": CALLS}
    brokers = _brokers(snapshot, view)
    common = {
        "brokers": brokers,
        "isolation": _isolation(snapshot),
        "groups": _groups(snapshot),
        "domains": {},
        "questions": [question],
    }
    cases = [
        {**common, "conf": {"loadBalancerLoadPlacementStrategy": IMPL + strategy}}
        for strategy in STRATEGY_NAMES
    ]
    with tempfile.TemporaryDirectory() as folder:
        # 1,000 brokers x 100,000 bundles take the real classes many minutes
        told = ask_real_classes(cases, Path(folder), limit_s=3_600.0)
    return {
        strategy: answer["answers"][0]["ms_per_call"]
        for strategy, answer in zip(STRATEGY_NAMES, told, strict=True)
    }


def _brokers(snapshot: PulsarSnapshot, view: LoadView) -> dict[str, Any]:
    """The brokers as the driver reads them, with the bundles that each reports."""
    reported: dict[str, list[str]] = {name: [] for name in view.brokers}
    for name, row in zip(view.bundles.tolist(), view.reporter.tolist(), strict=True):
        if row >= 0:
            reported[view.brokers[row]].append(name)
    resources = {
        "cpu": "cpu",
        "memory": "memory",
        "directMemory": "direct_memory",
        "bandwidthIn": "bandwidth_in",
        "bandwidthOut": "bandwidth_out",
    }
    return {
        row["broker"]: {
            "report": {
                **{
                    key: {"usage": row[f"{ours}_usage"], "limit": row[f"{ours}_limit"]}
                    for key, ours in resources.items()
                },
                "msgRateIn": row["msg_rate_in"],
                "msgRateOut": row["msg_rate_out"],
                "numTopics": row["topic_count"],
                "bundles": reported[row["broker"]],
                "brokerVersionString": row["version"],
                "loadManagerClassName": row["load_manager"],
            },
            "average": {
                "longTermMsgRateIn": row["long_msg_rate_in"],
                "longTermMsgRateOut": row["long_msg_rate_out"],
            },
            "bundles": reported[row["broker"]],
        }
        for row in snapshot.brokers.to_pylist()
    }


def _isolation(snapshot: PulsarSnapshot) -> dict[str, Any]:
    return {
        row["name"]: json.loads(row["body"])
        for row in snapshot.policies.to_pylist()
        if row["kind"] == "isolation"
    }


def _groups(snapshot: PulsarSnapshot) -> dict[str, str]:
    return {
        row["namespace"]: row["anti_affinity_group"]
        for row in snapshot.namespaces.to_pylist()
        if row["anti_affinity_group"]
    }


if __name__ == "__main__":
    main()
