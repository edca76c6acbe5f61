"""Generated questions about splits: where an algorithm cuts, what the managers' checks choose."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.pulsar.ring import topic_hash
from core.pulsar.split import ALGORITHMS, TopicLoads
from core.snapshot import Manifest, PulsarSnapshot

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FULL_UPPER = 0xFFFFFFFF
WHERE_SEEDS = range(600)
MODULAR_SEEDS = range(1_000, 1_200)
EXTENSIBLE_SEEDS = range(2_000, 2_150)
SPLIT_SEEDS = (*WHERE_SEEDS, *MODULAR_SEEDS, *EXTENSIBLE_SEEDS)
Case = dict[str, Any]


def where_case(seed: int) -> Case:
    """A bundle with topics, and an algorithm."""
    rng = random.Random(seed)
    algorithm = rng.choice(ALGORITHMS)
    parts = rng.choice((1, 1, 4, 16, 64))
    step = FULL_UPPER // parts
    index = rng.randrange(parts)
    lower = index * step
    upper = FULL_UPPER if index == parts - 1 else lower + step
    if rng.random() < 0.05:
        lower = rng.randrange(FULL_UPPER)
        upper = min(lower + rng.choice((1, 2, 3)), FULL_UPPER)
        lower = min(lower, upper - 1)
    namespace = f"acme/c{seed}"
    topics = _topics(rng, namespace, (lower, upper))
    conf = {
        "loadBalancerNamespaceBundleMaxMsgRate": rng.choice((100, 1000, 30_000)),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((1, 10, 100)),
        "flowOrQpsDifferenceThresholdPercentage": rng.choice((0, 10, 50)),
    }
    if algorithm == "flow_or_qps_equally_divide" or rng.random() < 0.2:
        conf["defaultNamespaceBundleSplitAlgorithm"] = "flow_or_qps_equally_divide"
    positions: list[int] = []
    if algorithm == "specified_positions_divide":
        positions = [_position(rng, lower, upper) for _ in range(rng.choice((1, 1, 2, 5)))]
        if rng.random() < 0.1:
            positions.append(positions[0])
    where = {
        "namespace": namespace,
        "lower": lower,
        "upper": upper,
        "topics": topics,
        "algorithm": algorithm,
        "positions": positions,
    }
    return {"conf": conf, "where": where}


def _position(rng: random.Random, lower: int, upper: int) -> int:
    edge = rng.choice((lower, upper, max(lower - 5, 0), min(upper + 5, FULL_UPPER)))
    return edge if rng.random() < 0.2 else rng.randrange(lower, upper + 1)


def _topics(
    rng: random.Random, namespace: str, bounds: tuple[int, int]
) -> list[tuple[str, float, float]]:
    wanted = rng.choice((0, 1, 2, 3, 3, 8, 20))
    found: list[tuple[str, float, float]] = []
    for number in range(4_000):
        if len(found) == wanted:
            break
        name = f"persistent://{namespace}/t{number}"
        if bounds[0] <= topic_hash(name) < bounds[1]:
            idle = rng.random() < 0.2
            rate = 0.0 if idle else rng.choice((rng.uniform(1, 900), 500.0, 20_000.0))
            found.append((name, rate, rate * rng.choice((0.0, 100.0, 2_000.0))))
    # the broker's own order is that of a hash map; by hash both sides add up alike
    return sorted(found, key=lambda topic: topic_hash(topic[0]))


def loads_of(case: Case) -> TopicLoads:
    """The case's topics as the kernels take them."""
    topics = case["where"]["topics"]
    return TopicLoads(
        names=tuple(topic[0] for topic in topics),
        hashes=np.array([topic_hash(topic[0]) for topic in topics], np.int64),
        msg_rate=np.array([topic[1] for topic in topics], np.float64),
        throughput=np.array([topic[2] for topic in topics], np.float64),
        sessions=np.zeros(len(topics), np.int64),
    )


