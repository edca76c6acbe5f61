"""Generated Pulsar fleets: deterministic, uneven, of any size, in conforming tables.

``make_snapshot()`` is a fleet of 12 brokers and 600 bundles in 10 namespaces of 3 tenants: two hot
brokers, one idle new broker, some bundles that moved during the last hour and one that goes to and
fro. The same arguments always give the same snapshot, and ``minutes_ago`` walks back through the
same fleet's past.
"""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.schemas import PULSAR_TABLES
from core.schemas.pulsar import RATES, RESOURCES
from core.snapshot import Manifest, Problem, PulsarSnapshot, TableManifest

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TENANTS = ("acme", "globex", "initech")
NAMES = (
    "orders",
    "payments",
    "clicks",
    "metrics",
    "audit",
    "sessions",
    "invoices",
    "alerts",
    "events",
    "mail",
)
CPU_LIMIT_PCT = 800.0
NIC_KBIT_PER_S = 2_000_000.0
HEAP_MIB = 16_384.0
DIRECT_MIB = 32_768.0
FULL_UPPER = 0xFFFFFFFF

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_snapshot(
    *,
    brokers: int = 12,
    bundles: int = 600,
    seed: int = 7,
    minutes_ago: float = 0.0,
    now: datetime = NOON,
    cluster: str = "fleet",
    topics_of: str | None = None,
    missing: tuple[str, ...] = (),
    problems: tuple[Problem, ...] = (),
) -> PulsarSnapshot:
    """Build one snapshot of a generated fleet.

    Args:
        brokers: Brokers; the last one owns nothing, the first two are hot.
        bundles: Bundles of ordinary namespaces; each broker's heartbeat bundle comes on top.
        seed: Everything random follows from it.
        minutes_ago: How far before ``now`` the snapshot was taken.
        now: Aware UTC.
        cluster: Trimtab's name for the cluster.
        topics_of: Bundle whose topics are in the topics table.
        missing: Tables that could not be read: empty, with a problem each.
        problems: Further problems.
    """
    taken_at = now - timedelta(minutes=minutes_ago)
    names = broker_names(brokers)
    space = _space(bundles, seed)
    owner = _owner(space["count"], brokers, seed, minutes_ago)
    rates = _bundle_rates(space["count"], owner, brokers, seed, minutes_ago)
    tables = {
        "brokers": _brokers(names, owner, rates, seed, taken_at),
        "bundles": _bundles(names, space, owner, rates, minutes_ago),
        "namespaces": _namespaces(names, space),
        "settings": _settings(names),
        "policies": _policies(names, space["namespaces"]),
    }
    tables["bundles"] = tables["bundles"].sort_by(
        [("namespace", "ascending"), ("lower", "ascending")]
    )
    if topics_of is not None:
        tables["topics"] = make_topics(tables["bundles"], topics_of)
    for name in missing:
        tables.pop(name, None)
    gone = tuple(
        Problem(
            code="unreachable",
            place=f"zookeeper 127.0.0.1:2181 {name}",
            what=f"The {name} could not be read: no answer within 5 s.",
            done=f"The snapshot has no {name}.",
            severity="error",
        )
        for name in missing
    )
    manifest = Manifest(
        cluster=cluster,
        taken_at=taken_at,
        duration_s=0.42,
        pulsar_cluster=cluster,
        load_manager="modular",
        leader=names[0],
        release="4.2.4",
        tables={
            name: TableManifest(
                source="none" if name in missing else "zookeeper",
                rows=0,
                expected=table.num_rows,
                oldest_at=round(taken_at.timestamp() * 1000) - 4_000,
            )
            for name, table in (tables | {m: pa.table({"x": [1]}) for m in missing}).items()
        },
        problems=(*problems, *gone),
    )
    return PulsarSnapshot.build(manifest, tables)


def make_history(
    count: int, *, every_minutes: float = 1.0, now: datetime = NOON, **options: object
) -> list[PulsarSnapshot]:
    """Build ``count`` snapshots of the same fleet, oldest first, the last one taken at ``now``."""
    return [
        make_snapshot(minutes_ago=step * every_minutes, now=now, **options)  # type: ignore[arg-type]  # options are make_snapshot's own
        for step in range(count - 1, -1, -1)
    ]


