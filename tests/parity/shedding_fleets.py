"""Generated fleets for the shedding classes: told to the real ones as JSON, to us as a snapshot.

Values come from short lists, so that ties, thresholds met exactly, brokers with nothing and bundles
without traffic are common. Everything follows from the seed.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from core.ids import is_broker_bound, parse_range, range_text
from core.pulsar.java.maps import natural_order
from core.pulsar.releases import Release
from core.pulsar.ring import initial_boundaries
from core.snapshot import Manifest, PulsarSnapshot

STRATEGIES: Final = ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder")
_RESOURCES: Final = {
    "cpu": "cpu",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}
_PARTS: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_SIZES: Final = (1, 2, 2, 3, 3, 4, 5, 6, 8, 11, 12, 13, 16, 24, 25, 40, 48, 96, 100, 200)

Rates = tuple[float, float, float, float]


@dataclass
class Load:
    """What one round sees.

    Attributes:
        reports: ``{broker: load report}`` in upstream form, with the bundles it names.
        rates: ``{bundle: short-term rates in, out, throughput in, out}``.
    """

    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)


@dataclass
class Fleet:
    """One generated cluster over some rounds.

    Attributes:
        seed: What it was made from.
        conf: Upstream settings that differ from the defaults.
        loads: One or more; a round names the one it sees.
        rounds: Index of the load of each round.
        recent: Bundles in their grace period.
    """

    seed: int
    conf: dict[str, object] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    recent: list[str] = field(default_factory=list)

    def case(self, strategies: tuple[str, ...] = STRATEGIES) -> dict[str, Any]:
        """The fleet for the real classes, with a question for each strategy."""
        conf = {key: _as_text(value) for key, value in self.conf.items()}
        loads = [{"brokers": load.reports, "bundles": load.rates} for load in self.loads]
        asks = [
            {"strategy": name, "conf": conf, "recent": self.recent, "rounds": self.rounds}
            for name in strategies
        ]
        return {"loads": loads, "asks": asks}

    def snapshot(self, load: Load) -> PulsarSnapshot:
        """One of its loads for us."""
        manifest = Manifest(
            cluster="parity",
            taken_at=datetime(2026, 1, 1, tzinfo=UTC),
            tables={},
            load_manager="modular",
            release="4.2.4",
        )
        rows = {
            "brokers": [_broker_row(name, report) for name, report in sorted(load.reports.items())],
            "bundles": [
                _bundle_row(bundle, broker, load.rates[bundle])
                for broker, report in load.reports.items()
                for bundle in report["bundles"]
            ],
        }
        spaces = sorted({row["namespace"] for row in rows["bundles"]})
        rows["namespaces"] = [
            {
                "namespace": name,
                "tenant": name.partition("/")[0],
                "is_broker_bound": is_broker_bound(name),
            }
            for name in spaces
        ]
        tables = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
        return PulsarSnapshot.build(manifest, tables)


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _broker_row(name: str, report: dict[str, Any]) -> dict[str, Any]:
    row = {
        "broker": name,
        "is_leader": False,
        "msg_rate_in": report["msgRateIn"],
        "msg_rate_out": report["msgRateOut"],
        "msg_throughput_in": report["msgThroughputIn"],
        "msg_throughput_out": report["msgThroughputOut"],
        "bundle_count": len(report["bundles"]),
    }
    for upstream, ours in (_RESOURCES | {"memory": "memory"}).items():
        if upstream not in report:
            continue
        row[f"{ours}_usage"] = report[upstream]["usage"]
        row[f"{ours}_limit"] = report[upstream]["limit"]
    return row


def _bundle_row(bundle: str, broker: str, rates: Rates) -> dict[str, Any]:
    namespace, _, span = bundle.rpartition("/")
    lower, upper = parse_range(span)
    return {
        "bundle": bundle,
        "namespace": namespace,
        "lower": lower,
        "upper": upper,
        "owner": broker,
        "reported_by": broker,
        "is_broker_bound": is_broker_bound(namespace),
        **{f"short_{part}": rate for part, rate in zip(_PARTS, rates, strict=True)},
    }


def make_fleet(seed: int, line: str = "4.2", count: int = 0) -> Fleet:
    """Return the fleet of a seed.

    Args:
        seed: Of everything.
        line: Release line; up to 4.0 the namespaces of the SLA monitor have other names.
        count: Brokers; 0: a number that follows from the seed.
    """
    rng = random.Random(seed)
    monitor = "sla-monitor" if line == "4.2" else "sla-monitor/parity"
    fleet = Fleet(seed)
    drawn = rng.choice(_SIZES)
    names = _in_order(_broker_names(rng, count or drawn))
    owned = _owned(rng, names, monitor)
    kind = rng.choice(("equal", "skewed", "quiet", "wild", "wild"))
    fleet.loads = [_load(rng, names, owned, kind)]
    if rng.random() < 0.35:  # the load changes between rounds, and now and then a broker leaves
        some = names if rng.random() < 0.6 else rng.sample(names, (len(names) + 1) // 2)
        stay = _in_order(some)
        fleet.loads.append(_load(rng, stay, {name: owned[name] for name in stay}, kind))
    rounds = rng.choice((1, 2, 3, 9, 10))
    fleet.rounds = [rng.randrange(len(fleet.loads)) for _ in range(rounds)]
    bundles = sorted(fleet.loads[0].rates)
    if bundles and rng.random() < 0.5:
        fleet.recent = sorted(rng.sample(bundles, rng.randrange(1, min(len(bundles), 20) + 1)))
    _set_settings(rng, fleet)
    if Release.of(line).rules.heap_is_weighed:
        _add_heap(fleet)
    return fleet


def _add_heap(fleet: Fleet) -> None:
    """Let brokers report JVM heap, which old releases weigh."""
    rng = random.Random(fleet.seed + 1_000_000)
    for load in fleet.loads:
        for report in load.reports.values():
            usage = rng.choice((0.0, 10.0, 40.0, 70.0, 85.0, 98.0, 150.0))
            report["memory"] = {"usage": usage, "limit": rng.choice((100.0, 100.0, 200.0, 0.0))}
    fleet.conf["loadBalancerMemoryResourceWeight"] = rng.choice((1.0, 1.0, 0.5, 0.0))


def _broker_names(rng: random.Random, count: int) -> list[str]:
    if rng.random() < 0.4:
        return [f"broker-{index}.pulsar.example:8080" for index in range(count)]
    return [f"10.{index % 3}.{index // 250}.{index % 250}:8080" for index in range(count)]


def _in_order(names: list[str]) -> list[str]:
    """The order in which keys are taken to come into Java's maps (deviation SHED-1)."""
    return [names[at] for at in natural_order(names)]