def check_conf(rng: random.Random) -> dict[str, Any]:
    """Limits low enough to be met."""
    return {
        "loadBalancerNamespaceBundleMaxTopics": rng.choice((10, 1000)),
        "loadBalancerNamespaceBundleMaxSessions": rng.choice((-1, 0, 20, 1000)),
        "loadBalancerNamespaceBundleMaxMsgRate": rng.choice((100, 30_000)),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((1, 100)),
        "loadBalancerNamespaceMaximumBundles": rng.choice((5, 8, 128)),
    }


def _stats(rng: random.Random) -> dict[str, Any]:
    rate = rng.choice((0.0, 10.0, 100.0, 100.5, 30_000.0, 40_000.0))
    flow = rng.choice((0.0, 1_048_576.0, 1_048_577.0, 2e8))
    return {
        "msgRateIn": rate,
        "msgRateOut": 0.0,
        "msgThroughputIn": flow,
        "msgThroughputOut": 0.0,
        "consumerCount": rng.choice((0, 5, 600)),
        "producerCount": rng.choice((0, 15, 16, 401)),
        "topics": rng.choice((0, 1, 2, 10, 11, 1001)),
        "cacheSize": 0,
    }


def _bundles(rng: random.Random, spaces: int) -> dict[str, list[tuple[int, int]]]:
    found = {}
    for number in range(spaces):
        count = rng.choice((1, 4, 4, 8))
        step = FULL_UPPER // count
        edges = [*(index * step for index in range(count)), FULL_UPPER]
        if rng.random() < 0.2:
            edges.insert(1, 1)  # a bundle that is too narrow to be cut
        found[f"acme/n{number}"] = list(pairwise(edges))
    return found


def _name(namespace: str, bounds: tuple[int, int]) -> str:
    return f"{namespace}/0x{bounds[0]:08x}_0x{bounds[1]:08x}"


_NO_TRAFFIC: Final = dict.fromkeys(
    ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"), 0.0
)


def modular_case(seed: int) -> tuple[Case, PulsarSnapshot]:
    """Reports of a few brokers with averages, and the snapshot of the same."""
    rng = random.Random(seed)
    brokers = [f"10.0.0.{number}:8080" for number in range(1, rng.choice((2, 3, 6)) + 1)]
    spaces = _bundles(rng, rng.choice((1, 2, 5)))
    stats: dict[str, dict[str, Any]] = {name: {} for name in brokers}
    averages: dict[str, Any] = {}
    rows = []
    for namespace, ranges in spaces.items():
        for bounds in ranges:
            name, own, broker = _name(namespace, bounds), _stats(rng), rng.choice(brokers)
            stats[broker][name] = own
            mean = _stats(rng)
            if rng.random() < 0.9:
                averages[name] = {"longTermData": _average(mean), "shortTermData": _average(own)}
            # the class alone takes 0 for one without an average; a leader has one by then
            rows.append(_row(name, bounds, own, broker, mean if name in averages else _NO_TRAFFIC))
    counts = {name: len(ranges) for name, ranges in spaces.items()}
    conf = check_conf(rng)
    given = {"stats": stats, "averages": averages, "counts": counts}
    return {"conf": conf, "modular": given}, _snapshot(rows, brokers, spaces, "modular")


def _average(stats: dict[str, Any]) -> dict[str, Any]:
    names = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
    return {"maxSamples": 10, "numSamples": 5, **{name: stats[name] for name in names}}


def _row(
    name: str,
    bounds: tuple[int, int],
    stats: dict[str, Any],
    broker: str,
    mean: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "bundle": name,
        "namespace": name.rpartition("/")[0],
        "lower": bounds[0],
        "upper": bounds[1],
        "owner": broker,
        "owner_source": "ownership",
        "reported_by": broker,
        "is_broker_bound": False,
        "msg_rate_in": stats["msgRateIn"],
        "msg_rate_out": stats["msgRateOut"],
        "msg_throughput_in": stats["msgThroughputIn"],
        "msg_throughput_out": stats["msgThroughputOut"],
        "topic_count": stats["topics"],
        "producer_count": stats["producerCount"],
        "consumer_count": stats["consumerCount"],
        "long_msg_rate_in": mean and mean["msgRateIn"],
        "long_msg_rate_out": mean and mean["msgRateOut"],
        "long_msg_throughput_in": mean and mean["msgThroughputIn"],
        "long_msg_throughput_out": mean and mean["msgThroughputOut"],
    }