def broker_names(count: int) -> list[str]:
    """Names ``10.1.x.y:8080`` in the order of the snapshot's rows (sorted as text)."""
    return sorted(f"10.1.{index // 250}.{index % 250 + 1}:8080" for index in range(count))


def namespace_names(count: int) -> list[str]:
    """Names ``tenant/namespace``, spread over the tenants."""
    return sorted(
        f"{TENANTS[index % len(TENANTS)]}/{NAMES[index % len(NAMES)]}"
        + ("" if index < len(NAMES) else f"-{index // len(NAMES)}")
        for index in range(count)
    )


def make_topics(bundles: pa.Table, bundle: str, count: int = 8) -> pa.Table:
    """Topics whose hashes really fall into ``bundle``; their rates add up to the bundle's."""
    row = bundles.filter(pa.compute.equal(bundles["bundle"], bundle)).to_pylist()[0]
    found: list[tuple[int, str]] = []
    number = 0
    while len(found) < count and number < 200_000:
        topic = f"persistent://{row['namespace']}/topic-{number}"
        digest = zlib.crc32(topic.encode())
        if row["lower"] <= digest < row["upper"]:
            found.append((digest, topic))
        number += 1
    found.sort()
    share = 1.0 / np.arange(1, len(found) + 1)
    share /= share.sum() or 1.0
    table = {
        "topic": [topic for _, topic in found],
        "bundle": [bundle] * len(found),
        "hash": [digest for digest, _ in found],
        "producer_count": [2] * len(found),
        "consumer_count": [3] * len(found),
        "subscription_count": [1] * len(found),
        "backlog": [120 * index for index in range(len(found))],
        "storage_bytes": [10_000_000 + index for index in range(len(found))],
    } | {name: (share * (row[name] or 0.0)).tolist() for name in RATES}
    return pa.Table.from_pydict(
        {name: table[name] for name in PULSAR_TABLES["topics"].names},
        schema=PULSAR_TABLES["topics"],
    )


