"""Generated clusters of the extensible manager: what brokers publish, and what is registered."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from core.pulsar.snapshot.load_topics import LoadTopics, with_load_topics
from core.schemas.pulsar import CLAIMS
from core.snapshot import Manifest, PulsarSnapshot
from core.snapshot.problems import ProblemLog

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
TRANSFER_SEEDS = range(500)
OLD_TRANSFERS = ("3.2.2", "4.0.0")
OLD_TRANSFER_SEEDS = (*range(180), *range(400, 430))
POLICED_SEEDS = range(400, 500)
SIZES = (1, 2, 2, 3, 3, 4, 5, 5, 6, 8, 11, 12, 13, 20, 24, 25, 40, 100, 200)


@dataclass
class TransferFleet:
    """One cluster with a question."""

    seed: int
    now_ms: int
    conf: dict[str, Any] = field(default_factory=dict)
    brokers: dict[str, dict[str, Any]] = field(default_factory=dict)
    loads: dict[str, dict[str, Any]] = field(default_factory=dict)
    tops: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    gave_at: dict[str, int] = field(default_factory=dict)
    rounds: int = 5
    policies: dict[str, Any] = field(default_factory=dict)

    def case(self) -> dict[str, Any]:
        """As the Java driver reads it."""
        policed = (
            {"policies": self.policies, "chain": self.checked_bundles()} if self.policies else {}
        )
        return {
            **policed,
            "conf": {
                name: ",".join(value) if isinstance(value, list) else value
                for name, value in self.conf.items()
            },
            "brokers": self.brokers,
            "loads": self.loads,
            "tops": self.tops,
            "owners": self.owners,
            "recent_bundles": self.recent,
            "gave_at": self.gave_at,
            "rounds": self.rounds,
            "draws": 60 + 40 * len(self.brokers) if len(self.brokers) <= 25 else 0,
        }

    def checked_bundles(self) -> list[str]:
        """One bundle of each namespace: what the filters leave is the same for the others."""
        return sorted({name.rpartition("/")[0]: name for name in sorted(self.owners)}.values())

    def snapshot(self) -> PulsarSnapshot:
        """As a capture would have it."""
        names = sorted({*self.owners, *(e["bundleName"] for t in self.tops.values() for e in t)})
        tables = {
            "brokers": pa.Table.from_pylist(
                [
                    {
                        "broker": name,
                        "is_leader": False,
                        "version": facts["brokerVersion"],
                        "load_manager": facts["loadManagerClassName"],
                        "persistent_topics_enabled": True,
                        "non_persistent_topics_enabled": True,
                    }
                    for name, facts in sorted(self.brokers.items())
                ]
            ),
            "bundles": pa.Table.from_pylist(
                [
                    {
                        "bundle": name,
                        "namespace": name.rpartition("/")[0],
                        "lower": int(name.rpartition("/")[2][:10], 16),
                        "upper": int(name.rpartition("/")[2][11:], 16),
                        "owner": self.owners.get(name),
                        "owner_source": "rest",
                        "is_broker_bound": False,
                    }
                    for name in names
                ]
            ),
        }
        tables |= self._policy_tables()
        # sessions that live: the real class has no other notion of a broker's death
        tables["claims"] = pa.Table.from_pylist(
            [
                {
                    "subject_kind": "broker",
                    "subject": name,
                    "source": "znode",
                    "broker": name,
                    "session_id": at,
                }
                for at, name in enumerate(sorted(self.brokers), 1)
            ],
            schema=CLAIMS,
        )
        manifest = Manifest(
            cluster="parity",
            taken_at=datetime.fromtimestamp(self.now_ms / 1000, tz=UTC),
            tables={},
            load_manager="extensible",
            release="4.2.4",
        )
        bare = PulsarSnapshot.build(manifest, {name: t for name, t in tables.items() if len(t)})
        topics = LoadTopics(
            broker_loads={name: json.dumps(load).encode() for name, load in self.loads.items()},
            top_bundles={
                name: json.dumps({"topBundlesLoadData": top}).encode()
                for name, top in self.tops.items()
            },
            is_read=True,
        )
        problems = ProblemLog()
        whole = with_load_topics(bare.tables, topics, problems)
        assert len(problems) == 0, problems.named()
        return PulsarSnapshot.build(manifest, whole)

    def _policy_tables(self) -> dict[str, pa.Table]:
        if not self.policies:
            return {}
        spaces = [
            {
                "namespace": name,
                "tenant": "acme",
                "anti_affinity_group": group,
                "is_broker_bound": False,
            }
            for name, group in self.policies["groups"].items()
        ]
        rows = [("isolation", name, body) for name, body in self.policies["isolation"].items()] + [
            ("failure_domain", name, {"brokers": members})
            for name, members in self.policies["domains"].items()
        ]
        kept = [{"kind": kind, "name": name, "body": json.dumps(body)} for kind, name, body in rows]
        made = {"namespaces": spaces, "policies": kept}
        return {name: pa.Table.from_pylist(part) for name, part in made.items() if part}


def make_transfer_fleet(seed: int) -> TransferFleet:
    """Build the cluster of a seed."""
    rng = random.Random(seed)
    now_ms = int(time.time() * 1000)
    fleet = TransferFleet(seed, now_ms, conf=_conf(rng))
    is_policed = seed in POLICED_SEEDS
    count = rng.choice([size for size in SIZES if size <= 25] if is_policed else SIZES)
    names = [f"10.{rng.randrange(3)}.{row // 200}.{row % 200 + 1}:8080" for row in range(count)]
    style = rng.choice(("even", "spread", "hot", "idle", "equal", "tiny", "full"))
    serial = 0
    for name in names:
        fleet.brokers[name] = _lookup(name, rng, odd=rng.random() < 0.04)
        if rng.random() < 0.01:
            continue  # published nothing yet
        usage = _usage(rng, style)
        top, serial = _top(rng, serial, usage)
        if rng.random() > 0.04:
            fleet.tops[name] = top
        fleet.loads[name] = _load(rng, usage, top, now_ms)
        for entry in top:
            owner = name if rng.random() > 0.05 else rng.choice(names)
            fleet.owners[entry["bundleName"]] = owner
            if rng.random() < 0.05:
                fleet.recent.append(entry["bundleName"])
    if rng.random() < 0.15:
        name = rng.choice(names)
        fleet.gave_at[name] = now_ms - rng.choice((10, 150, 400, 900)) * 1000
    if is_policed:
        _add_policies(fleet, rng)
    return fleet


def _add_policies(fleet: TransferFleet, rng: random.Random) -> None:
    """Isolation by host, anti-affinity groups in either case, failure domains."""
    hosts = [name.partition(":")[0].replace(".", "\\.") for name in fleet.brokers]
    isolation = {}
    for number in range(rng.choice((0, 1, 2))):
        isolation[f"p{number}"] = {
            "namespaces": [f"acme/n{rng.randrange(9)}"],
            "primary": rng.sample(hosts, min(len(hosts), rng.choice((1, 2)))),
            "secondary": rng.sample(hosts, min(len(hosts), rng.choice((0, 1, 2)))),
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": str(rng.choice((1, 2))), "usage_threshold": "80"},
            },
        }
    grouped = rng.sample(range(9), rng.choice((0, 2, 4)))
    names = list(fleet.brokers)
    fleet.policies = {
        "isolation": isolation,
        "groups": {f"acme/n{row}": rng.choice(("pair", "PAIR", "other")) for row in grouped},
        "domains": {"d1": names[::2], "d2": names[1::3]} if rng.random() < 0.5 else {},
    }
    fleet.conf["failureDomainsEnabled"] = rng.random() < 0.5
    fleet.conf["loadBalancerSheddingBundlesWithPoliciesEnabled"] = rng.random() < 0.6


def _conf(rng: random.Random) -> dict[str, Any]:
    conf: dict[str, Any] = {
        "loadBalancerBrokerLoadTargetStd": rng.choice((0.25, 0.25, 0.1, 0.05, 0.01, 0.4)),
        "loadBalancerSheddingConditionHitCountThreshold": rng.choice((3, 0, 0, 1, 2)),
        "loadBalancerTransferEnabled": rng.random() < 0.8,
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": rng.choice((3, 3, 1, 10)),
        "loadBalancerDebugModeEnabled": rng.random() < 0.3,
        "loadBalancerBrokerOverloadedThresholdPercentage": rng.choice((85, 85, 60)),
    }
    if rng.random() < 0.2:
        conf["loadBalancerBrokerMaxTopics"] = rng.choice((20, 40))
    if rng.random() < 0.1:
        conf["preferLaterVersions"] = True
    if rng.random() < 0.2:
        conf["loadBalancerSheddingExcludedNamespaces"] = ["acme/n1", "acme/n2"]
    return conf


def _lookup(name: str, rng: random.Random, *, odd: bool) -> dict[str, Any]:
    return {
        "webServiceUrl": f"http://{name}",
        "pulsarServiceUrl": f"pulsar://{name.partition(':')[0]}:6650",
        "advertisedListeners": {},
        "protocols": {},
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "loadManagerClassName": MODULAR if odd and rng.random() < 0.5 else EXTENSIBLE,
        "startTimestamp": 1,
        "brokerVersion": "4.0.8" if odd else "4.2.4",
        "properties": {},
    }


def _usage(rng: random.Random, style: str) -> float:
    if style == "equal":
        return 0.5
    if style == "hot":
        return rng.choice((0.2, 0.25, 0.3, 0.97))
    if style == "idle":
        return rng.choice((0.0, 0.5, 0.55, 0.6))
    spans = {
        "even": (0.45, 0.55),
        "spread": (0.0, 1.0),
        "tiny": (0.0, 0.001),
        "full": (0.8, 1.5),
    }
    low, high = spans[style]
    return rng.uniform(low, high)


def _top(rng: random.Random, serial: int, usage: float) -> tuple[list[dict[str, Any]], int]:
    scale = rng.choice((1e3, 1e6, 3e7)) * (usage + 0.05)
    rates = [
        0.0 if rng.random() < 0.06 else rng.choice((rng.uniform(0.1, 3.0), 1.0)) * scale
        for _ in range(rng.choice((0, 1, 2, 3, 5, 8, 10)))
    ]
    entries = []
    for rate in sorted(rates):
        serial += 1
        lower = serial * 0x10000
        share = rng.random()
        entries.append(
            {
                "bundleName": f"acme/n{serial % 9}/0x{lower:08x}_0x{lower + 0x10000:08x}",
                "stats": {
                    "msgRateIn": rate / 1000,
                    "msgThroughputIn": rate * share,
                    "msgRateOut": rate / 1000,
                    "msgThroughputOut": rate * (1 - share),
                    "consumerCount": 1,
                    "producerCount": 1,
                    "topics": 2,
                    "cacheSize": 10,
                },
            }
        )
    return entries, serial


def _load(
    rng: random.Random, usage: float, top: list[dict[str, Any]], now_ms: int
) -> dict[str, Any]:
    flows = {
        way: sum(entry["stats"][f"msgThroughput{way}"] for entry in top)
        * rng.choice((1.0, 1.0, 1.3))
        for way in ("In", "Out")
    }
    old = rng.random() < 0.02
    plain = {"usage": usage * 100, "limit": 100.0}
    return {
        "cpu": plain,
        "memory": {"usage": 1.0, "limit": 100.0},
        "directMemory": {"usage": 1.0, "limit": 100.0},
        "bandwidthIn": {"usage": 0.0, "limit": 1000.0},
        "bandwidthOut": {"usage": 0.0, "limit": 1000.0},
        "msgThroughputIn": flows["In"],
        "msgThroughputOut": flows["Out"],
        "msgRateIn": 1.0,
        "msgRateOut": 1.0,
        "bundleCount": len(top),
        "topics": rng.choice((5, 19, 20, 40, 60)),
        "maxResourceUsage": usage,
        "weightedMaxEMA": usage,
        "msgThroughputEMA": (flows["In"] + flows["Out"]) * rng.choice((1.0, 1.0, 0.9, 0.02)),
        "updatedAt": now_ms - (3_000_000 if old else rng.randrange(1_000, 60_000)),
        "reportedAt": 0,
    }


def transfer_answer(fleet: TransferFleet, told: dict[str, Any]) -> dict[str, Any]:
    """Return what the Java driver told, in the form that is compared."""
    rounds, before = [], {}
    for real in told["rounds"]:
        new = [
            name.partition(":")[2]
            for name, count in real["reasons"].items()
            if count > before.get(name, 0) and name.startswith("Skip")
        ]
        before = real["reasons"]
        moves = sorted([source, unit, to] for source, unit, to, _ in real["moves"])
        rounds.append([moves, sorted(new)])
    return {
        "rounds": rounds,
        "gave_at": told["gave_at"],
        "picked": sorted(told["picked"]) if fleet.owners and fleet.loads else [],
        "chain": told.get("chain", {}) if fleet.loads else {},
    }