def _snapshot(
    rows: list[dict[str, Any]],
    brokers: list[str],
    spaces: dict[str, list[tuple[int, int]]],
    manager: str,
) -> PulsarSnapshot:
    manifest = Manifest(cluster="parity", taken_at=NOON, tables={}, release="4.2.4")
    namespaces = [
        {
            "namespace": name,
            "tenant": "acme",
            "boundaries": [ranges[0][0], *(part[1] for part in ranges)],
            "is_broker_bound": False,
        }
        for name, ranges in spaces.items()
    ]
    return PulsarSnapshot.build(
        replace(manifest, load_manager=manager),  # type: ignore[arg-type]  # one of the literals
        {
            "brokers": pa.Table.from_pylist([{"broker": b, "is_leader": False} for b in brokers]),
            **({"bundles": pa.Table.from_pylist(rows)} if rows else {}),
            "namespaces": pa.Table.from_pylist(namespaces),
        },
    )


def extensible_case(seed: int) -> tuple[Case, list[PulsarSnapshot]]:
    """Rounds of one broker's own statistics, and a snapshot of each."""
    rng = random.Random(seed)
    spaces = _bundles(rng, rng.choice((1, 2, 5)))
    every = [(_name(space, part), part) for space, ranges in spaces.items() for part in ranges]
    owned = {name for name, _ in every if rng.random() < 0.9}
    rounds, snapshots = [], []
    steady = {name: _stats(rng) for name, _ in every}
    for _ in range(6):
        now = {
            name: _stats(rng) if rng.random() < 0.15 else steady[name]
            for name, _ in every
            if rng.random() < 0.97
        }
        rounds.append(now)
        rows = [
            _row(name, part, now[name], "me:1" if name in owned else "other:1", None)
            for name, part in every
            if name in now
        ]
        snapshots.append(_snapshot(rows, ["me:1", "other:1"], spaces, "extensible"))
    conf = {
        **check_conf(rng),
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": rng.choice((0, 1, 3)),
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions."
        "ExtensibleLoadManagerImpl",
    }
    busy = []
    if rng.random() < 0.3:
        name, part = rng.choice(every)
        busy = [_name(name.rpartition("/")[0], (part[0], min(part[1] + 7, FULL_UPPER)))]
    given = {
        "rounds": rounds,
        "owned": sorted(owned),
        "busy": busy,
        "counts": {name: len(ranges) for name, ranges in spaces.items()},
    }
    return {"conf": conf, "extensible": given}, snapshots


def split_case(seed: int) -> tuple[Case, list[PulsarSnapshot]]:
    """Return the question of a seed, with the snapshots of those about checks."""
    if seed in WHERE_SEEDS:
        return where_case(seed), []
    if seed in MODULAR_SEEDS:
        case, snapshot = modular_case(seed)
        return case, [snapshot]
    return extensible_case(seed)


def is_concentrated(case: Case) -> bool:
    """Whether a namespace may run into its largest number of bundles: then order decides."""
    limit = case["conf"]["loadBalancerNamespaceMaximumBundles"]
    given = case.get("modular") or case["extensible"]
    return any(2 * count > limit for count in given["counts"].values())


def split_answer(case: Case, told: dict[str, Any]) -> Any:
    """Return what the Java driver told, in the form that is compared; ``None``: it is not."""
    if "where" in case:
        where = case["where"]
        if where["upper"] - where["lower"] <= 1 and where["algorithm"] == ALGORITHMS[0]:
            return None  # the class names the lower bound; what cuts refuses it, as ours does
        if "error" in told:
            return "error"
        return [told["positions"] or [], told.get("parts") or [], "refused" in told]
    if is_concentrated(case):
        return None
    if "modular" in case:
        # one that is too narrow is chosen, and dropped when its turn comes
        return sorted(name for name in told["chosen"] if not name.endswith("0_0x00000001"))
    return told["rounds"]