def _space(bundles: int, seed: int) -> dict[str, object]:
    """Namespaces of uneven size that cut the ring evenly; bundle rows in namespace order."""
    namespaces = namespace_names(max(1, min(10, bundles)) if bundles <= 2_000 else bundles // 500)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2.0, len(namespaces))
    sizes = np.maximum(1, np.floor(weight / weight.sum() * bundles)).astype(np.int64)
    sizes[0] += max(0, bundles - int(sizes.sum()))
    boundaries = [
        np.append(np.arange(size, dtype=np.int64) * (FULL_UPPER // size), FULL_UPPER)
        for size in sizes
    ]
    return {
        "namespaces": namespaces,
        "boundaries": boundaries,
        "of": np.repeat(np.arange(len(namespaces)), sizes),
        "lower": np.concatenate([edges[:-1] for edges in boundaries]),
        "upper": np.concatenate([edges[1:] for edges in boundaries]),
        "count": int(sizes.sum()),
    }


def _owner(count: int, brokers: int, seed: int, minutes_ago: float) -> Ints:
    """Owner index per bundle; about one in forty had another owner earlier in the last hour."""
    rng = np.random.default_rng(seed + 1)
    weight = rng.uniform(0.6, 1.4, brokers)
    weight[: max(1, brokers // 6)] = 2.2
    if brokers > 2:
        weight[-1] = 0.0
    owner = rng.choice(brokers, size=count, p=weight / weight.sum())
    before = rng.integers(0, max(1, brokers - 1), count)
    moved_at = rng.uniform(1.0, 60.0, count)
    moved = (rng.random(count) < 0.025) & (minutes_ago > moved_at)
    owner = np.where(moved, before, owner)
    if count > 3 and brokers > 2:  # one bundle goes to and fro every eight minutes
        owner[3] = int(minutes_ago // 8) % 2
    return owner.astype(np.int64)


def _bundle_rates(
    count: int, owner: Ints, brokers: int, seed: int, minutes_ago: float
) -> dict[str, Floats]:
    rng = np.random.default_rng(seed + 2)
    share = 1.0 / np.arange(1, count + 1) ** (0.85 if count <= 2_000 else 0.4)
    share = rng.permutation(share / share.sum())
    rng_now = np.random.default_rng(seed + 3 + round(minutes_ago * 10))
    wave = 1.0 + 0.25 * np.sin(2 * np.pi * (minutes_ago / 90.0))
    noise = rng_now.normal(1.0, 0.04, count).clip(0.7, 1.3)
    bytes_in = share * brokers * 46e6 * wave * noise
    size = rng.uniform(300.0, 3_000.0, count)
    fan_out = rng.uniform(0.8, 2.5, count)
    return {
        "msg_rate_in": bytes_in / size,
        "msg_rate_out": bytes_in / size * fan_out,
        "msg_throughput_in": bytes_in,
        "msg_throughput_out": bytes_in * fan_out,
    }


def _sums(owner: Ints, values: Floats, brokers: int) -> Floats:
    return np.bincount(owner, weights=values, minlength=brokers)


def _brokers(
    names: list[str], owner: Ints, rates: dict[str, Floats], seed: int, taken_at: datetime
) -> pa.Table:
    count = len(names)
    rng = np.random.default_rng(seed + 4)
    taken_ms = round(taken_at.timestamp() * 1000)
    totals = {name: _sums(owner, values, count) for name, values in rates.items()}
    kbit = {side: totals[f"msg_throughput_{side}"] / 125.0 for side in ("in", "out")}
    usage = {
        "cpu": (40.0 + 640.0 * kbit["out"] / NIC_KBIT_PER_S + rng.uniform(0, 60, count)).clip(
            0, 795
        ),
        "memory": 2_000.0 + rng.uniform(0, 6_000, count),
        "direct_memory": 1_000.0
        + 18_000.0 * kbit["in"] / NIC_KBIT_PER_S
        + rng.uniform(0, 900, count),
        "bandwidth_in": kbit["in"],
        "bandwidth_out": kbit["out"],
    }
    limits = {
        "cpu": CPU_LIMIT_PCT,
        "memory": HEAP_MIB,
        "direct_memory": DIRECT_MIB,
        "bandwidth_in": NIC_KBIT_PER_S,
        "bandwidth_out": NIC_KBIT_PER_S,
    }
    owned = np.bincount(owner, minlength=count)
    columns: dict[str, object] = {
        "broker": names,
        "web_url": [f"http://{name}" for name in names],
        "service_url": [f"pulsar://{name.rpartition(':')[0]}:6650" for name in names],
        "version": ["4.2.4"] * count,
        "load_manager": ["org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"]
        * count,
        "is_leader": [index == 0 for index in range(count)],
        "started_at": [
            taken_ms - 86_400_000 * (1 if index < count - 1 else 0) - 3_600_000
            for index in range(count)
        ],
        "reported_at": (taken_ms - rng.integers(1_000, 40_000, count)).tolist(),
        "persistent_topics_enabled": [True] * count,
        "non_persistent_topics_enabled": [True] * count,
        "topic_count": (owned * 9).tolist(),
        "bundle_count": (owned + 1).tolist(),
        "producer_count": (owned * 14).tolist(),
        "consumer_count": (owned * 21).tolist(),
        "last_bundle_gains": [[] for _ in names],
        "last_bundle_losses": [[] for _ in names],
        "failure_domain": [f"zone-{'abc'[index % 3]}" for index in range(count)],
    }
    for resource in RESOURCES:
        columns[f"{resource}_usage"] = usage[resource].tolist()
        columns[f"{resource}_limit"] = [limits[resource]] * count
        columns[f"{resource}_ratio"] = (usage[resource] / limits[resource]).tolist()
    for name, values in totals.items():
        columns[name] = values.tolist()
        columns[f"short_{name}"] = (values * rng.uniform(0.95, 1.05, count)).tolist()
        columns[f"long_{name}"] = (values * rng.uniform(0.8, 1.1, count)).tolist()
    return pa.Table.from_pydict(columns)


def _bundles(
    names: list[str],
    space: dict[str, object],
    owner: Ints,
    rates: dict[str, Floats],
    minutes_ago: float,
) -> pa.Table:
    count = len(owner)
    namespaces = np.array(space["namespaces"], dtype=object)[space["of"]]
    lower, upper = space["lower"], space["upper"]
    bundle = [
        f"{namespace}/0x{low:08x}_0x{up:08x}"
        for namespace, low, up in zip(
            namespaces.tolist(), lower.tolist(), upper.tolist(), strict=True
        )
    ]
    owners = np.array(names, dtype=object)[owner]
    rng = np.random.default_rng(11)
    topics = rng.integers(1, 18, count)
    own = [f"pulsar/{name}" for name in names]
    columns: dict[str, list[object]] = {
        "bundle": bundle + [f"{namespace}/0x00000000_0xffffffff" for namespace in own],
        "namespace": namespaces.tolist() + own,
        "lower": lower.tolist() + [0] * len(own),
        "upper": upper.tolist() + [FULL_UPPER] * len(own),
        "owner": owners.tolist() + names,
        "owner_source": ["ownership"] * (count + len(own)),
        "reported_by": owners.tolist() + names,
        "is_broker_bound": [False] * count + [True] * len(own),
        "topic_count": topics.tolist() + [1] * len(own),
        "producer_count": (topics * 2).tolist() + [1] * len(own),
        "consumer_count": (topics * 3).tolist() + [1] * len(own),
        "cache_size_bytes": (topics * 1_000_000).tolist() + [0] * len(own),
        "short_samples": [10] * (count + len(own)),
        "long_samples": [int(max(1, 1_000 - minutes_ago))] * (count + len(own)),
        "averaged_topic_count": topics.tolist() + [1] * len(own),
    }
    quiet = [0.1] * len(own)
    for name, values in rates.items():
        columns[name] = values.tolist() + quiet
        columns[f"short_{name}"] = (values * rng.uniform(0.9, 1.1, count)).tolist() + quiet
        columns[f"long_{name}"] = (values * rng.uniform(0.7, 1.1, count)).tolist() + quiet
    return pa.Table.from_pydict(columns)


def _namespaces(names: list[str], space: dict[str, object]) -> pa.Table:
    ordinary: list[str] = space["namespaces"]  # type: ignore[assignment]  # see _space
    boundaries = [edges.tolist() for edges in space["boundaries"]]  # type: ignore[attr-defined]  # see _space
    own = [f"pulsar/{name}" for name in names]
    grouped = set(ordinary[1:3])
    table = pa.Table.from_pydict(
        {
            "namespace": ordinary + own,
            "tenant": [name.partition("/")[0] for name in ordinary + own],
            "boundaries": boundaries + [[0, FULL_UPPER] for _ in own],
            "boundaries_source": ["local-policies"] * (len(ordinary) + len(own)),
            "anti_affinity_group": ["pair" if name in grouped else None for name in ordinary + own],
            "resource_group": pa.nulls(len(ordinary) + len(own), pa.string()),
            "replication_clusters": [["fleet"] for _ in ordinary + own],
            "is_broker_bound": [False] * len(ordinary) + [True] * len(own),
        }
    )
    return table.sort_by("namespace")


def _settings(names: list[str]) -> pa.Table:
    rows = [
        (
            None,
            "loadBalancerLoadPlacementStrategy",
            "org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate",
            "default",
        ),
        (None, "loadBalancerEnabled", "true", "default"),
        (None, "loadBalancerReportUpdateMaxIntervalMinutes", "1", "file"),
        (None, "loadBalancerSheddingEnabled", "false", "dynamic"),
        (names[-1], "loadBalancerReportUpdateMaxIntervalMinutes", "15", "default"),
    ]
    columns = list(zip(*rows, strict=True))
    return pa.Table.from_pydict(
        {
            name: list(column)
            for name, column in zip(("broker", "name", "value", "origin"), columns, strict=True)
        },
        schema=PULSAR_TABLES["settings"],
    )


def _policies(names: list[str], namespaces: object) -> pa.Table:
    ordinary: list[str] = namespaces  # type: ignore[assignment]  # see _space
    hosts = [name.rpartition(":")[0].replace(".", "\\.") for name in names]
    half = max(1, len(hosts) // 3)
    isolation = {
        "namespaces": [ordinary[-1]],
        "primary": hosts[:half],
        "secondary": hosts[half : 2 * half],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }
    rows: list[tuple[str, str, str]] = [
        ("failure_domain", f"zone-{letter}", json.dumps({"brokers": names[index::3]}))
        for index, letter in enumerate("abc")
    ]
    rows.append(("isolation", "first-third", json.dumps(isolation)))
    return pa.Table.from_pydict(
        {
            "kind": [row[0] for row in rows],
            "name": [row[1] for row in rows],
            "body": [row[2] for row in rows],
        }
    )