def _owned(rng: random.Random, names: list[str], monitor: str) -> dict[str, list[str]]:
    owned: dict[str, list[str]] = {name: [] for name in names}
    idle = {name for name in names if rng.random() < 0.1}
    destinations = [name for name in names if name not in idle] or names
    per_broker = rng.choice((1, 2, 4, 8, 20)) if len(names) <= 50 else rng.choice((1, 4, 12))
    wanted = max(1, per_broker * len(names))
    spaces = [f"acme/space-{index}" for index in range(1 + wanted // 64)]
    for space in (*spaces, "pulsar/system"):
        size = max(1, wanted // len(spaces)) if space != "pulsar/system" else 2
        bounds = initial_boundaries(size)
        for lower, upper in itertools.pairwise(bounds):
            name = rng.choice(destinations)
            if rng.random() < 0.02:
                name = destinations[0]
            owned[name].append(f"{space}/{range_text(lower, upper)}")
    for name in names:
        if rng.random() < 0.7:
            owned[name].append(f"pulsar/{name}/0x00000000_0xffffffff")
        if rng.random() < 0.1:
            owned[name].append(f"{monitor}/{name}/0x00000000_0xffffffff")
    namespaces = {bundle.rpartition("/")[0] for bundles in owned.values() for bundle in bundles}
    rank = {name: at for at, name in enumerate(_in_order(sorted(namespaces)))}
    for bundles in owned.values():
        bundles.sort(key=lambda bundle: (rank[bundle.rpartition("/")[0]], bundle))
    return owned


def _load(rng: random.Random, names: list[str], owned: dict[str, list[str]], kind: str) -> Load:
    load = Load()
    for name in names:
        for bundle in owned[name]:
            load.rates[bundle] = _rates(rng, kind)
        load.reports[name] = _report(rng, kind, [load.rates[b] for b in owned[name]])
        load.reports[name]["bundles"] = owned[name]
    return load


def _rates(rng: random.Random, kind: str) -> Rates:
    if kind == "equal":
        size = rng.choice((1_000_000.0, 1_000_000.0, 5_000_000.0))
        return (size / 1000, size / 1000, size, size)
    if kind == "quiet" or rng.random() < 0.2:
        return (0.0, 0.0, 0.0, 0.0)
    if kind == "skewed":
        size = rng.choice((10.0, 1e3, 1e5, 1e7)) * rng.random()
        return (size / 512, size / 512, size, 2 * size)
    rate = rng.choice((0.1, 12.5, 333.3, 5e3, 8e4)) * rng.choice((1, 1, rng.random()))
    return (rate, rate * rng.choice((0, 1, 3)), rate * 800.5, rate * rng.choice((0.0, 900.0)))


def _report(rng: random.Random, kind: str, rates: list[Rates]) -> dict[str, Any]:
    levels = (0.0, 10.0, 30.0, 40.0, 40.0, 60.0, 69.0, 70.0, 85.0, 86.0, 95.0, rng.random() * 100)
    report: dict[str, Any] = {
        upstream: {
            "usage": rng.choice(levels) * rng.choice((1, 0.5, 0.1)),
            "limit": rng.choice((100.0, 100.0, 100.0, 400.0, 0.0, -1.0)),
        }
        for upstream in _RESOURCES
    }
    report["cpu"] = {"usage": rng.choice(levels), "limit": rng.choice((100.0, 100.0, 300.0))}
    # the report's own sums need not be those of the averages
    factor = rng.choice((1.0, 1.0, 0.5, 3.0))
    extra = rng.choice((0.0, 0.0, 3e9)) if kind == "wild" and rng.random() < 0.2 else 0.0
    sums = [sum(part) * factor + extra for part in zip(*rates, strict=True)] or [0.0] * 4
    keys = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    return report | dict(zip(keys, sums, strict=True))


def _set_settings(rng: random.Random, fleet: Fleet) -> None:
    choices: dict[str, tuple[object, ...]] = {
        "loadBalancerBrokerOverloadedThresholdPercentage": (85, 85, 50, 40, 0),
        "loadBalancerBrokerThresholdShedderPercentage": (10, 10, 5, 0, 30),
        "loadBalancerHistoryResourcePercentage": (0.9, 0.9, 0.5, 0.0, 1.0),
        "loadBalancerBundleUnloadMinThroughputThreshold": (10.0, 1.0, 0.0),
        "lowerBoundarySheddingEnabled": (False, True),
        "loadBalancerMsgRateDifferenceShedderThreshold": (50.0, 50.0, 10.0, 0.0, -1.0),
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": (4.0, 4.0, 1.5, 0.0),
        "minUnloadMessage": (1000, 0, 100),
        "minUnloadMessageThroughput": (1_048_576, 0, 1000),
        "maxUnloadPercentage": (0.2, 0.2, 0.5, 1.0),
        "maxUnloadBundleNumPerShedding": (-1, -1, 3, 1, 0),
        "loadBalancerAvgShedderLowThreshold": (15, 15, 5, 0),
        "loadBalancerAvgShedderHighThreshold": (40, 40, 20),
        "loadBalancerAvgShedderHitCountLowThreshold": (8, 8, 2, 1),
        "loadBalancerAvgShedderHitCountHighThreshold": (2, 2, 1),
        "loadBalancerCPUResourceWeight": (1.0, 1.0, 0.0, 100.0),
        "loadBalancerDirectMemoryResourceWeight": (0.0, 0.0, 1.0),
        "loadBalancerBandwidthInResourceWeight": (1.0, 1.0, 0.5, 1e6),
        "loadBalancerBandwithOutResourceWeight": (1.0, 2.0),
    }
    for key, values in choices.items():
        fleet.conf[key] = rng.choice(values)
