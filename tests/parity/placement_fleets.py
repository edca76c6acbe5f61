"""Small generated fleets, told twice: to the real classes as JSON, to us as a snapshot.

Values come from short lists, so that ties, thresholds met exactly and filters that leave nobody
are common.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from core.ids import parse_range, range_text
from core.pulsar.ring import initial_boundaries
from core.snapshot import Manifest, PulsarSnapshot

IMPL: Final = "org.apache.pulsar.broker.loadbalance.impl."
MODULAR: Final = IMPL + "ModularLoadManagerImpl"
STRATEGIES: Final = (
    "LeastLongTermMessageRate",
    "LeastResourceUsageWithWeight",
    "RoundRobinBrokerSelector",
)
_RESOURCES: Final = {
    "cpu": "cpu",
    "memory": "memory",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}
BUNDLE_RATE: Final = 125.0
BUNDLE_TOPICS: Final = 7
_BUNDLE_DATA: Final = {"longTermData": {"msgRateIn": BUNDLE_RATE}, "topics": BUNDLE_TOPICS}
_VERSIONS: Final = ("4.2.4", "4.2.4", "4.2.3", "4.3.0-SNAPSHOT", "4.2.4+7", "4.2", None)


@dataclass
class Fleet:
    """One generated cluster.

    Attributes:
        seed: What it was made from.
        strategy: Configured placement strategy.
        conf: Upstream settings other than that.
        reports: ``{broker: load report}`` in upstream form.
        averages: ``{broker: long-term msg/s in}``.
        owned: ``{broker: bundles it reports}``.
        isolation: Policies by name.
        groups: Anti-affinity group by namespace.
        domains: Brokers by failure domain.
        preallocated: ``{bundle: broker}`` picked a moment ago, not reported yet.
        leader: Who leads; blank where that does not matter.
        placed: Bundles that the leader placed while it led; no report names them.
    """

    seed: int
    strategy: str
    conf: dict[str, object] = field(default_factory=dict)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    averages: dict[str, float] = field(default_factory=dict)
    owned: dict[str, list[str]] = field(default_factory=dict)
    isolation: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    domains: dict[str, list[str]] = field(default_factory=dict)
    preallocated: dict[str, str] = field(default_factory=dict)
    leader: str = ""
    placed: list[str] = field(default_factory=list)

    @property
    def bundles(self) -> list[str]:
        """Every bundle that somebody reports, sorted."""
        return sorted(bundle for bundles in self.owned.values() for bundle in bundles)

    def overrides(self) -> dict[str, object]:
        """Settings for us."""
        return {**self.conf, "loadBalancerLoadPlacementStrategy": IMPL + self.strategy}

    def case(self, questions: list[dict[str, Any]]) -> dict[str, Any]:
        """The fleet for the real classes."""
        return {
            "conf": {key: _as_text(value) for key, value in self.overrides().items()},
            "brokers": {
                broker: {
                    "report": report,
                    "average": {"longTermMsgRateIn": self.averages[broker]},
                    "bundles": [*self.owned[broker], *self._given(broker)],
                    "preallocated": dict.fromkeys(self._given(broker), _BUNDLE_DATA),
                }
                for broker, report in self.reports.items()
            },
            "isolation": self.isolation,
            "groups": self.groups,
            "domains": self.domains,
            "questions": questions,
        }

    def _given(self, broker: str) -> list[str]:
        return [bundle for bundle, given in self.preallocated.items() if given == broker]

    def snapshot(self, given: Mapping[str, str] | None = None) -> PulsarSnapshot:
        """The fleet for us; ``given``: who got what the leader placed."""
        manifest = Manifest(
            cluster="parity",
            taken_at=datetime(2026, 1, 1, tzinfo=UTC),
            tables={},
            load_manager="modular",
            leader=self.leader or None,
            release="4.2.4",
        )
        domain = {broker: name for name, members in self.domains.items() for broker in members}
        brokers = [
            _broker_row(name, report, self.averages[name], domain.get(name))
            for name, report in sorted(self.reports.items())
        ]
        owners: dict[str, str | None] = {
            name: broker for broker, names in self.owned.items() for name in names
        }
        owners |= {name: broker or None for name, broker in (given or {}).items()}
        bundles = [
            _bundle_row(bundle, broker, self.reports[broker].get("lastStats") if broker else {})
            for bundle, broker in owners.items()
        ]
        namespaces = [
            {
                "namespace": name,
                "tenant": name.partition("/")[0],
                "anti_affinity_group": self.groups.get(name),
                "is_broker_bound": False,
            }
            for name in sorted({row["namespace"] for row in bundles} | set(self.groups))
        ]
        policies = [
            {"kind": "isolation", "name": name, "body": json.dumps(body)}
            for name, body in self.isolation.items()
        ]
        settings = [{"name": "loadManagerClassName", "value": MODULAR, "origin": "default"}]
        rows = {"brokers": brokers, "bundles": bundles, "namespaces": namespaces}
        rows |= {"policies": policies, "settings": settings}
        if self.leader:
            rows["claims"] = _claims(owners, self.leader, set(given or ()))
            for row in brokers:  # a leader that reads these reports has its own averages
                row["long_msg_rate_in"] = row["long_msg_rate_out"] = None
        tables = {name: pa.Table.from_pylist(part) for name, part in rows.items() if part}
        return PulsarSnapshot.build(manifest, tables)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _broker_row(
    name: str, report: dict[str, Any], average: float, domain: str | None
) -> dict[str, Any]:
    row = {
        "broker": name,
        "is_leader": False,
        "version": report.get("brokerVersionString"),
        "load_manager": report.get("loadManagerClassName"),
        "persistent_topics_enabled": report["persistentTopicsEnabled"],
        "non_persistent_topics_enabled": report.get("nonPersistentTopicsEnabled", True),
        "msg_rate_in": report["msgRateIn"],
        "msg_rate_out": report["msgRateOut"],
        "topic_count": report["numTopics"],
        "bundle_count": len(report["bundles"]),
        "long_msg_rate_in": average,
        "long_msg_rate_out": 0.0,
        "failure_domain": domain,
    }
    for upstream, ours in _RESOURCES.items():
        row[f"{ours}_usage"] = report[upstream]["usage"]
        row[f"{ours}_limit"] = report[upstream]["limit"]
    return row


def _claims(owners: Mapping[str, str | None], leader: str, new: set[str]) -> list[dict[str, Any]]:
    """Znodes with their age: what the leader placed is younger than its own."""
    subjects = [("leader", "/loadbalance/leader", leader, 2_000)]
    subjects += [("bundle", name, owners[name], 1_000 + 2_000 * (name in new)) for name in owners]
    names = ("subject_kind", "subject", "broker", "created_at")
    return [dict(zip(names, row, strict=True)) | {"source": "znode"} for row in subjects]


def _bundle_row(bundle: str, broker: str | None, stats: Mapping[str, Any] | None) -> dict[str, Any]:
    namespace, _, span = bundle.rpartition("/")
    lower, upper = parse_range(span)
    row: dict[str, Any] = dict.fromkeys(
        ("reported_by", "msg_rate_in", "msg_rate_out", "topic_count")
    )
    row |= {
        "bundle": bundle,
        "namespace": namespace,
        "lower": lower,
        "upper": upper,
        "owner": broker,
        "is_broker_bound": False,
    }
    if stats is None:
        known = {"long_msg_rate_in": BUNDLE_RATE, "topic_count": BUNDLE_TOPICS}
        return row | known | {"reported_by": broker}
    if bundle in stats:
        rates = {"msg_rate_in": stats[bundle]["msgRateIn"], "msg_rate_out": 0.0}
        row |= rates | {"topic_count": stats[bundle]["topics"], "reported_by": broker}
    return row


def make_fleet(seed: int, strategy: str | None = None) -> Fleet:
    """Return the fleet of a seed; ``strategy`` fixes what the seed would choose."""
    rng = random.Random(seed)
    fleet = Fleet(seed, strategy or rng.choice(STRATEGIES))
    names = [f"10.0.{rng.randrange(3)}.{index}:8080" for index in range(rng.randrange(2, 15))]
    for name in names:
        fleet.reports[name] = make_report(rng)
        fleet.averages[name] = rng.choice((0.0, 0.0, 10.0, 10.0, 250.5, 9_000.0))
        fleet.owned[name] = []
    _give_bundles(rng, fleet)
    _set_policies(rng, fleet)
    _set_settings(rng, fleet)
    if fleet.bundles and rng.random() < 0.3:
        for bundle in rng.sample(fleet.bundles, min(3, len(fleet.bundles))):
            fleet.preallocated[bundle] = rng.choice(names)
    return fleet


def make_report(rng: random.Random) -> dict[str, Any]:
    """Return one load report, without bundles."""
    busy = rng.random() < 0.3
    levels = (86.0, 90.0, 99.0) if busy else (0.0, 10.0, 30.0, 30.0, 40.0, 60.0, 80.0, 85.0)
    report: dict[str, Any] = {
        upstream: {
            "usage": rng.choice(levels) * rng.choice((1, 1, 0.5)),
            "limit": rng.choice((100.0, 100.0, 100.0, 0.0, -1.0)),
        }
        for upstream in _RESOURCES
    }
    report["cpu"] = {"usage": rng.choice(levels), "limit": rng.choice((100.0, 100.0, 300.0))}
    report |= {
        "msgRateIn": rng.choice((0.0, 12.5, 100.0)),
        "msgRateOut": rng.choice((0.0, 12.5)),
        "numTopics": rng.choice((0, 10, 50_000, 50_001, 70_000)),
        "persistentTopicsEnabled": rng.random() < 0.93,
        "bundles": [],
        "loadManagerClassName": MODULAR if rng.random() < 0.95 else IMPL + "SimpleLoadManagerImpl",
    }
    version = rng.choice(_VERSIONS) if rng.random() < 0.4 else "4.2.4"
    if version is not None:
        report["brokerVersionString"] = version
    return report


def _give_bundles(rng: random.Random, fleet: Fleet) -> None:
    names = list(fleet.reports)
    spaces = ["acme/orders", "acme/audit", "globex/logs", "pulsar/system"]
    for space in rng.sample(spaces, rng.randrange(1, len(spaces) + 1)):
        bounds = initial_boundaries(rng.randrange(1, 9))
        for lower, upper in itertools.pairwise(bounds):
            fleet.owned[rng.choice(names)].append(f"{space}/{range_text(lower, upper)}")
        if rng.random() < 0.5:
            fleet.groups[space] = rng.choice(("g1", "G1", "g2", " "))
    for name, report in fleet.reports.items():
        report["bundles"] = fleet.owned[name]


def _set_policies(rng: random.Random, fleet: Fleet) -> None:
    hosts = [name.rpartition(":")[0] for name in fleet.reports]
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        some = rng.sample(hosts, rng.randrange(1, len(hosts) + 1))
        cut = rng.randrange(1, len(some) + 1)
        fleet.isolation[f"policy{number}"] = {
            "namespaces": [rng.choice(("acme/.*", "acme/orders", "globex/l[a-z]+", "other/.*"))],
            "primary": [rng.choice((*some[:cut], r"10\.0\.1\..*"))],
            "secondary": rng.choice(([".*"], some[cut:], [])),
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": rng.choice(("0", "1", "3")), "usage_threshold": "80"},
            },
        }
    for number in range(rng.choice((0, 0, 2, 3))):
        free = [n for n in fleet.reports if not any(n in m for m in fleet.domains.values())]
        if free:
            members = rng.sample(free, rng.randrange(1, len(free) + 1))
            fleet.domains[f"rack{number}"] = members


def _set_settings(rng: random.Random, fleet: Fleet) -> None:
    choices: dict[str, tuple[object, ...]] = {
        "loadBalancerDistributeBundlesEvenlyEnabled": (True, True, False),
        "preferLaterVersions": (False, False, True),
        "failureDomainsEnabled": (False, True),
        "loadBalancerBrokerOverloadedThresholdPercentage": (85, 85, 50),
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": (10, 10, 20, 0),
        "loadBalancerDirectMemoryResourceWeight": (0.0, 0.0, 1.0),
        "loadBalancerBandwidthInResourceWeight": (1.0, 1.0, 0.5),
        "loadBalancerBandwithOutResourceWeight": (1.0, 2.0),
        "loadBalancerSheddingExcludedNamespaces": ((), (), ("acme/orders",)),
    }
    for key, values in choices.items():
        value = rng.choice(values)
        if value != ():
            fleet.conf[key] = value
